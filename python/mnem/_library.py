"""The shared library: found, loaded, and asked with exceptions instead of statuses.

MNEM_LIBRARY names a file; otherwise it is the package's own copy, then the system's libmnem.so."""
# mypy: ignore-errors
import ctypes as C
import os

from . import _declarations as D


class Error(RuntimeError):
    """What the library refused, in its own words; `status` is the number of a mnem_status."""

    def __init__(self, text, status=None):
        super().__init__(text)
        self.status = status


class OverBudget(Error):
    """Does not fit. `needed`: bytes that are enough (None: not known); `budget`: bytes allowed;
    `least`: `needed` as a text for memory=; `knob`: the option that would help instead, as
    (name, value), or None."""

    def __init__(self, text, needed=None, budget=None, least=None, knob=None):
        super().__init__(text, D.MNEM_OVER_BUDGET)
        self.needed, self.budget, self.least, self.knob = needed, budget, least, knob


class Cancelled(Error):
    """The work was stopped by another thread."""


def _path():
    if os.environ.get("MNEM_LIBRARY"):
        return os.environ["MNEM_LIBRARY"]
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libmnem.so")
    if os.path.exists(here):
        return here
    from ctypes.util import find_library  # takes longer to import than all the rest
    found = find_library("mnem")
    if found:
        return found
    raise ImportError("mnem: there is no libmnem.so: install it, or set MNEM_LIBRARY to its path")


# Called for each token, and over at once: they keep the interpreter's lock, for which a call that gave it up
# would wait 5 ms if another thread is busy. None of them calls back or waits.
_QUICK = {"mnem_last_error", "mnem_tokenizer_piece", "mnem_tokenizer_is_end", "mnem_sampler_accept",
          "mnem_sampler_accept_chosen", "mnem_sampler_choose", "mnem_sequence_length"}


class _Functions:
    """The library's functions, each with its types from the first time that it is named."""

    def __init__(self, path):
        self._library, self._quick = C.CDLL(path), C.PyDLL(path)

    def __getattr__(self, name):
        try:
            result, arguments = D.FUNCTIONS[name]
        except KeyError:
            raise AttributeError(name) from None
        function = getattr(self._quick if name in _QUICK else self._library, name)
        function.restype, function.argtypes = result, arguments
        setattr(self, name, function)
        return function


def declare(functions):
    """More functions for lib, of a module that make_declarations wrote."""
    D.FUNCTIONS.update(functions)


lib = _Functions(_path())
VERSION = lib.mnem_version().decode()


def last_error():
    return lib.mnem_last_error().decode(errors="replace")


def check(status):
    """Raises for every status but MNEM_OK. The text is this thread's last error."""
    if status == D.MNEM_OK:
        return
    text = last_error() or lib.mnem_status_text(status).decode()
    if status == D.MNEM_OVER_BUDGET:
        raise OverBudget(text)
    if status == D.MNEM_CANCELLED:
        raise Cancelled(text, status)
    raise Error(text, status)


def size_parse(size):
    """Bytes of 67108864, "64M" or "64MiB"; None: 0."""
    if size is None:
        return 0
    out = C.c_uint64()
    check(lib.mnem_size_parse(str(size).encode(), C.byref(out)))
    return out.value


def size_text(size):
    return lib.mnem_size_format(size, C.create_string_buffer(24), 24).decode()


def size_budget(size):
    return lib.mnem_size_budget(size, C.create_string_buffer(24), 24).decode()


def text_of(text):
    """The bytes of a mnem_text."""
    return C.string_at(text.bytes, text.length) if text.length else b""


def _float_text(value):
    """The shortest decimals that are this 32-bit number."""
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if C.c_float(float(text)).value == value:
            break
    return text


def value_text(value):
    """A mnem_value as a text; None for a list."""
    if value.type == D.MNEM_VALUE_STRING:
        return text_of(value.text).decode(errors="replace")
    if value.type == D.MNEM_VALUE_BOOL:
        return "true" if value.u else "false"
    if value.type in (D.MNEM_VALUE_F32, D.MNEM_VALUE_F64):
        return _float_text(value.f) if value.type == D.MNEM_VALUE_F32 else repr(value.f)
    if value.type in (D.MNEM_VALUE_I8, D.MNEM_VALUE_I16, D.MNEM_VALUE_I32, D.MNEM_VALUE_I64):
        return str(value.i)
    return None if value.type == D.MNEM_VALUE_ARRAY else str(value.u)
