"""Finds and imports the user's handler. What goes wrong is told with file, line and what to do about it."""

import importlib
import re
import sys

from . import files, output, state

_ENTRYPOINT = re.compile(r"((?:[A-Za-z_]\w*[./])*[A-Za-z_]\w*)\.([A-Za-z_]\w*)")
# Parts of the standard library that need what a component does not have.
_ABSENT = frozenset(("ctypes", "multiprocessing", "sqlite3", "ssl", "tkinter", "curses", "readline", "fcntl", "mmap",
                     "pty", "resource", "termios", "_ctypes", "_sqlite3", "_ssl", "_tkinter"))

_entry: tuple = ()
_handler = None


class LoadError(Exception):
    """Why there is no handler. `certain` is false where it may come from the surroundings (a missing variable)."""

    def __init__(self, error, remedy, file=None, line=None, stack=None, certain=True):
        super().__init__(error)
        self.error, self.remedy, self.file, self.line, self.stack = error, remedy, file, line, stack
        self.certain = certain


def function(source):
    """Loads a function: `(what it asked of its surroundings, what it printed)`."""
    global _entry, _handler
    state.begin_watching()
    files.add(files.ROOT, source.files)
    files.add(files.PACKAGES, source.packages)
    _entry = _find(source.entrypoint)
    if source.evaluate:
        _handler = _import(*_entry)
    else:
        _compile_all()
    output.end_lines()
    state.built()
    return state.impure, output.printed


def handler():
    """The handler, in an instance."""
    global _handler
    if _handler is None:
        _handler = _import(*_entry)
    return _handler


def _find(entrypoint: str):
    match = _ENTRYPOINT.fullmatch(entrypoint)
    if match is None:
        raise LoadError(f"the entrypoint {entrypoint!r} is not `file.function`",
                        "write it as `handler.handler` or `folder/file.function`")
    path, name = match[1].replace(".", "/"), match[2]
    file = path + ".py"
    if not files.exists(f"{files.ROOT}/{file}"):
        package = path + "/__init__.py"
        if not files.exists(f"{files.ROOT}/{package}"):
            raise LoadError(f"there is no {file}", f"add {file} with `def {name}(event, context)`, or set the "
                            "entrypoint to the file that has it", file=file)
        file = package
    module = path.replace("/", ".")
    if module.partition(".")[0] in sys.modules:
        raise LoadError(f"the module name `{module}` is taken by Python itself", "rename the file", file=file)
    return module, name, file


def _compile_all() -> None:
    """Code that runs in each instance is at least compiled now; faults of packages show when they are imported."""
    for path in files.python_files(files.ROOT):
        try:
            files.compile_now(path)
        except SyntaxError as error:
            raise _explain(error) from error
    for path in files.python_files(files.PACKAGES):
        try:
            files.compile_now(path)
        except SyntaxError:
            pass


def _import(module: str, name: str, file: str):
    sys.argv = [f"{files.ROOT}/{file}"]
    try:
        loaded = importlib.import_module(module)
    except BaseException as error:
        raise _explain(error) from error
    found = getattr(loaded, name, None)
    if found is None:
        raise LoadError(f"{file} has no `{name}`", f"define `def {name}(event, context)` in it, or set the entrypoint "
                        "to the function that handles calls", file=file)
    if not callable(found):
        raise LoadError(f"`{name}` in {file} is a {type(found).__name__}, not a function",
                        f"define `def {name}(event, context)`", file=file)
    return found


def _explain(error: BaseException) -> LoadError:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        text = f"{type(error).__name__}: {error.msg}"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return LoadError(text, f"correct the file at that line; the runtime has Python {version}",
                         file=_relative(error.filename), line=error.lineno)
    file = line = None
    frames = error.__traceback__
    while frames is not None:
        name = frames.tb_frame.f_code.co_filename
        if name.startswith(files.ROOT + "/"):
            file, line = _relative(name), frames.tb_lineno
        frames = frames.tb_next
    if isinstance(error, ModuleNotFoundError):
        if (error.name or "").partition(".")[0] in _ABSENT:
            remedy = f"wasm-python has no `{error.name}`; use the runtime python3.11, which needs no other change"
        else:
            remedy = f"add the package that has `{error.name}` to requirements.txt, or the file to the source"
        return LoadError(text, remedy, file, line)
    if isinstance(error, ImportError):
        return LoadError(text, "import a name that the module has; check the versions in requirements.txt", file, line)
    remedy = "the code at the top of the file failed; correct it, or set the variable it needs in `env`"
    return LoadError(text, remedy, file, line, output.stack(error), certain=isinstance(error, (NameError, TypeError)))


def _relative(file):
    return file.removeprefix(files.ROOT + "/") if file else None
