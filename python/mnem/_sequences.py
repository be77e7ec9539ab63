"""Sequences: what an engine holds of texts, and the steps that run texts together."""
import ctypes as C
import os

from . import _declarations as D
from ._library import Cancelled, Error, check, lib


_SHARED = 16  # tokens that several prompts begin with, from which on they are computed once


def _common(a, b, most):
    """How many of the first `most` are alike."""
    if a[:most] == b[:most]:
        return most
    return next(i for i in range(most) if a[i] != b[i])


class _Beginning:
    """A run of what several prompts begin with, behind which no token is chosen."""

    silent = True

    def __init__(self, ids):
        self.ids = ids


class Slot:
    """One sequence of the engine, and the ids that it holds. run: what uses it now, or None."""

    def __init__(self):
        self.sequence = C.POINTER(D.mnem_sequence)()
        self.held = []
        self.run = None
        self.used = 0

    def common(self, ids):
        """How many of its tokens begin ids, of which one is left to run."""
        n = min(len(self.held), len(ids) - 1, lib.mnem_sequence_length(self.sequence)
                if self.sequence else 0)
        return _common(self.held, ids, n)

    def truncate(self, n):
        if self.sequence and lib.mnem_sequence_truncate(self.sequence, n) != D.MNEM_OK:
            check(lib.mnem_sequence_truncate(self.sequence, 0))


    def fork(self, of, n):
        """Begins as another slot does; False: states of recurrent layers can't be shared."""
        lib.mnem_sequence_destroy(self.sequence)
        self.sequence, self.held = C.POINTER(D.mnem_sequence)(), []
        status = lib.mnem_sequence_fork(of.sequence, n, C.byref(self.sequence))
        if status == D.MNEM_UNSUPPORTED:
            return False
        check(status)
        self.held = of.held[:n]
        return True


