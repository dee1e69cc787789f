"""Finds and imports the user's handler. What goes wrong is told with file, line and what to do about it."""

import importlib
import os
import re
import sys
import traceback

_RUNTIME_DIR = os.path.dirname(os.path.abspath(__file__))
_ENTRYPOINT = re.compile(r"((?:[A-Za-z_]\w*[./])*[A-Za-z_]\w*)\.([A-Za-z_]\w*)")


class LoadError(Exception):
    """Why there is no handler. `certain` is false where it may come from the surroundings (a missing variable)."""

    def __init__(self, error, remedy, file=None, line=None, stack=None, certain=True):
        super().__init__(error)
        self.error, self.remedy, self.file, self.line, self.stack = error, remedy, file, line, stack
        self.certain = certain

    def fields(self) -> dict:
        given = {"error": self.error, "file": self.file, "line": self.line, "remedy": self.remedy, "stack": self.stack}
        return {key: value for key, value in given.items() if value is not None}


def load(function_dir: str, entrypoint: str):
    """The handler that `entrypoint` (`file.function`) names below `function_dir`."""
    match = _ENTRYPOINT.fullmatch(entrypoint)
    if match is None:
        raise LoadError(f"the entrypoint {entrypoint!r} is not `file.function`",
                        "write it as `handler.handler` or `folder/file.function`")
    path, name = match[1].replace(".", "/"), match[2]
    root = os.path.realpath(function_dir)
    module = path.replace("/", ".")
    file = path + ".py"
    if not os.path.isfile(os.path.join(root, file)):
        package = path + "/__init__.py"
        if not os.path.isfile(os.path.join(root, package)):
            raise LoadError(f"there is no {file}", f"add {file} with `def {name}(event, context)`, or set the "
                            "entrypoint to the file that has it", file=file)
        file = package
    sys.path.insert(0, root)
    sys.argv = [os.path.join(root, file)]
    if module.partition(".")[0] in sys.modules:
        raise LoadError(f"the module name `{module}` is taken by Python itself", "rename the file", file=file)
    try:
        loaded = importlib.import_module(module)
    except BaseException as error:
        raise _explain(error, root) from error
    handler = getattr(loaded, name, None)
    if handler is None:
        raise LoadError(f"{file} has no `{name}`", f"define `def {name}(event, context)` in it, or set the entrypoint "
                        "to the function that handles calls", file=file)
    if not callable(handler):
        raise LoadError(f"`{name}` in {file} is a {type(handler).__name__}, not a function",
                        f"define `def {name}(event, context)`", file=file)
    return handler


def _explain(error: BaseException, root: str) -> LoadError:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        text = f"{type(error).__name__}: {error.msg}"
        return LoadError(text, "correct the file at that line; the runtime has Python 3.11",
                         file=_relative(error.filename, root), line=error.lineno)
    file = line = None
    for frame in traceback.extract_tb(error.__traceback__):
        if os.path.realpath(frame.filename).startswith(root + os.sep):
            file, line = _relative(frame.filename, root), frame.lineno
    if isinstance(error, ModuleNotFoundError):
        remedy = f"add the package that has `{error.name}` to requirements.txt, or the file to the source"
        return LoadError(text, remedy, file, line)
    if isinstance(error, ImportError):
        return LoadError(text, "import a name that the module has; check the versions in requirements.txt", file, line)
    frames = error.__traceback__
    while frames is not None and (frames.tb_frame.f_code.co_filename.startswith((_RUNTIME_DIR, "<frozen importlib"))
                                  or frames.tb_frame.f_code.co_filename == importlib.__file__):
        frames = frames.tb_next
    stack = "".join(traceback.format_exception(type(error), error, frames))
    remedy = "the code at the top of the file failed; correct it, or set the variable it needs in `env`"
    return LoadError(text, remedy, file, line, stack, certain=isinstance(error, (NameError, TypeError)))


def _relative(file, root):
    if not file:
        return None
    file = os.path.realpath(file)
    return os.path.relpath(file, root) if file.startswith(root + os.sep) else file
