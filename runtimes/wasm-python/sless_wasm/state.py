"""Where the engine is on its way: base, build, instance. And what must differ between instances: environment, seeds.

What runs at build is frozen into the snapshot. So the environment is watched there, and given anew to each instance.
"""

import gc
import os
import random
import sys

from wit_world.imports import environment
from wit_world.imports import random as wasi_random

# Set once, when an instance takes its call.
serving = False
# What code asked of its surroundings at build.
impure: list = []


class _Watched(dict):
    """The environment at build: empty, and whoever looks is noted."""

    def _note(self):
        note("the environment")

    def __getitem__(self, key):
        self._note()
        raise KeyError(key)

    def __contains__(self, key):
        self._note()
        return False

    def __iter__(self):
        self._note()
        return iter(())

    def __len__(self):
        self._note()
        return 0


def note(what: str) -> None:
    """Notes what was asked, with the user's line that did."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("/function/"):
            what = f"{what} ({file.removeprefix('/function/')}:{frame.f_lineno})"
            break
        frame = frame.f_back
    if what not in impure and len(impure) < 20:
        impure.append(what)


def base_is_ready() -> None:
    """Called once a release, at the end of the base: nothing of it is looked at by the collector again."""
    os.environ._data = _Watched()
    gc.collect()
    gc.freeze()


def begin_watching() -> None:
    """From here on the user's code runs: what the engine asked for itself does not count. The builder knows it by this."""
    impure.clear()
    wasi_random.get_random_bytes(0)


def built() -> None:
    """At the end of a build."""
    gc.collect()
    gc.freeze()


def start() -> None:
    """At the start of an instance: what the snapshot must not have."""
    global serving
    serving = True
    encode = os.environ.encodekey
    os.environ._data = {encode(name): encode(value) for name, value in environment.get_environment()}
    # 128 bits from the host: the seed that is in the snapshot is everybody's.
    random.seed(int.from_bytes(wasi_random.get_random_bytes(16)))
