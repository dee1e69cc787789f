"""`print`, standard error, `logging` and `context.log`: lines of the function's log; at build, of the builder's report.

The host keeps standard output and standard error apart, so what is a warning or worse goes to the latter.
"""

import io
import json
import logging
import sys
import traceback

from componentize_py_types import Err
from wit_world.imports import stderr, stdout

from . import files, state

MAX_PRINTED_LINES = 100
# What the interface takes at once.
_CHUNK_BYTES = 4096
printed: list = []
_streams: list = [None, None]


def _to_host(is_error: bool, data: bytes) -> None:
    stream = _streams[is_error]
    if stream is None:
        stream = _streams[is_error] = stderr.get_stderr() if is_error else stdout.get_stdout()
    try:
        for start in range(0, len(data), _CHUNK_BYTES):
            stream.blocking_write_and_flush(data[start : start + _CHUNK_BYTES])
    except Err:
        pass  # A log that can't be written must not end the function.


def write(is_error: bool, text: str) -> None:
    """Writes whole lines."""
    if state.serving:
        _to_host(is_error, text.encode("utf-8", "backslashreplace"))
        return
    for line in text.splitlines():
        if len(printed) < MAX_PRINTED_LINES:
            printed.append(line)


class _Binary(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, text):
        self._text = text

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        self._text.write(data.decode("utf-8", "replace"))
        return len(data)


class Lines(io.TextIOBase):
    """Stands for `sys.stdout` or `sys.stderr`; goes to the host by the line."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, is_error):
        self._is_error = is_error
        self._begun = ""
        self.buffer = _Binary(self)

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return 2 if self._is_error else 1

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        whole, newline, rest = (self._begun + text).rpartition("\n")
        if newline:
            write(self._is_error, whole + "\n")
        self._begun = rest
        if len(rest) > _CHUNK_BYTES:
            self.end()
        return len(text)

    def end(self):
        """Writes a line that has no end yet."""
        if self._begun:
            write(self._is_error, self._begun + "\n")
            self._begun = ""


def end_lines() -> None:
    """At the end of a call."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Lines):
            stream.end()


def complain(text: str) -> None:
    """The runtime's own lines."""
    write(True, text + "\n")


def stack(error: BaseException) -> str:
    """The traceback of an error without the frames of this runtime."""
    frames = error.__traceback__
    while frames is not None and not frames.tb_frame.f_code.co_filename.startswith((files.ROOT, files.PACKAGES)):
        frames = frames.tb_next
    files.lines_for(frames)
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip("\n")


class Log:
    """`context.log`: `log("text", key=value)`, `log.debug`, `.info`, `.warn`, `.error`. `%` arguments as in `logging`."""

    __slots__ = ()

    def _emit(self, is_error, message, args, fields):
        text = str(message)
        if args:
            try:
                text = text % args
            except (TypeError, ValueError):
                text = " ".join((text, *map(str, args)))
        if fields:
            text = f"{text} {json.dumps(fields, ensure_ascii=False, default=str, skipkeys=True)}"
        write(is_error, text + "\n")

    def __call__(self, message, *args, **fields):
        self._emit(False, message, args, fields)

    info = debug = __call__

    def warn(self, message, *args, **fields):
        self._emit(True, message, args, fields)

    warning = error = warn

    def exception(self, message, *args, **fields):
        """As `error`, with the traceback of the exception being handled."""
        fields.setdefault("stack", traceback.format_exc())
        self._emit(True, message, args, fields)


class _Handler(logging.Handler):
    """Brings `logging` here."""

    def emit(self, record):
        try:
            name = "" if record.name == "root" else f" {record.name}:"
            text = f"{record.levelname}{name} {record.getMessage()}"
            if record.exc_info and record.exc_info[1]:
                text += "\n" + stack(record.exc_info[1])
            write(record.levelno >= logging.WARNING, text + "\n")
        except Exception:  # As logging itself: a bad record must not fail the handler.
            self.handleError(record)


def install() -> None:
    """Takes over standard output, standard error and `logging`."""
    sys.stdout, sys.stderr = Lines(False), Lines(True)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    root = logging.getLogger()
    root.handlers[:] = [_Handler()]
    root.setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
