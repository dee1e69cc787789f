"""What every function has in memory: the common part of the standard library, loaded; most of the rest as source."""

import importlib
import json
import os
import sys

from . import fetch, files, loop, output

LOADED = """
abc argparse array ast asyncio base64 binascii bisect calendar cmath codecs collections collections.abc colorsys
configparser contextlib contextvars copy csv dataclasses datetime decimal difflib email email.message email.mime.multipart
email.mime.text email.parser email.utils enum errno fnmatch fractions functools gc getpass gettext glob graphlib gzip hashlib
heapq hmac html html.parser http http.client http.cookiejar http.cookies importlib importlib.metadata importlib.resources
importlib.util inspect io ipaddress itertools json keyword linecache locale logging math mimetypes numbers operator os pathlib
pickle pkgutil platform pprint queue quopri random re reprlib secrets selectors shlex shutil signal stat statistics string
stringprep struct sys tempfile textwrap threading time timeit tokenize tomllib traceback types typing unicodedata urllib.error
urllib.parse urllib.request urllib.response urllib.robotparser uuid warnings weakref xml.dom.minidom xml.etree.ElementTree
xml.sax.saxutils zipfile zlib zoneinfo
""".split()

# Of no use in an instance: they need files, processes, sockets, a terminal or a screen, or are for developers.
LEFT_OUT = frozenset("""
__pycache__ site-packages test tests idlelib tkinter turtledemo turtle.py ensurepip venv lib2to3 pydoc_data pydoc.py curses
ctypes multiprocessing sqlite3 dbm distutils config pdb.py bdb.py cProfile.py profile.py pstats.py doctest.py ftplib.py
imaplib.py poplib.py smtplib.py webbrowser.py mailbox.py _pyrepl _pydecimal.py _pydatetime.py _android_support.py
_ios_support.py _apple_support.py antigravity.py this.py pty.py tty.py compileall.py py_compile.py zipapp.py rlcompleter.py
__phello__ __hello__.py idlelib modulefinder.py pyclbr.py tabnanny.py trace.py tracemalloc.py
""".split())


def all_modules() -> None:
    """Loads what is to be loaded, reads the rest, then takes over input and output."""
    fetch.install()
    missing = []
    for name in LOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise RuntimeError(f"the engine lacks {missing}")
    _read_library(os.path.dirname(os.path.dirname(json.__file__)))
    importlib.import_module("sless_runtime.response")
    loop.install()
    output.install()
    files.install()


def _read_library(root: str) -> None:
    loaded = {getattr(module, "__file__", None) for module in sys.modules.values()}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and name not in LEFT_OUT and path not in loaded:
                with open(path, "rb") as file:
                    files.add_library(root, os.path.relpath(path, root), file.read())
