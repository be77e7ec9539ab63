"""What a person and a log are told while a model opens."""
import sys
import time

from . import _declarations as D
from ._library import size_text

_PATIENCE = 0.5  # seconds without a word


class Progress:
    """Says on a terminal how far the loading is, once it takes a while; and ends it where its job is
    cancelled."""

    def __init__(self, job):
        self.job = job
        self.begin = self.said = time.monotonic()
        self.watched = sys.stderr is not None and sys.stderr.isatty()
        self.shown = False
        self.options = D.mnem_progress(tell=D.mnem_progress._fields_[0][1](self.tell))

    def tell(self, _context, what, done, total):
        now = time.monotonic()
        if self.watched and now - self.begin > _PATIENCE and now - self.said > 0.1:
            self.said, self.shown = now, True
            of = f" of {size_text(total)}" if total else ""
            sys.stderr.write(f"\r\033[Kmnem: {what.decode()}, {size_text(done)}{of}")
            sys.stderr.flush()
        return not self.job.cancelled

    def end(self):
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def log(text, *values):
    """To the logger "mnem", where the program uses logging at all: importing it takes time."""
    logging = sys.modules.get("logging")
    if logging:
        logging.getLogger("mnem").info(text, *values)
