"""Chat templates, which mnem renders itself (mnem/template.h): jinja2 isn't needed."""
import ctypes as C
import json

from .. import _declarations as D
from .._library import check, lib, text_of


def _json(value):
    return None if value is None else json.dumps(value).encode()


class Template:
    """A template that was opened. It belongs to one thread at a time."""

    def __init__(self, source):
        self.source, self.template = source, C.POINTER(D.mnem_template)()
        data = source.encode()
        check(lib.mnem_template_open(data, len(data), None, C.byref(self.template)))

    def _input(self, messages, tools, bos, eos, ask, arguments):
        return D.mnem_template_input(
            messages=_json(messages), tools=_json(tools or None), arguments=_json(arguments or None),
            bos=None if bos is None else bos.encode(), eos=None if eos is None else eos.encode(),
            add_generation_prompt=ask)

    def render(self, messages, tools=None, bos="", eos="", ask=True, arguments=None):
        text = D.mnem_text()
        check(lib.mnem_template_render(self.template, C.byref(self._input(
            messages, tools, bos, eos, ask, arguments)), C.byref(text)))
        return text_of(text).decode(errors="replace")

    def encode(self, tokenizer, messages, tools=None):
        """Ids, in which what messages and tools say is plain text, never a control token."""
        ids, count = C.POINTER(C.c_int32)(), C.c_size_t()
        check(lib.mnem_template_encode(self.template, tokenizer, C.byref(self._input(
            messages, tools, None, None, True, None)), C.byref(ids), C.byref(count)))
        return ids[:count.value]

    def close(self):
        lib.mnem_template_close(self.template)
        self.template = None

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter is ending
            pass
