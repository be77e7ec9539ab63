"""One thread that runs an engine, so that the caller's thread can be interrupted at any time.

An engine belongs to one thread at a time, and Python raises KeyboardInterrupt in the main thread only
between its own instructions: so the call in C runs here, and the main thread waits in Python."""
import os
import queue
import threading

from . import _declarations as D
from ._library import Cancelled, Error


class Job:
    """function(job) on its way. on_done: called in the worker when it has ended."""

    def __init__(self, function, on_done=None):
        self.function, self.on_done = function, on_done
        self.done = threading.Event()
        self.cancelled = False
        self.result = self.failure = None

    def run(self):
        try:
            if self.cancelled:
                raise Cancelled("mnem: cancelled before it began", D.MNEM_CANCELLED)
            self.result = self.function(self)
        except BaseException as failure:
            self.failure = failure
        self.function = None  # and what it refers to
        self.done.set()
        if self.on_done:
            self.on_done()

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
        self.thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self.thread.start()

    def _loop(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            job.run()
            del job

    def submit(self, function, on_done=None):
        if os.getpid() != self.process:
            raise Error("mnem: this LLM was opened before the fork: open another one in the child")
        if not self.thread.is_alive():
            raise Error("mnem: the LLM is closed")
        if threading.current_thread() is self.thread:
            raise Error("mnem: on_logits can't use its LLM: that runs one call at a time")
        job = Job(function, on_done)
        self.jobs.put(job)
        return job

    def ask_stop(self, job):
        """Asks a job to end. What runs instead of it goes on."""
        job.cancelled = True
        if self.cancel and not job.done.is_set():
            self.cancel()

    def stop(self, job):
        """Asks a job to end, and waits until it has."""
        self.ask_stop(job)
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

    def close(self):
        if os.getpid() == self.process and self.thread.is_alive():
            self.jobs.put(None)
            self.thread.join()
