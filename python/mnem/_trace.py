"""Trace: a recording of what the library does with its bytes and its time, for report and for viewers.

The library's recording is created, written and destroyed by one thread, which is a worker of its own here: a
Trace may be closed by any thread."""
# mypy: allow-untyped-calls
import contextlib
import ctypes as C
import os
from types import TracebackType
from typing import Any, Iterator, Optional, Type, Union

from . import _declarations_more as D
from ._budget import process
from ._library import VERSION, Error, check, declare, lib
from ._report import Report, report
from ._worker import Worker

declare(D.FUNCTIONS)


class Trace:
    """Records charges of the budget, blocks of pools, operators, steps and reads of this process, until close
    (or the end of `with`) writes them. One trace records at a time.

    path: its ending selects the format: .pftrace, .perfetto or .json (ui.perfetto.dev), .pickle (PyTorch's
    memory viewer), .folded (a flame graph of the peak). The sums by kind are those of a budget that exists
    when the trace begins.

        with mnem.Trace("run.pftrace") as trace:
            with trace.span("load"):
                llm = mnem.LLM("model.gguf", memory="300M")
            ...
        print(trace.report())
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = os.fspath(path)
        self.dropped = 0  # events that were lost; known once it is closed
        self._trace = C.POINTER(D.mnem_trace)()
        self._worker: Any = Worker("mnem trace")
        try:
            self._worker.call(self._begin)
        except BaseException:
            self._worker.end()
            raise

    def _begin(self, job: Any) -> None:
        options = D.mnem_trace_options(path=os.fsencode(self.path), ledger=process.ledger)
        check(lib.mnem_trace_create(C.byref(options), C.byref(self._trace)))
        check(lib.mnem_trace_note(self._trace, b"verb", b"python"))
        check(lib.mnem_trace_note(self._trace, b"version", VERSION.encode()))

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A named span of the calling thread."""
        lib.mnem_trace_begin(name.encode())
        try:
            yield
        finally:
            lib.mnem_trace_end(name.encode())

    def counter(self, name: str, value: int) -> None:
        """Records the current value of a counter, in bytes."""
        lib.mnem_trace_counter(name.encode(), value)

    def note(self, key: str, value: str) -> None:
        """Records a property of the whole run."""
        if not self._trace:
            raise Error("mnem: the trace is closed")
        check(lib.mnem_trace_note(self._trace, key.encode(), value.encode()))

    def report(self) -> Report:
        """What mnem.report says of the file, once it is written."""
        return report(self.path)

    def _end(self, job: Any) -> None:
        trace, self._trace = self._trace, C.POINTER(D.mnem_trace)()
        info = D.mnem_trace_info()
        try:
            check(lib.mnem_trace_write(trace))
        finally:
            lib.mnem_trace_info_get(trace, C.byref(info))
            self.dropped = info.dropped
            lib.mnem_trace_destroy(trace)

    def close(self) -> None:
        """Ends the recording and writes the file; calling it again does nothing."""
        if self._trace:
            try:
                self._worker.call(self._end)
            finally:
                self._worker.end()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is ending
            pass

    def __repr__(self) -> str:
        return f"<mnem.Trace to {self.path}{'' if self._trace else ', closed'}>"
