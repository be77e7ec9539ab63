"""One thread that runs an engine, so that the caller's thread can be interrupted at any time.

An engine belongs to one thread at a time, and Python raises KeyboardInterrupt in the main thread only
between its own instructions: so the call in C runs here, and the main thread waits in Python.

What ends a worker is its last job: what runs then is cancelled, and what waits is refused. The thread
refers to the worker and to nothing that refers to an LLM, so that an LLM that is dropped is collected."""
# mypy: ignore-errors
import atexit
import contextlib
import os
import queue
import threading
import weakref

from . import _declarations as D
from ._library import Cancelled, Error

_workers: "weakref.WeakSet[Worker]" = weakref.WeakSet()


class _Done:
    """What threading.Event does, in C alone: a KeyboardInterrupt that comes inside of an Event's wait may
    leave its lock released twice, and end the thread that sets it."""

    def __init__(self):
        self.ended = False
        self.told = queue.SimpleQueue()

    def set(self):
        self.ended = True
        self.told.put(None)

    def wait(self):
        while not self.ended:
            with contextlib.suppress(queue.Empty):
                self.told.get(timeout=1)  # another thread that waits may take what is put
        self.told.put(None)


class Job:
    """function(job) on its way. on_done: called in the worker when it has ended, or was refused."""

    def __init__(self, function, on_done=None):
        self.function, self.on_done = function, on_done
        self.done = _Done()
        self.cancelled = False
        self.result = self.failure = None

    def run(self):
        try:
            self.result = self.function(self)
        except BaseException as failure:
            self.failure = failure

    def outcome(self):
        failure, self.failure = self.failure, None  # whose traceback has this frame
        try:
            if failure:
                raise failure
            return self.result
        finally:
            del failure


class Worker:
    """cancel: stops what the engine runs, from any thread; set once there is an engine."""

    def __init__(self, name):
        self.process = os.getpid()
        self.jobs = queue.SimpleQueue()
        self.cancel = None
        self.running = self.last = None
        self.leaving = False  # the interpreter: who waits then is a daemon thread, and is left waiting
        self.lock = threading.RLock()  # the collector may close an LLM while this thread holds it
        self.thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self.thread.start()
        _workers.add(self)

    def _loop(self):
        while True:
            job = self.jobs.get()
            with self.lock:
                self.running = job
                if self.last not in (None, job):
                    job.failure = Error("mnem: the LLM is closed")
                elif job.cancelled:
                    job.failure = Cancelled("mnem: cancelled before it began", D.MNEM_CANCELLED)
            if job.failure is None:
                job.run()
            job.function = None  # and what it refers to
            with self.lock:  # nobody cancels what is done, of which the next job may be the engine's end
                self.running = None
                told = job is self.last or not self.leaving
                if told:
                    job.done.set()
            if told and job.on_done:
                job.on_done()
            if job is self.last:
                return
            job = None

    def submit(self, function, on_done=None):
        if os.getpid() != self.process:
            raise Error("mnem: this LLM was opened before the fork: open another one in the child")
        if threading.current_thread() is self.thread:
            raise Error("mnem: on_logits can't use its LLM: that runs one call at a time")
        job = Job(function, on_done)
        with self.lock:
            if self.last:
                raise Error("mnem: the LLM is closed")
            self.jobs.put(job)
        return job

    def _cancel(self, job):
        job.cancelled = True
        if job is self.running and self.cancel:
            self.cancel()

    def ask_stop(self, job):
        """Asks a job to end. What runs instead of it goes on."""
        if os.getpid() == self.process:
            with self.lock:
                self._cancel(job)

    def stop(self, job):
        """Asks a job to end, and waits until it has."""
        self.ask_stop(job)
        if os.getpid() == self.process and not self.leaving:
            job.done.wait()

    def call(self, function):
        """Runs function(job) there; an exception here, such as KeyboardInterrupt, stops it."""
        job = self.submit(function)
        try:
            job.done.wait()
        except BaseException:
            self.stop(job)
            raise
        return job.outcome()

    def end(self, function=lambda job: None):
        """Stops what runs, and runs function(job) there as the last job of all; waits for it, unless this
        is the worker's own thread. Does nothing in a forked child."""
        if os.getpid() != self.process:
            return
        with self.lock:
            if not self.last:
                self.last = Job(function)
                if self.running:
                    self._cancel(self.running)
                self.jobs.put(self.last)
        if threading.current_thread() is not self.thread:
            self.last.done.wait()
            self.thread.join()
            self.last.outcome()


@atexit.register
def _end_all():
    """The interpreter ends: no thread may be inside the library, and call back, from then on."""
    for worker in list(_workers):
        worker.leaving = True
        worker.end()
