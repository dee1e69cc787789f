"""`http.client` over `wasi:http`, and so `urllib.request`. The host makes the connection, TLS and what the egress policy says.

There are no sockets. A connection object sends one request at a time; the answer is the library's own `HTTPResponse`, which
reads a head made of what the host says and then the body as it comes.
"""

import http.client
import io

from componentize_py_types import Err, Ok
from wit_world.imports import outgoing_handler
from wit_world.imports.streams import StreamError_Closed
from wit_world.imports.types import (
    ErrorCode_ConnectionTimeout, ErrorCode_DestinationIpProhibited, ErrorCode_DnsError, ErrorCode_HttpRequestDenied,
    ErrorCode_HttpResponseTimeout, ErrorCode_InternalError, Fields, Method_Connect, Method_Delete, Method_Get, Method_Head,
    Method_Options, Method_Other, Method_Patch, Method_Post, Method_Put, Method_Trace, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme_Http, Scheme_Https,
)

from . import state

_METHODS = {"GET": Method_Get, "HEAD": Method_Head, "POST": Method_Post, "PUT": Method_Put, "DELETE": Method_Delete,
            "CONNECT": Method_Connect, "OPTIONS": Method_Options, "TRACE": Method_Trace, "PATCH": Method_Patch}
# Of the connection, which is the host's.
_OF_THE_HOST = frozenset(("host", "connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade",
                          "expect"))
_WRITE_BYTES = 4096
_READ_BYTES = 64 << 10


def _error(code) -> OSError:
    """What went wrong outside, as the library would raise it."""
    if isinstance(code, (ErrorCode_HttpRequestDenied, ErrorCode_DestinationIpProhibited)):
        return PermissionError(13, "the function's egress policy (egress.allow) does not let this request out")
    if isinstance(code, (ErrorCode_ConnectionTimeout, ErrorCode_HttpResponseTimeout)):
        return TimeoutError("the request timed out")
    if isinstance(code, ErrorCode_InternalError):
        return ConnectionError(code.value or "the request failed")
    if isinstance(code, ErrorCode_DnsError):
        return OSError(-2, "the host's name is not known")
    name = type(code).__name__.removeprefix("ErrorCode_")
    return ConnectionError(f"the request failed: {name}")


class _Body(io.RawIOBase):
    """The answer: a head in memory, then the body from the host."""

    def __init__(self, head: bytes, response):
        self._buffer = memoryview(head)
        self._body = response.consume()
        self._stream = self._body.stream()
        self._response = response

    def readable(self):
        return True

    def readinto(self, into):
        if not self._buffer and self._stream is not None:
            try:
                self._buffer = memoryview(self._stream.blocking_read(_READ_BYTES))
            except Err as error:
                if not isinstance(error.value, StreamError_Closed):
                    raise ConnectionError("the answer broke off") from None
                self._let_go()
        count = min(len(into), len(self._buffer))
        into[:count] = self._buffer[:count]
        self._buffer = self._buffer[count:]
        return count

    def _let_go(self):
        for held in (self._stream, self._body, self._response):
            if held is not None:
                held.__exit__(None, None, None)
        self._stream = self._body = self._response = None

    def close(self):
        self._let_go()
        super().close()


class _Answered:
    """What `HTTPResponse` wants of a socket."""

    def __init__(self, raw):
        self._raw = raw

    def makefile(self, mode):
        return io.BufferedReader(self._raw, _READ_BYTES)

    def close(self):
        pass


