"""A call: request → event → handler → response."""

import inspect
import os
import time
import uuid

from componentize_py_types import Err, Ok
from sless_runtime import event as events
from sless_runtime import problem
from sless_runtime.response import BINARY, TEXT, BadResponse, piece, prepare
from wit_world.imports.streams import StreamError_Closed
from wit_world.imports.types import (
    ErrorCode_InternalError, Fields, Method_Connect, Method_Delete, Method_Get, Method_Head, Method_Options,
    Method_Other, Method_Patch, Method_Post, Method_Put, Method_Trace, OutgoingBody, OutgoingResponse, ResponseOutparam,
)

from . import load, loop, output, state

_METHODS = {Method_Get: "GET", Method_Head: "HEAD", Method_Post: "POST", Method_Put: "PUT", Method_Delete: "DELETE",
            Method_Connect: "CONNECT", Method_Options: "OPTIONS", Method_Trace: "TRACE", Method_Patch: "PATCH"}
_READ_BYTES = 256 << 10
# What the interface takes at once.
_WRITE_BYTES = 4096
MAX_REQUEST_ID_CHARS = 128
# The host counts what goes out.
_NO_LIMIT = 1 << 62
_DEFAULT_TIMEOUT_SECONDS = 30.0
# What a HEAD without a body may give as its length; more would take longer to write than it is worth.
_MAX_FILLER_BYTES = 16 << 20
LOG = output.Log()


class _Gone(Exception):
    """The client is gone, or the host took no more."""


def handle(request, out) -> None:
    """Serves a request."""
    if not state.serving:
        state.start()
    method = request.method()
    method = method.value if isinstance(method, Method_Other) else _METHODS[type(method)]
    path, _, query = (request.path_with_query() or "/").partition("?")
    pairs = [(name.lower(), value.decode("latin-1")) for name, value in request.headers().entries()]
    headers = events.join_headers(pairs)
    request_id = headers.get("x-request-id", "")
    if not request_id or len(request_id) > MAX_REQUEST_ID_CHARS:
        request_id = str(uuid.uuid4())
    reply = Reply(out, method, path, request_id)
    try:
        body = _read(request)
        _call(reply, events.make(method, path, query, headers, body))
    except BaseException as error:
        reply.fail(error)
    output.end_lines()


def _read(request) -> bytes:
    # The body has to live as long as its stream.
    body = request.consume()
    stream = body.stream()
    pieces = []
    while True:
        try:
            pieces.append(stream.blocking_read(_READ_BYTES))
        except Err as error:
            if isinstance(error.value, StreamError_Closed):
                break
            raise _Gone from None
    stream.__exit__(None, None, None)
    body.__exit__(None, None, None)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _context(request_id):
    read = os.environ.get
    timeout = float(read("SLESS_TIMEOUT_SECONDS") or _DEFAULT_TIMEOUT_SECONDS)
    return events.Context(request_id, read("SLESS_FUNCTION_NAME", ""), read("SLESS_NAMESPACE", ""),
                          int(read("SLESS_VERSION") or 0), int((time.time() + timeout) * 1000), LOG)


def _call(reply, event) -> None:
    result = load.handler()(event, _context(reply.request_id))
    if inspect.isawaitable(result):
        result = loop.run(result)
    answer = prepare(result, _NO_LIMIT)
    if answer.stream is None:
        reply.whole(answer)
    elif hasattr(answer.stream, "__anext__"):
        loop.run(_pump(reply, answer))
    else:
        try:
            for chunk in answer.stream:
                if not reply.piece(answer, piece(chunk), isinstance(chunk, str)):
                    return
            reply.end(answer)
        finally:
            close = getattr(answer.stream, "close", None)
            if close is not None:
                close()


async def _pump(reply, answer):
    try:
        async for chunk in answer.stream:
            if not reply.piece(answer, piece(chunk), isinstance(chunk, str)):
                return
        reply.end(answer)
    finally:
        close = getattr(answer.stream, "aclose", None)
        if close is not None:
            await close()


def _accepted(pairs):
    """Headers without those that the host refuses: they were checked before, and what is left belongs to the connection."""
    fields = Fields()
    for name, value in pairs:
        try:
            fields.append(name, value)
        except Err:
            pass
    return fields