class Sequences:
    """count: how many texts run together at the most. A run has ids, which grow, and choose(logits), which
    is called inside of a step behind the last of them; none is chosen where it is silent."""

    def __init__(self, engine, count):
        self.engine = engine
        self.slots = [Slot() for _ in range(count)]
        self.active = []  # the slots of a step's parts
        self.time = 0
        self.failure = None  # of a choice inside of a step
        self.on_logits = D.mnem_on_step_logits(self._choose)

    def close(self):
        """The engine destroys what is open with itself."""
        self.slots, self.active, self.on_logits = [], [], None

    def drop(self):
        """Gives up what they hold, and their places."""
        for slot in self.slots:
            lib.mnem_sequence_destroy(slot.sequence)
            slot.sequence, slot.held = C.POINTER(D.mnem_sequence)(), []

    def reset(self):
        for slot in self.slots:
            slot.truncate(0)
            slot.held = []

    @property
    def last(self):
        """The slot that was used last."""
        return max(self.slots, key=lambda slot: slot.used)

    # ---- runs ----

    def take(self, run):
        """Gives a run the free slot that holds most of the beginning of its ids; of equals, the one that
        hasn't been used for longest."""
        free = [slot for slot in self.slots if slot.run is None]
        common = {slot: slot.common(run.ids) for slot in free}
        slot = max(free, key=lambda one: (common[one], -one.used))
        if not slot.sequence:
            check(lib.mnem_sequence_create(self.engine.engine, C.byref(slot.sequence)))
        slot.truncate(common[slot])
        self.time += 1
        slot.held, slot.run, slot.used = run.ids, run, self.time
        return slot

    def share(self, job, runs):
        """Where several begin alike: computes that once, for as many sequences as will run together."""
        count = min(len(runs), len(self.slots))
        if count < 2:
            return
        first, n = runs[0].ids, min(len(run.ids) for run in runs) - 1
        for run in runs:
            n = _common(run.ids, first, n)
        if n < _SHARED:
            return
        one = self.take(_Beginning(first[:n] + first[n:n + 1]))  # of which the last is left to run
        one.held = first[:n]
        try:
            if lib.mnem_sequence_length(one.sequence) < n:
                self.step(job, [one])
        finally:
            one.run = None
        others = sorted((slot for slot in self.slots if slot is not one), key=lambda slot: slot.used)
        for slot in others[:count - 1]:
            if slot.common(first) < n and not slot.fork(one, n):
                return

    def run(self, job, runs):
        """Runs all to their ends, as many at once as there are sequences."""
        waiting, slots = list(reversed(runs)), []
        self.share(job, runs)
        try:
            while waiting or slots:
                while waiting and len(slots) < len(self.slots):
                    slots.append(self.take(waiting.pop()))
                self.step(job, slots)
                ended = [slot for slot in slots if not slot.run.take()]
                if len(slots) - len(ended) == 1 and not waiting:
                    ended += [slot for slot in slots if slot not in ended and slot.run.plain and
                              self.finish(job, slot)]
                for slot in ended:
                    slot.run = None
                    slots.remove(slot)
        finally:
            for slot in slots:
                slot.run = None

    def step(self, job, slots):
        """Runs what the slots don't hold of their ids; each last one's logits choose a token. A request to
        cancel that an earlier job's end left over stops nothing."""
        for slot in slots:
            slot.run.chosen = False
        while True:
            if job.cancelled:  # as none of the engine's steps saw it
                raise Cancelled("mnem: cancelled", D.MNEM_CANCELLED)
            self.active = [slot for slot in slots if not slot.run.chosen]
            parts = (D.mnem_step_part * len(self.active))()
            for part, slot in zip(parts, self.active):
                ids = slot.held[lib.mnem_sequence_length(slot.sequence):]
                part.sequence, part.n = slot.sequence, len(ids)
                part.first_logits = len(ids) - (not slot.run.silent)
                part.ids = (C.c_int32 * len(ids))(*ids)
            status = lib.mnem_engine_step(self.engine.engine, parts, len(parts), self.on_logits, None)
            if self.failure:
                failure, self.failure = self.failure, None
                raise failure
            if status != D.MNEM_CANCELLED or job.cancelled:
                return check(status)

    def finish(self, job, slot):
        """A text alone, to its end: the library chooses several tokens in a call, so that no lock of the
        interpreter is taken, and waited for, at each."""
        run = slot.run
        given, most = run.token_run(slot.sequence)
        ids, count = (C.c_int32 * most)(), C.c_int32()
        while True:
            if job.cancelled:
                raise Cancelled("mnem: cancelled", D.MNEM_CANCELLED)
            given.last = run.ids[-1]
            status = lib.mnem_sequence_continue(self.engine.engine, C.byref(given), ids,
                                                min(most, run.room()), C.byref(count))
            for run.next in ids[:count.value]:
                if not run.take(accepted=True):
                    return True
            if status != D.MNEM_CANCELLED or job.cancelled:
                check(status)

    def _choose(self, _context, part, _index, logits):
        try:
            run = self.active[part].run
            run.choose(logits)
            run.chosen = True
            return True
        except BaseException as failure:  # which can't pass through the library
            self.failure = failure
            return False

    # ---- files ----

    def save(self, path):
        slot = self.last
        n = lib.mnem_sequence_length(slot.sequence) if slot.sequence else 0
        if not n:
            raise Error("mnem: there is nothing to save: no text was run", D.MNEM_INVALID)
        with open(path, "wb+", buffering=0) as file:
            check(lib.mnem_sequence_save(slot.sequence, (C.c_int32 * n)(*slot.held[:n]), 0,
                                         file.fileno(), 0))

    def load(self, path):
        """In place of what the slot held that hasn't been used for longest."""
        slot = min(self.slots, key=lambda one: one.used)
        saved = D.mnem_saved()
        with open(path, "rb", buffering=0) as file:
            check(lib.mnem_saved_open(self.engine.engine, file.fileno(), 0, C.byref(saved)))
            ids = (C.c_int32 * saved.length)()
            check(lib.mnem_saved_ids(C.byref(saved), ids))
            lib.mnem_sequence_destroy(slot.sequence)
            slot.sequence, slot.held = C.POINTER(D.mnem_sequence)(), []
            check(lib.mnem_sequence_create(self.engine.engine, C.byref(slot.sequence)))
            check(lib.mnem_sequence_load(slot.sequence, C.byref(saved), saved.length))
        self.time += 1
        slot.held, slot.used = list(ids), self.time


def adapter_path(path):
    """The file of an adapter: itself, that of a training run's folder, or a folder of PEFT."""
    inside = os.path.join(os.fspath(path), "adapter.gguf")
    return inside if os.path.exists(inside) else os.fspath(path)
