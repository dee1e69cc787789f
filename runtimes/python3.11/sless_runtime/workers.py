"""Threads for handlers that are not `async`, one call each, and the way to interrupt one that is overdue."""

import contextvars
import ctypes
import threading
from collections import deque
from queue import SimpleQueue
from time import monotonic


# How long a job may wait for a thread that is busy with another before it gets its own.
PATIENCE_SECONDS = 0.001

_NO_CALL = contextvars.Context()


class Overdue(BaseException):
    """Raised inside a handler whose time is up. Not an `Exception`, so that `except Exception` lets it through."""


def interrupt(thread_id: int) -> None:
    """Raises `Overdue` in a thread as soon as it runs Python code again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(Overdue))


class Job:
    """Something to run in a thread. `run()` gives what `Workers.post` is called with; so does `failed(error)`."""

    __slots__ = ("run", "failed", "thread_id", "over")

    def __init__(self, run, failed):
        self.run = run
        self.failed = failed
        self.thread_id = 0
        self.over = False


def _breathe():
    """A call, at which Python raises what another thread asked for: after it, no `Overdue` is pending."""


class Workers:
    """Threads made when needed; the caller bounds how many jobs there are at once.

    Short jobs in a row are run by one thread: handing each to another costs more than most handlers do, and only one
    runs Python at a time anyway. A thread that keeps a job longer than `PATIENCE_SECONDS` gets others beside it.
    """

    def __init__(self, loop):
        self._loop = loop
        self._jobs: deque = deque()
        self._posts: deque = deque()
        self._tokens = SimpleQueue()  # One wakes a thread.
        self._woken = False
        self._threads = 0
        self._awake = 0
        self._taken_at = 0.0  # When a job was last taken.
        self._relief = False
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        """Called in the loop."""
        self._jobs.append(job)
        with self._lock:
            if self._awake and monotonic() - self._taken_at < PATIENCE_SECONDS:
                wake = 0
            else:
                wake = 1
                self._awake += 1
                threads_needed = self._awake - self._threads
        if wake:
            self._wake(threads_needed)
        elif not self._relief:
            self._relief = True
            self._loop.call_later(PATIENCE_SECONDS, self._relieve)

    def _wake(self, threads_needed):
        self._tokens.put(None)
        if threads_needed > 0:
            self._threads += 1
            threading.Thread(target=self._work, name=f"handler-{self._threads}", daemon=True).start()

    def _relieve(self):
        """Gives waiting jobs threads of their own if those that are awake don't get to them."""
        self._relief = False
        waiting = len(self._jobs)
        if not waiting:
            return
        if monotonic() - self._taken_at >= PATIENCE_SECONDS:
            for _ in range(waiting):
                with self._lock:
                    self._awake += 1
                    threads_needed = self._awake - self._threads
                self._wake(threads_needed)
        else:
            self._relief = True
            self._loop.call_later(PATIENCE_SECONDS, self._relieve)

    def post(self, tell, *outcome) -> None:
        """Calls `tell(*outcome)` in the loop. Called in the job's thread; many at once wake the loop once."""
        self._posts.append((tell, outcome))
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._drain, context=_NO_CALL)

    def _drain(self):
        self._woken = False
        posts = self._posts
        # Only what is there now: a thread that posts as fast as this takes would keep out everything else.
        for _ in range(len(posts)):
            tell, outcome = posts.popleft()
            tell(*outcome)
        if posts and not self._woken:
            self._woken = True
            self._loop.call_soon(self._drain)

    def interrupt(self, job: Job) -> None:
        """Interrupts the job if it still runs."""
        with self._lock:
            if job.thread_id and not job.over:
                interrupt(job.thread_id)

    def _work(self):
        ident = threading.get_ident()
        while True:
            self._tokens.get()
            self._run_jobs(ident)

    def _run_jobs(self, ident):
        jobs = self._jobs
        while True:
            try:
                job = jobs.popleft()
            except IndexError:
                with self._lock:
                    self._awake -= 1
                    if not jobs:
                        return
                    self._awake += 1  # One came in just now, and its sender counted on this thread.
                continue
            self._taken_at = monotonic()
            self.post(*self._outcome(job, ident))
            job = None

    def _outcome(self, job, ident):
        """Runs a job. An interrupt ends in here, never behind it, so that no outcome is lost."""
        outcome = None
        while True:
            try:
                if outcome is None:
                    job.thread_id = ident
                    outcome = job.run()
                with self._lock:
                    job.over = True
                _breathe()
                return outcome
            except Overdue as error:
                if outcome is None:
                    outcome = job.failed(error)