class HTTPConnection(http.client.HTTPConnection):
    """`http.client.HTTPConnection` without a socket."""

    _scheme = Scheme_Http

    def connect(self):
        pass

    def set_tunnel(self, host, port=None, headers=None):
        raise OSError("proxies can't be had in wasm-python; call the address itself")

    def putrequest(self, method, url, skip_host=False, skip_accept_encoding=False):
        if not state.serving:
            state.note("the network")
            raise OSError("the network can't be used while the function is built; call from the handler")
        self._validate_method(method)
        self._method = method
        self._target = url or "/"
        self._validate_path(self._target)
        self._pairs = []
        self._outgoing = self._stream = self._future = None
        if not skip_accept_encoding:
            self.putheader("Accept-Encoding", "identity")

    def putheader(self, header, *values):
        name = header if isinstance(header, str) else header.decode("ascii")
        encoded = [value if isinstance(value, bytes) else str(value).encode("latin-1") for value in values]
        if name.lower() not in _OF_THE_HOST:
            self._pairs.append((name, b"\r\n\t".join(encoded)))

    def endheaders(self, message_body=None, *, encode_chunked=False):
        try:
            fields = Fields.from_list(self._pairs)
        except Err as error:
            raise ValueError(f"a header can't be sent: {type(error.value).__name__}") from None
        request = OutgoingRequest(fields)
        known = _METHODS.get(self._method)
        request.set_method(known() if known else Method_Other(self._method))
        host = f"[{self.host}]" if ":" in self.host else self.host
        try:
            request.set_scheme(self._scheme())
            request.set_authority(host if self.port == self.default_port else f"{host}:{self.port}")
            target = self._target
            if "://" in target:
                target = "/" + target.split("://", 1)[1].partition("/")[2]
            request.set_path_with_query(target)
        except Err:
            raise http.client.InvalidURL(f"{host}:{self.port}{self._target} can't be called") from None
        options = RequestOptions()
        if isinstance(self.timeout, (int, float)):
            nanoseconds = max(1, int(self.timeout * 1e9))
            options.set_connect_timeout(nanoseconds)
            options.set_first_byte_timeout(nanoseconds)
            options.set_between_bytes_timeout(nanoseconds)
        self._outgoing = request.body()
        try:
            self._future = outgoing_handler.handle(request, options)
        except Err as error:
            raise _error(error.value) from None
        if message_body is not None:
            self.send(message_body)

    def send(self, data):
        if self._stream is None:
            self._stream = self._outgoing.write()
        if isinstance(data, str):
            data = data.encode("latin-1")
        if hasattr(data, "read"):
            pieces = iter(lambda: data.read(self.blocksize), type(data.read(0))())
        else:
            pieces = (data,) if isinstance(data, (bytes, bytearray, memoryview)) else data
        try:
            for piece in pieces:
                view = memoryview(piece.encode("latin-1") if isinstance(piece, str) else piece).cast("B")
                for start in range(0, len(view), _WRITE_BYTES):
                    self._stream.blocking_write_and_flush(bytes(view[start : start + _WRITE_BYTES]))
        except Err:
            pass  # The answer tells why it was not taken.

    def getresponse(self):
        if self._future is None:
            raise http.client.ResponseNotReady("Idle")
        if self._stream is not None:
            self._stream.__exit__(None, None, None)
        try:
            OutgoingBody.finish(self._outgoing, None)
        except Err:
            pass  # The same.
        future = self._future
        self._outgoing = self._stream = self._future = None
        pollable = future.subscribe()
        pollable.block()
        pollable.__exit__(None, None, None)
        answer = future.get()
        future.__exit__(None, None, None)
        if not isinstance(answer, Ok) or not isinstance(answer.value, Ok):
            raise _error(getattr(getattr(answer, "value", None), "value", None))
        response = answer.value.value
        status = response.status()
        lines = [b"HTTP/1.1 %d %s" % (status, http.client.responses.get(status, "").encode())]
        lines += [name.encode() + b": " + value for name, value in response.headers().entries()
                  if name.lower() not in ("transfer-encoding", "connection")]
        raw = _Body(b"\r\n".join([*lines, b"Connection: close", b"", b""]), response)
        answered = self.response_class(_Answered(raw), method=self._method)
        answered.begin()
        return answered

    def close(self):
        self._outgoing = self._stream = self._future = None


class HTTPSConnection(HTTPConnection):
    """`http.client.HTTPSConnection`: TLS is the host's."""

    default_port = 443
    _scheme = Scheme_Https

    def __init__(self, host, port=None, *, timeout=None, source_address=None, context=None, blocksize=8192, **_):
        super().__init__(host, port, timeout=timeout, source_address=source_address, blocksize=blocksize)


def install() -> None:
    """Puts them into `http.client`; before `urllib.request` is imported, which looks what is there."""
    http.client.HTTPConnection = HTTPConnection
    http.client.HTTPSConnection = HTTPSConnection
    http.client._create_https_context = lambda _version: None
