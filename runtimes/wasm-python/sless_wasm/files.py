"""The user's files, kept in memory: imports, `open` for reading, lines for tracebacks.

There is no file system in an instance. Paths are those of the container runtime: `/function` has the source.
"""

import builtins
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import io
import linecache
import os
import stat
import sys
import tokenize
import zlib

ROOT = "/function"
PACKAGES = "/packages"
STDLIB = "/stdlib"

# Path → content. The library's files are compressed: most functions need few of those that are not loaded.
_files: dict = {}
_folders: set = set()
_library: dict = {}
_compiled: dict = {}
# Where packages of the library that are loaded in the base say that their modules are.
_library_root = STDLIB
_real_open = io.open


def add(root: str, files) -> None:
    """Takes files below a root."""
    for file in files:
        path = f"{root}/{file.path}"
        _files[path] = file.content
        while "/" in path[1:]:
            path = path.rpartition("/")[0]
            _folders.add(path)


def add_library(root: str, path: str, content: bytes) -> None:
    """A file of the standard library that is not loaded in the base, and where it lay."""
    global _library_root
    _library_root = root
    _library[f"{STDLIB}/{path}"] = zlib.compress(content, 9)


def read(path: str) -> bytes:
    """A file's content, or `FileNotFoundError`."""
    content = _files.get(path)
    if content is None:
        packed = _library.get(path)
        if packed is None:
            raise FileNotFoundError(2, "No such file", path)
        content = zlib.decompress(packed)
    return content


def exists(path: str) -> bool:
    return path in _files or path in _library


class _Loader(importlib.abc.InspectLoader):
    """Loads a module of a file in memory."""

    def __init__(self, path, is_package):
        self.path = path
        self._is_package = is_package

    def get_filename(self, name=None):
        return self.path

    def is_package(self, name):
        return self._is_package

    def get_data(self, path):
        return read(path)

    def get_source(self, name=None):
        return importlib.util.decode_source(read(self.path))

    def get_code(self, name):
        code = _compiled.pop(self.path, None)
        return compile(read(self.path), self.path, "exec", dont_inherit=True) if code is None else code

    def get_resource_reader(self, name):
        return None


def compile_now(path: str) -> None:
    """Compiles a file ahead of the instance that runs it."""
    _compiled[path] = compile(read(path), path, "exec", dont_inherit=True)


def python_files(root: str):
    """Paths of the Python files below a root."""
    return [path for path in _files if path.startswith(root + "/") and path.endswith(".py")]


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules in memory: the user's, packages, then what the library has beyond the base."""

    def find_spec(self, name, path=None, target=None):
        last = name.rpartition(".")[2]
        for folder in (ROOT, PACKAGES, STDLIB) if path is None else list(path):
            if folder.startswith(_library_root):
                folder = STDLIB + folder[len(_library_root) :]
            stem = f"{folder}/{last}"
            for file, is_package in ((f"{stem}/__init__.py", True), (f"{stem}.py", False)):
                if exists(file):
                    loader = _Loader(file, is_package)
                    spec = importlib.machinery.ModuleSpec(name, loader, origin=file, is_package=is_package)
                    spec.has_location = True
                    if is_package:
                        spec.submodule_search_locations = [stem]
                    return spec
        for folder in (ROOT, PACKAGES) if path is None else list(path):
            if f"{folder}/{last}" in _folders:
                spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
                spec.submodule_search_locations = [f"{folder}/{last}"]
                return spec
        return None


    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        prefix = f"{PACKAGES}/"
        wanted = None if context.name is None else importlib.metadata.Prepared.normalize(context.name)
        for path in list(_files):
            folder, _, name = path.rpartition("/")
            if name == "METADATA" and path.startswith(prefix) and folder.endswith(".dist-info"):
                found = _Distribution(folder)
                if wanted is None or importlib.metadata.Prepared.normalize(found.name) == wanted:
                    yield found


class _Distribution(importlib.metadata.Distribution):
    """An installed package, for `importlib.metadata`."""

    def __init__(self, folder):
        self._folder = folder

    def read_text(self, filename):
        try:
            return read(f"{self._folder}/{filename}").decode()
        except FileNotFoundError:
            return None

    def locate_file(self, path):
        return f"{PACKAGES}/{path}"


def _absolute(path) -> str:
    path = path.__fspath__() if hasattr(path, "__fspath__") else path
    if isinstance(path, bytes):
        path = path.decode()
    parts: list = []
    for part in (path if path.startswith("/") else f"{ROOT}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    """`open` for reading what is in memory; paths are relative to the function's folder."""
    if isinstance(file, int):
        return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    path = _absolute(file)
    if set(mode) & set("wax+"):
        raise OSError(30, "there is no file system to write to in wasm-python; use the runtime python3.11", path)
    if path in _folders:
        raise IsADirectoryError(21, "Is a directory", path)
    content = io.BytesIO(read(path))
    return content if "b" in mode else io.TextIOWrapper(content, encoding or "utf-8", errors, newline)


def _stat(path, *, dir_fd=None, follow_symlinks=True):
    path = _absolute(path)
    if path in _folders or path == "/":
        return os.stat_result((stat.S_IFDIR | 0o555, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, len(read(path)), 0, 0, 0))


def _listdir(path="."):
    folder = _absolute(path)
    if folder not in _folders:
        raise FileNotFoundError(2, "No such file or directory", folder)
    start = len(folder) + 1
    return sorted({entry[start:].partition("/")[0] for entry in _files if entry.startswith(folder + "/")})


def install() -> None:
    """Takes over imports, and what reads files."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not importlib.machinery.PathFinder]
    sys.meta_path.append(Finder())
    sys.path[:] = [ROOT, PACKAGES]
    builtins.open = io.open = tokenize._builtin_open = _open
    os.stat = os.lstat = _stat
    os.listdir = _listdir
    os.getcwd = lambda: ROOT


def lines_for(frames) -> None:
    """Puts the lines of a traceback's files where `traceback` looks for them."""
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if file not in linecache.cache and exists(file):
            text = read(file).decode("utf-8", "replace")
            linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        frames = frames.tb_next
