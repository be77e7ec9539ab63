"""Logits as the caller's callback sees them: a read-only view of memory that Python owns, so that a view
that is kept too long shows later logits, and never memory that was given back."""
import array
import ctypes as C
import sys


class Shown:
    def __init__(self, vocab):
        self.vocab = vocab
        self.bytes = bytearray(4 * vocab)
        self.pointer = C.cast((C.c_char * len(self.bytes)).from_buffer(self.bytes), C.POINTER(C.c_float))
        self.floats = memoryview(self.bytes).cast("f")

    def ask(self, on_logits, ids, logits):
        """What on_logits(ids, view) makes of the logits, as a pointer: None leaves them as they are."""
        C.memmove(self.pointer, logits, len(self.bytes))
        numpy = sys.modules.get("numpy")
        view = self.floats.toreadonly()
        if numpy:
            view = numpy.frombuffer(view, numpy.float32)
        made = on_logits(list(ids), view)
        if made is None or made is view:
            return logits
        if len(made) != self.vocab:
            raise ValueError(f"mnem: on_logits returned {len(made)} logits, expected {self.vocab}")
        if numpy:
            numpy.frombuffer(self.floats, numpy.float32)[:] = made
        else:
            self.floats[:] = array.array("f", made)
        return self.pointer


class Copied:
    """A run that takes the logits behind ids: an array of floats, NumPy's if the program uses it."""

    silent = False

    def __init__(self, ids, vocab):
        self.ids = list(ids)
        self.floats = array.array("f", bytes(4 * vocab))

    def choose(self, logits):
        C.memmove(self.floats.buffer_info()[0], logits, 4 * len(self.floats))

    def take(self):
        return False

    @property
    def result(self):
        numpy = sys.modules.get("numpy")
        return numpy.asarray(self.floats) if numpy else self.floats
