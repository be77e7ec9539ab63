"""The process's budget: one ledger, of which each LLM has a share.

A process has one ledger, which lasts until it ends. Budget(...) sets its size. Without one, the first LLM's
memory= is the size; a later LLM may raise it, and lowers it only where no other LLM is open. What the process
had when the ledger was made counts; what the rest of the program takes later doesn't."""
# mypy: ignore-errors
import contextlib
import ctypes as C
import os
import threading

from . import _declarations as D
from ._library import OverBudget, check, lib, size_budget, size_parse, size_text
from ._tables import Ledger

_ROOM = 64 << 20  # beyond the budget, while a refusal is worked out


class _Process:
    def __init__(self):
        self.lock = threading.RLock()  # held while an LLM opens: its bytes are told from others'
        self.ledger = None
        self.size = 0  # bytes of the budget
        self.given = False  # by a Budget
        self.engines = set()  # of the LLMs that are open

    def renew(self):
        """In a forked child, where another thread may have held the lock."""
        self.lock = threading.RLock()

    def info(self):
        info = D.mnem_ledger_info()
        if self.ledger:
            lib.mnem_ledger_info_get(self.ledger, C.byref(info))
        return info

    def accounts(self):
        accounts = []
        while self.ledger:
            account = D.mnem_account_info()
            if not lib.mnem_ledger_account_get(self.ledger, len(accounts), C.byref(account)):
                break
            accounts.append(account)
        return accounts

    def set(self, size):
        """Makes the ledger, or gives it this size; what is live may be more until a plan refuses it."""
        if self.ledger is None:
            self.ledger = self._created(size)
            self.size = size or self.info().budget_bytes
        elif size:
            self.size = size
            self.limit()

    def limit(self, room=0):
        """The ledger's limit is the size, or what is live where that is more, and room."""
        while True:
            size = max(self.size, self.info().bytes_live) + room
            if lib.mnem_ledger_budget_set(self.ledger, size) == D.MNEM_OK:
                return

    @staticmethod
    def _created(size):
        made = C.POINTER(D.mnem_ledger)()
        options = D.mnem_ledger_options(budget_bytes=size, preparing=True)
        status = lib.mnem_ledger_create_process(C.byref(options), C.byref(made))
        if status == D.MNEM_OVER_BUDGET:  # so much is resident: a plan refuses it, with numbers
            options = D.mnem_ledger_options()
            status = lib.mnem_ledger_create_process(C.byref(options), C.byref(made))
        check(status)
        return made

    def share(self, memory):
        """The Share of an LLM that opens now. memory: bytes, or 0 for what is left."""
        alone = not self.given and not self.engines
        if self.ledger is None or (memory and not self.given and (alone or memory > self.size)):
            self.set(memory)
        return Share(self, 0 if alone else memory)


class Share:
    """What one LLM may take of the ledger: memory bytes (0: what is left), its tables included."""

    def __init__(self, process, memory):
        self.process, self.memory = process, memory
        self.before = process.info().bytes_live

    @contextlib.contextmanager
    def raised(self):
        """The ledger lets through more than its budget, so that a plan can say what would be enough."""
        self.process.limit(_ROOM)
        try:
            yield
        finally:
            self.process.limit()

    def opened(self):
        """The model's tables are there, and the plan is next."""
        self.tables = self.process.info().bytes_live - self.before

    def moved(self):
        """Others may have taken bytes since then, or given some back."""
        self.before = self.process.info().bytes_live - self.tables

    def plan_bytes(self):
        """What a plan that is made now may add to what is live."""
        live = self.process.info().bytes_live
        left = self.process.size - live
        if self.memory:
            left = min(left, self.memory - (live - self.before))
        return max(left, 1)

    def explain(self, refusal, needed):
        """Sets the numbers of a refusal, and says them. needed: bytes of the whole process that are
        enough."""
        size, whole = self.process.size, not self.memory or needed > self.process.size
        if whole:
            refusal.needed, refusal.budget = needed, size
        else:
            refusal.needed, refusal.budget = needed - self.before, self.memory
        refusal.least = size_budget(refusal.needed)
        over = size_text(max(refusal.needed - refusal.budget, 0))
        least = "mnem.Budget(%r)" if whole and self.process.given else "memory=%r"
        knob = _KNOBS.get(refusal.knob[0]) if refusal.knob else None
        knob = f"{knob.format(refusal.knob[1])}; as it is, " if knob else ""
        refusal.args = (f"plan: {'the process' if whole else 'the model'} needs {_bytes(refusal.needed)}, "
                        f"{'the budget' if whole else 'its share'} is {_bytes(refusal.budget)}, {over} over: "
                        f"{knob}the least is {least % refusal.least}",)


_KNOBS = {"chunk": "chunk={} would fit", "kv": "kv={!r} would fit", "ctx": "ctx={} would fit",
          "model": "a file of a smaller type needs less (mnem quantize writes one)"}


def _bytes(size):
    return f"{size} bytes ({size_text(size)})"


process = _Process()
os.register_at_fork(after_in_child=process.renew)


class Budget:
    """The budget of the process, of which each LLM's memory= is a share: Budget("4G"), or bytes. There is
    one; another Budget sets its size anew. OverBudget: more is charged already, and the size stays."""

    def __init__(self, size):
        size = size_parse(size)
        with process.lock:
            before = process.size
            process.set(size)
            live = process.info().bytes_live
            if live > process.size:
                least, asked = size_budget(live), process.size
                process.size = before or process.info().budget_bytes
                process.limit()
                raise OverBudget(f"mnem: {_bytes(live)} are charged already, the budget is {_bytes(asked)}:"
                                 f' the least is "{least}"', live, asked, least)
            process.given = True

    @property
    def size(self):
        """Bytes of the budget."""
        return process.size

    @property
    def used(self):
        """Bytes that are charged now."""
        return process.info().bytes_live

    @property
    def peak(self):
        """The most bytes that were charged at once."""
        return process.info().bytes_peak

    @property
    def ledger(self):
        """What is charged now, by kind and tag; it prints as a table."""
        return Ledger(process.info(), process.accounts())

    def __repr__(self):
        return f"<mnem.Budget of {size_text(self.size)}, {size_text(self.used)} used>"
