"""Threads for handlers that are not `async`, one call each, and the way to interrupt one that is overdue."""

import contextvars
import ctypes
import threading
from collections import deque
from queue import SimpleQueue


_NO_CALL = contextvars.Context()


class Overdue(BaseException):
    """Raised inside a handler whose time is up. Not an `Exception`, so that `except Exception` lets it through."""


def interrupt(thread_id: int) -> None:
    """Raises `Overdue` in a thread as soon as it runs Python code again."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(Overdue))


class Job:
    """Something to run in a thread for a call. `run` gives its outcome to `Workers.post` itself."""

    __slots__ = ("run", "thread_id", "over")

    def __init__(self, run):
        self.run = run
        self.thread_id = 0
        self.over = False


class Workers:
    """Threads made when needed; the caller bounds how many jobs there are at once."""

    def __init__(self, loop):
        self._loop = loop
        self._jobs = SimpleQueue()
        self._posts: deque = deque()
        self._woken = False
        self._threads = 0
        self._busy = 0
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        """Called in the loop."""
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            threading.Thread(target=self._work, name=f"handler-{self._threads}", daemon=True).start()
        self._jobs.put(job)

    def ended(self) -> None:
        """Called in the loop when a job's last outcome came."""
        self._busy -= 1

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
            try:
                job = self._jobs.get()
                job.thread_id = ident
                try:
                    job.run()
                finally:
                    with self._lock:
                        job.over = True
                job = None
            except Overdue:
                continue  # Came between a job's end and its mark; nobody waits for it.
