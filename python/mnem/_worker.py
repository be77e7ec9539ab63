"""One thread that runs an engine, so that the caller's thread can be interrupted at any time.

An engine belongs to one thread at a time, and Python raises KeyboardInterrupt in the main thread only
between its own instructions: so the call in C runs here, and the main thread waits in Python."""
import os
import queue
import threading

from ._library import Error


class Job:
    def __init__(self, function):
        self.function = function
        self.done = threading.Event()
        self.cancelled = False
        self.result = self.failure = None

    def run(self):
        try:
            self.result = self.function(self)
        except BaseException as failure:
            self.failure = failure
        self.done.set()


class Worker:
    def __init__(self, name):
        self.process = os.getpid()
        self.jobs = queue.SimpleQueue()
        self.cancel = None  # stops what the engine runs, from any thread
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self.thread.start()

    def _loop(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            job.run()
            del job

    def submit(self, function):
        if os.getpid() != self.process:
            raise Error("mnem: this LLM was opened before the fork: open another one in the child")
        if not self.thread.is_alive():
            raise Error("mnem: the LLM is closed")
        if threading.current_thread() is self.thread:
            raise Error("mnem: on_logits can't use its LLM: that runs one call at a time")
        job = Job(function)
        self.jobs.put(job)
        return job

    def stop(self, job):
        """Asks a job to end, and waits until it has."""
        job.cancelled = True
        if self.cancel and not job.done.is_set():
            self.cancel()
        job.done.wait()

    def call(self, function):
        """Runs function(job) there; an exception here, such as KeyboardInterrupt, stops it."""
        job = self.submit(function)
        try:
            job.done.wait()
        except BaseException:
            self.stop(job)
            raise
        if job.failure:
            raise job.failure
        return job.result

    def close(self):
        if os.getpid() == self.process and self.thread.is_alive():
            self.jobs.put(None)
            self.thread.join()
