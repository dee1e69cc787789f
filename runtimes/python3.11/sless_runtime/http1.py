"""HTTP/1.1 on one connection: reads requests strictly, one call at a time, writes answers whole or in pieces.

It knows nothing of handlers.
"""

import asyncio
import re
import time
from email.utils import formatdate

from . import problem
from .head import HEADER, Refused, parse
from .response import REASONS

# Request line and headers together: 100 headers and a 7 KB one fit many times.
MAX_HEAD_BYTES = 64 << 10
# Trailers are read over, so they may be small only.
MAX_TRAILER_BYTES = 8 << 10
MAX_CHUNK_LINE_BYTES = 256
# What a client may send ahead of the answer before it is no longer read.
MAX_AHEAD_BYTES = 64 << 10
# Above the 90 s that common clients keep idle connections, so that it is they who close.
IDLE_SECONDS = 120
BODY_PAUSE_SECONDS = 30
BODY_SECONDS = 300
# How long a refused client is still read, so that the answer is not lost to a reset.
LINGER_SECONDS = 2

HEAD, BODY, CHUNKS, TRAILERS, BUSY, CLOSING, CLOSED = range(7)

_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?").fullmatch

_date = (0, "")


def _date_line() -> str:
    global _date
    now = int(time.time())
    if now != _date[0]:
        _date = (now, f"date: {formatdate(now, usegmt=True)}\r\n")
    return _date[1]