class Reply:
    """The way back to the client."""

    def __init__(self, out, method, path, request_id):
        self.out = out  # None once the head is out.
        self.head_only = method == "HEAD"
        self.path = path
        self.request_id = request_id
        self.body = self.stream = None
        self.sent = 0

    def _head(self, status, head: str, length=None):
        fields = [(name, value.encode("latin-1"))
                  for name, _, value in (line.partition(": ") for line in head.split("\r\n")[:-1])]
        if length is not None:
            fields.append(("content-length", b"%d" % length))
        try:
            fields = Fields.from_list(fields)
        except Err:
            fields = _accepted(fields)
        response = OutgoingResponse(fields)
        response.set_status_code(status)
        self.body = response.body()
        out, self.out = self.out, None
        ResponseOutparam.set(out, Ok(response))

    def _write(self, data) -> None:
        if self.stream is None:
            self.stream = self.body.write()
        write = self.stream.blocking_write_and_flush
        try:
            if len(data) <= _WRITE_BYTES:
                write(bytes(data))
            else:
                data = memoryview(data)
                for start in range(0, len(data), _WRITE_BYTES):
                    write(bytes(data[start : start + _WRITE_BYTES]))
        except Err:
            raise _Gone from None

    def _finish(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.__exit__(None, None, None)
        body, self.body = self.body, None
        try:
            OutgoingBody.finish(body, None)
        except Err:
            raise _Gone from None

    def _cut(self) -> None:
        """Ends the body without its end. A resource that is only forgotten would pass for one that was finished."""
        for resource in (self.stream, self.body):
            if resource is not None:
                resource.__exit__(None, None, None)
        self.stream = self.body = None

    def whole(self, answer) -> None:
        """Sends an answer whose body is whole."""
        status, body, length = answer.status, answer.body, answer.length
        bodiless = status in (204, 304)
        if length is not None and length != len(body) and not bodiless and not (self.head_only and not body):
            raise BadResponse(f"`content-length` is {length}, but the body has {len(body)} bytes; "
                              "leave the header out")
        if bodiless:
            self._head(status, answer.head)
            self._finish()
            return
        # The answer to HEAD may say the length of a body that GET would have. The interface wants that many bytes written,
        # which are dropped on the way.
        if self.head_only and length is not None and len(body) < length <= _MAX_FILLER_BYTES:
            body = bytes(length)
        self._head(status, answer.head, len(body))
        if body:
            self._write(body)
        self._finish()

    def piece(self, answer, data: bytes, is_text: bool) -> bool:
        """Sends a piece, the head before the first; whether more is wanted."""
        if not data:
            return True
        length, total = answer.length, self.sent + len(data)
        if length is not None and total > length:
            raise BadResponse(f"`content-length` is {length}, but the body has more bytes; leave the header out")
        if self.out is not None:
            head = answer.head if answer.typed else f"content-type: {TEXT if is_text else BINARY}\r\n{answer.head}"
            bodiless = answer.status in (204, 304) or self.head_only
            self._head(answer.status, head, None if bodiless else length)
            if bodiless:
                self._finish()
                return False
        self.sent = total
        self._write(data)
        return True

    def end(self, answer) -> None:
        """Ends a streamed body."""
        bodiless = answer.status in (204, 304)
        if answer.length is not None and self.sent != answer.length and not bodiless and not self.head_only:
            raise BadResponse(f"`content-length` is {answer.length}, but the body has {self.sent} bytes; "
                              "leave the header out")
        if self.out is not None:
            self._head(answer.status, answer.head, None if bodiless else 0)
        self._finish()

    def _refuse(self, detail: str) -> None:
        out, self.out = self.out, None
        ResponseOutparam.set(out, Err(ErrorCode_InternalError(detail)))

    def fail(self, error: BaseException) -> None:
        """Answers a call that has no good answer. After the head, the body ends without its end, which the client sees."""
        if isinstance(error, _Gone):
            if self.out is not None:
                # The client went away, or sent more than it may: the host knows which.
                self._refuse("the request's body broke off")
            return
        if isinstance(error, events.BadEvent):
            code, detail = "bad_request", str(error)
        elif isinstance(error, BadResponse):
            code, detail = "bad_response", str(error)
            output.complain(f"the handler's response is not valid: {detail}")
        elif isinstance(error, load.LoadError):
            place = f"{error.file}:{error.line}: " if error.file and error.line else ""
            code, detail = "function_error", error.error
            output.complain(error.stack or f"{place}{error.error}; {error.remedy}")
        else:
            kind, text = type(error).__name__, str(error)
            code, detail = "function_error", f"{kind}: {text}" if text else kind
            output.complain(output.stack(error))
        if self.out is None:
            self._cut()
            return
        if code == "bad_response":
            # The host's to tell: it is an outcome of the platform, with a header that functions can't set.
            self._refuse(detail)
            return
        status, head, body = problem.answer(code, detail, self.path, self.request_id)
        self._head(status, head, len(body))
        try:
            self._write(body)
            self._finish()
        except _Gone:
            pass
