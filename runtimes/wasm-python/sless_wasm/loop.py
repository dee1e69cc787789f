"""The event loop: asyncio's own, waiting by `wasi:io/poll`. There are no threads; executors run at once."""

import asyncio
import time
from asyncio import base_events

from wit_world.imports import monotonic_clock, poll

# A wait that nothing ends lasts until the host ends the call.
_FOREVER_NS = 1 << 60


class _Selector:
    """What `BaseEventLoop` waits by."""

    def __init__(self):
        self.waiting: list = []

    def select(self, timeout):
        """Futures whose pollable is ready. Waits for one, at most `timeout` seconds."""
        if not self.waiting:
            if timeout is None:
                monotonic_clock.subscribe_duration(_FOREVER_NS).block()
            elif timeout > 0:
                time.sleep(timeout)
            return []
        pollables = [pollable for pollable, _ in self.waiting]
        timer = None
        if timeout is not None:
            timer = monotonic_clock.subscribe_duration(max(0, int(timeout * 1e9)))
            pollables.append(timer)
        ready = set(poll.poll(pollables))
        if timer is not None:
            timer.__exit__(None, None, None)
        events, waiting = [], []
        for index, entry in enumerate(self.waiting):
            if index in ready or entry[1].done():
                entry[0].__exit__(None, None, None)
                events.append(entry[1])
            else:
                waiting.append(entry)
        self.waiting = waiting
        return events

    def close(self):
        self.waiting.clear()

    def get_map(self):
        return {}


class Loop(base_events.BaseEventLoop):
    """One a process, made at build: `asyncio.run` in a handler gets this one too."""

    def __init__(self):
        super().__init__()
        self._selector = _Selector()

    def _process_events(self, futures):
        for future in futures:
            if not future.done():
                future.set_result(None)

    def _write_to_self(self):
        pass

    def until_ready(self, pollable):
        """A future that is done when the pollable is."""
        future = self.create_future()
        self._selector.waiting.append((pollable, future))
        return future

    def run_in_executor(self, executor, func, *args):
        """Runs it now: there is one thread."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def shutdown_default_executor(self, timeout=None):
        pass


class Policy(asyncio.events._BaseDefaultEventLoopPolicy):
    """Makes these loops."""

    _loop_factory = Loop


loop = Loop()


def run(awaitable):
    """What awaiting it gives."""
    async def wait():
        return await awaitable

    return loop.run_until_complete(wait() if not asyncio.iscoroutine(awaitable) else awaitable)


def install() -> None:
    """Makes `asyncio.run` and `new_event_loop` use this loop."""
    asyncio.events._set_event_loop_policy(Policy())
    asyncio.events.set_event_loop(loop)
