"""Notices an `async` handler that blocks the loop past its deadline, and interrupts it."""

import os
import sys
import threading
import time
import traceback

from . import logs
from .workers import interrupt

BEAT_SECONDS = 0.25
# After the deadline the loop gets this long to say so itself.
LATE_SECONDS = 1.0
# An interrupt that does nothing this long means native code that never returns: only a new process helps.
HOPELESS_SECONDS = 10.0
EXIT_STUCK = 70


class Watchdog:
    """Watches the loop of the thread that makes it."""

    def __init__(self, loop, timeout_seconds):
        self._loop = loop
        self._patience = timeout_seconds + LATE_SECONDS
        self._main = threading.get_ident()
        self._beat()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _beat(self):
        self._last = time.monotonic()
        self._loop.call_later(BEAT_SECONDS, self._beat)

    def _watch(self):
        while True:
            time.sleep(BEAT_SECONDS)
            last = self._last
            late = time.monotonic() - last
            if late < self._patience:
                continue
            if late > self._patience + HOPELESS_SECONDS:
                stack = "".join(traceback.format_stack(sys._current_frames().get(self._main)))
                logs.platform("error", "the handler blocks the event loop and can't be interrupted; restarting",
                              blockedSeconds=round(late, 1), stack=stack)
                os._exit(EXIT_STUCK)
            logs.platform("warn", "the handler blocks the event loop; use a plain `def`, or await", None,
                          blockedSeconds=round(late, 1))
            interrupt(self._main)
            until = time.monotonic() + LATE_SECONDS
            while self._last == last and time.monotonic() < until:
                time.sleep(BEAT_SECONDS / 5)
