"""Starts the server of runtime `python3.11`: `python server.py [--check]`; `--check` only loads the handler.

By path, so that neither the working folder nor a `PYTHONPATH` of the user decides what runs.
"""

import os
import sys

# The file system may be read-only; the image has compiled files from its build.
sys.dont_write_bytecode = True
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [_HERE, *(path for path in sys.path if os.path.abspath(path or ".") != _HERE)]

from sless_runtime.main import main  # noqa: E402

sys.path.remove(_HERE)  # The user's modules come first from here on.
sys.exit(main())
