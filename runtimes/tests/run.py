#!/usr/bin/env python3
"""Runs the tests of the servers, one process for each class, several at once. Closing line: `N passed, N failed`."""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
JOBS = 4


def classes():
    """Names of all test classes, the longest running first."""
    sys.path.insert(0, str(HERE))
    names = set()
    pending = [unittest.defaultTestLoader.discover(str(HERE))]
    while pending:
        suite = pending.pop()
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                pending.append(test)
            else:
                names.add(f"{type(test).__module__}.{type(test).__qualname__}")
    return sorted(names, key=lambda name: ("lifecycle" not in name, name))


def run(name):
    done = subprocess.run([sys.executable, "-m", "unittest", name], cwd=HERE, capture_output=True, text=True)
    ran = int(re.search(r"^Ran (\d+) test", done.stderr, re.M)[1]) if "\nRan " in done.stderr else 0
    bad = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", done.stderr)))
    if done.returncode and not bad:
        bad = 1
    return name, max(ran - bad, 0), bad, done.stderr


def main():
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, good, bad, output in pool.map(run, classes()):
            passed, failed = passed + good, failed + bad
            if bad or not good:
                print(f"{name}\n{output}")
                failed += not good and not bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
