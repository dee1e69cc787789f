"""Structured log: one JSON object a line on standard output, with the request id of the call that wrote it.

`print`, `sys.stderr`, `logging` and `context.log` all end here. What a call may write is bounded; the rest is counted.
"""

import contextvars
import datetime
import io
import json
import logging
import os
import sys
import threading
import traceback

# A longer line is cut: one record stays well below what log collectors take.
MAX_LINE_CHARS = 16 << 10
RESERVED = frozenset(("time", "level", "message", "requestId"))
_RANK = {"debug": 0, "info": 1, "warn": 2, "error": 3}
_RUNTIME_DIR = os.path.dirname(os.path.abspath(__file__))

# The call whose code is running: set for the handler and what it awaits, copied by asyncio into its tasks.
current: contextvars.ContextVar = contextvars.ContextVar("sless_call", default=None)

_write_lock = threading.Lock()
_threshold = _RANK["info"]


def _write(line: bytes) -> None:
    view = memoryview(line)
    with _write_lock:
        while view:
            try:
                view = view[os.write(1, view) :]
            except BlockingIOError:
                continue
            except OSError:
                return  # Nobody reads the log any more; that must not end the function.


def _record(level, message, request_id, fields) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    record = {"time": now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z", "level": level,
              "message": message}
    if request_id:
        record["requestId"] = request_id
    for key, value in fields.items():
        record[key + "_" if key in RESERVED else key] = value
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str, skipkeys=True)
    _write(text.encode("utf-8", "backslashreplace") + b"\n")


def platform(level: str, message: str, request_id: str | None = None, **fields) -> None:
    """A record of the runtime itself: not counted against the call."""
    if _RANK[level] >= _threshold:
        _record(level, message, request_id, fields)


def user(level: str, message: str, fields=None) -> None:
    """A record of the user's code."""
    if _RANK[level] < _threshold:
        return
    if len(message) > MAX_LINE_CHARS:
        message = message[:MAX_LINE_CHARS] + "… (cut)"
    call = current.get()
    if call is not None and not call.may_log(len(message)):
        return
    try:
        _record(level, message, call.request_id if call else None, fields or {})
    except (ValueError, TypeError, RecursionError) as error:
        _record(level, message, call.request_id if call else None, {"fieldsError": str(error)})


def stack(error: BaseException) -> str:
    """The traceback of an error without the frames of this runtime."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_RUNTIME_DIR):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


class Log:
    """`context.log`: `log("text", key=value)`, `log.debug`, `.info`, `.warn`, `.error`. `%` arguments as in `logging`."""

    __slots__ = ()

    def _emit(self, level, message, args, fields):
        text = str(message)
        if args:
            try:
                text = text % args
            except (TypeError, ValueError):
                text = " ".join((text, *map(str, args)))
        user(level, text, fields)

    def __call__(self, message, *args, **fields):
        self._emit("info", message, args, fields)

    info = __call__

    def debug(self, message, *args, **fields):
        self._emit("debug", message, args, fields)

    def warn(self, message, *args, **fields):
        self._emit("warn", message, args, fields)

    warning = warn

    def error(self, message, *args, **fields):
        self._emit("error", message, args, fields)

    def exception(self, message, *args, **fields):
        """As `error`, with the traceback of the exception being handled."""
        fields.setdefault("stack", traceback.format_exc())
        self._emit("error", message, args, fields)


class _Binary(io.RawIOBase):
    """`sys.stdout.buffer`: bytes are taken as UTF-8."""

    def __init__(self, text):
        self._text = text

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        self._text.write(data.decode("utf-8", "replace"))
        return len(data)


class Lines(io.TextIOBase):
    """Stands for `sys.stdout` or `sys.stderr`: every line becomes a record."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, level):
        self.level = level
        self.buffer = _Binary(self)
        self._outside = ""  # A line begun outside of any call.

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return 1 if self.level == "info" else 2

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        call = current.get()
        begun = (call.lines.get(self.level, "") if call else self._outside) + text
        *lines, rest = begun.split("\n")
        for line in lines:
            user(self.level, line)
        if len(rest) > MAX_LINE_CHARS:
            user(self.level, rest)
            rest = ""
        if call:
            call.lines[self.level] = rest
        else:
            self._outside = rest
        return len(text)


class Handler(logging.Handler):
    """Brings `logging` here."""

    def emit(self, record):
        try:
            level = "debug" if record.levelno < 20 else "info" if record.levelno < 30 else \
                "warn" if record.levelno < 40 else "error"
            fields = {} if record.name == "root" else {"logger": record.name}
            if record.exc_info and record.exc_info[1]:
                fields["stack"] = "".join(traceback.format_exception(*record.exc_info))
            user(level, record.getMessage(), fields)
        except Exception:  # As logging itself: a bad record must not fail the handler.
            self.handleError(record)


def install(level: str) -> None:
    """Takes over standard output, standard error and `logging`."""
    global _threshold
    _threshold = _RANK[level]
    sys.stdout = Lines("info")
    sys.stderr = Lines("error")
    root = logging.getLogger()
    root.handlers[:] = [Handler()]
    root.setLevel({"debug": 10, "info": 20, "warn": 30, "error": 40}[level])
    logging.getLogger("asyncio").setLevel(logging.WARNING)