class Connection(asyncio.Protocol):
    """One client. `service` has `connections`, `max_body`, `draining`, `call(connection, …)`, `probe(connection)`."""

    __slots__ = ("service", "loop", "transport", "buf", "scanned", "state", "deadline", "need", "chunks", "body_until",
                 "keep_alive", "old", "method", "path", "query", "headers", "paused", "held", "advancing", "call",
                 "chunked", "bodiless", "eof", "unsent")

    def __init__(self, service, loop):
        self.service = service
        self.loop = loop
        self.transport = None
        self.buf = bytearray()
        self.scanned = 0
        self.state = HEAD
        self.deadline = loop.time() + IDLE_SECONDS
        self.paused = False  # Writing: the client is slower than the answer.
        self.held = False  # Reading: the client sends ahead.
        self.eof = False
        self.unsent = 0
        self.old = False
        self.advancing = False
        self.call = None
        self.method = self.path = "-"

    # Called by asyncio.

    def connection_made(self, transport):
        self.transport = transport
        if len(self.service.connections) >= self.service.max_connections:
            transport.abort()
            self.state = CLOSED
            return
        self.service.connections.add(self)

    def connection_lost(self, _error):
        self.state = CLOSED
        self.service.connections.discard(self)
        if self.call is not None:
            call, self.call = self.call, None
            call.client_gone()

    def data_received(self, data):
        if self.state >= CLOSING:
            return
        buf = self.buf
        if self.state == HEAD and not buf:
            self.deadline = self.loop.time() + self.service.head_seconds
        buf += data
        if self.state == BUSY or self.paused:
            if len(buf) > MAX_AHEAD_BYTES and not self.held:
                self.held = True
                self.transport.pause_reading()
            return
        self._advance()

    def eof_received(self):
        self.eof = True
        if self.state == BUSY:
            self.keep_alive = False
            return True  # It may have closed its side only: the answer is still owed.
        return False

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False
        if self.call is not None:
            self.call.resume()
        elif self.state < BUSY:
            self._advance()

    # Reading.

    def _advance(self):
        if self.advancing:
            return
        self.advancing = True
        try:
            while self.state < BUSY and not self.paused and self._step():
                pass
        except Refused as refused:
            self._refuse(*refused.args)
        finally:
            self.advancing = False
        if self.held and self.state < BUSY and not self.paused:
            self.held = False
            self.transport.resume_reading()

    def _step(self) -> bool:
        """Takes the next part out of the buffer; false when there is not enough of it."""
        if self.state == HEAD:
            return self._read_head()
        self.deadline = min(self.body_until, self.loop.time() + BODY_PAUSE_SECONDS)
        if self.state == BODY:
            if len(self.buf) < self.need:
                return False
            body = bytes(self.buf[: self.need])
            del self.buf[: self.need]
            self._dispatch(body)
            return True
        return self._read_chunk() if self.state == CHUNKS else self._read_trailer()

    def _read_head(self) -> bool:
        buf = self.buf
        if not buf:
            return False
        if buf[:2] == b"\r\n":  # RFC 9112 2.2: an empty line before a request is passed over.
            del buf[:2]
            return True
        end = buf.find(b"\r\n\r\n", max(0, self.scanned - 3))
        if end < 0 or end > MAX_HEAD_BYTES:
            bare = buf.find(b"\n", self.scanned)
            if bare == 0 or bare > 0 and buf[bare - 1] != 13:
                raise Refused("bad_request", "a line ends without CR")
            if len(buf) > MAX_HEAD_BYTES:
                raise Refused("headers_too_large", f"request line and headers have more than {MAX_HEAD_BYTES} bytes")
            self.scanned = len(buf)
            return False
        lines = buf[:end].decode("latin-1").split("\r\n")
        del buf[: end + 4]
        self.scanned = 0
        self.method = self.path = "-"  # Until it is known: not those of the request before.
        head = parse(lines)
        self.method, self.path, self.query, self.headers = head.method, head.path, head.query, head.headers
        self.keep_alive, self.old = head.keep_alive, head.old
        self._frame(head.length, head.coding, head.expect)
        return True

    def _frame(self, length, coding, expect):
        """Decides how the body ends."""
        if expect is not None and expect != "100-continue":
            raise Refused("expectation_failed", "only `100-continue` is understood")
        if coding is not None:
            if length is not None or self.old:
                raise Refused("bad_request", "transfer-encoding can't go with content-length or HTTP/1.0")
            if coding != "chunked":
                raise Refused("not_implemented", "`chunked` is the only transfer-encoding understood")
            self.chunks, self.need, self.state = bytearray(), -1, CHUNKS
        elif length:
            if length > self.service.max_body:
                raise self._too_large()
            self.need, self.state = length, BODY
        else:
            self._dispatch(b"")
            return
        self.body_until = self.loop.time() + BODY_SECONDS
        if expect and not self.old and not self.buf:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _too_large(self):
        return Refused("payload_too_large", f"the body has more than {self.service.max_body} bytes "
                       "(limits.requestBytes)")

    def _read_chunk(self) -> bool:
        buf = self.buf
        if self.need < 0:
            end = buf.find(b"\r\n", 0, MAX_CHUNK_LINE_BYTES)
            if end < 0:
                if len(buf) >= MAX_CHUNK_LINE_BYTES or b"\n" in buf:
                    raise Refused("bad_request", "a chunk does not begin with its size")
                return False
            match = _CHUNK_SIZE(bytes(buf[:end]))
            if match is None:
                raise Refused("bad_request", "a chunk does not begin with its size")
            size = int(match[1], 16)
            if len(self.chunks) + size > self.service.max_body:
                raise self._too_large()
            del buf[: end + 2]
            if size == 0:
                self.state, self.need = TRAILERS, MAX_TRAILER_BYTES
            else:
                self.need = size
            return True
        if len(buf) < self.need + 2:
            return False
        if buf[self.need : self.need + 2] != b"\r\n":
            raise Refused("bad_request", "a chunk is longer than its size")
        self.chunks += buf[: self.need]
        del buf[: self.need + 2]
        self.need = -1
        return True

    def _read_trailer(self) -> bool:
        end = self.buf.find(b"\r\n", 0, self.need)
        if end < 0:
            if len(self.buf) >= self.need:
                raise Refused("headers_too_large", f"the trailers have more than {MAX_TRAILER_BYTES} bytes")
            return False
        line = self.buf[:end].decode("latin-1")
        del self.buf[: end + 2]
        self.need -= end + 2
        if line:
            if HEADER(line) is None:
                raise Refused("bad_request", "a trailer line is not `name: value`")
            return True
        body, self.chunks = bytes(self.chunks), None
        self._dispatch(body)
        return True

    def _dispatch(self, body):
        self.state, self.deadline = BUSY, None
        headers, self.headers = self.headers, None
        self.service.call(self, self.method, self.path, self.query, headers, body)

    def overdue(self, now) -> None:
        """Ends it if it has been too slow. Called now and then for every connection."""
        if self.deadline is None or now < self.deadline:
            return
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent != self.unsent:  # Slow, but it reads.
            self.unsent, self.deadline = unsent, now + IDLE_SECONDS
        elif unsent or self.state == CLOSING:
            self.transport.abort()
        elif self.state == HEAD and not self.buf:
            self.close()
        else:
            self._refuse("request_timeout", "the request did not arrive in time")

    # Writing.

    def _refuse(self, code, detail):
        self.keep_alive = False
        status, head, body = problem.answer(code, detail, self.path, "")
        self.state = BUSY
        self.send(status, head, body)

    def _head(self, status, head, framing) -> bytes:
        if self.service.draining:
            self.keep_alive = False
        if not self.keep_alive:
            framing += "connection: close\r\n"
        elif self.old:
            framing += "connection: keep-alive\r\n"
        return f"HTTP/1.1 {status} {REASONS.get(status, '')}\r\n{head}{framing}{_date_line()}\r\n".encode("latin-1")

    def send(self, status, head, body, length=None):
        """A whole answer. `length` is said in place of the body's where no body goes out (HEAD)."""
        if self.state != BUSY:
            return
        if status == 204 or status == 304:
            framing, body = "", b""
        else:
            framing = f"content-length: {len(body) if length is None else length}\r\n"
            if self.method == "HEAD":
                body = b""
        self.transport.write(self._head(status, head, framing) + body)
        self._done()

    def begin(self, status, head, length):
        """The head of an answer whose body follows by `piece` and `end`. True if a body may follow."""
        self.bodiless = self.method == "HEAD" or status in (204, 304)
        self.chunked = False
        framing = ""
        if status in (204, 304):
            pass
        elif length is not None:
            framing = f"content-length: {length}\r\n"
        elif self.old:
            self.keep_alive = False
        else:
            self.chunked = not self.bodiless
            framing = "transfer-encoding: chunked\r\n"
        self.transport.write(self._head(status, head, framing))
        return not self.bodiless

    def piece(self, data):
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    def end(self):
        if self.state == BUSY:
            if self.chunked:
                self.transport.write(b"0\r\n\r\n")
            self._done()

    def cut(self):
        """Ends an answer that can't be completed, so that the client sees it as broken."""
        self.call = None
        if self.state != CLOSED:
            self.state = CLOSED
            self.transport.abort()

    def close(self):
        """Ends the connection after what is written already."""
        self.state = CLOSED
        self.transport.close()

    def _done(self):
        self.call = None
        if self.keep_alive:
            self.state = HEAD
            self.deadline = self.loop.time() + (self.service.head_seconds if self.buf else IDLE_SECONDS)
            if self.buf or self.held:
                self._advance()
            return
        self.buf.clear()
        if self.eof:
            self.close()
            return
        self.state = CLOSING
        unsent = self.transport.get_write_buffer_size()
        self.deadline = self.loop.time() + (IDLE_SECONDS if unsent else LINGER_SECONDS)
        if self.held:
            self.held = False
            self.transport.resume_reading()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
