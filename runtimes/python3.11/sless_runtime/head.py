"""The head of a request. Whatever can be read in two ways is refused: a proxy in front may read it the other way."""

import re

MAX_HEADERS = 200

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE = re.compile(_TOKEN.join(("(", r"{1,32}) ([\x21-\x7e\x80-\xff]+) HTTP/(\d)\.(\d)"))).fullmatch
_VALUE = r"[ \t]*((?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)[ \t]*"
HEADER = re.compile(f"({_TOKEN}+):{_VALUE}").fullmatch
_ABSOLUTE = re.compile(r"https?://[^/?#]+", re.I).match


class Refused(Exception):
    """The request is not HTTP as we take it: `(code, detail)`."""


class Head:
    """A head taken apart. `headers` are pairs with names in lower case; `old` is HTTP/1.0."""

    __slots__ = ("method", "path", "query", "headers", "old", "keep_alive", "length", "coding", "expect")


def parse(lines) -> Head:
    """The head of its lines."""
    match = _REQUEST_LINE(lines[0])
    if match is None:
        raise Refused("bad_request", "the first line is no HTTP request line")
    method, target, major, minor = match.groups()
    if major != "1":
        raise Refused("http_version_not_supported", "use HTTP/1.1")
    if len(lines) - 1 > MAX_HEADERS:
        raise Refused("headers_too_large", f"there are more than {MAX_HEADERS} headers")
    pairs, connection = [], ""
    hosts, length, coding, expect = 0, None, None, None
    for line in lines[1:]:
        match = HEADER(line)
        if match is None:
            raise Refused("bad_request", "a header line is not `name: value`")
        name, value = match.groups()
        name = name.lower()
        pairs.append((name, value))
        if name == "host":
            hosts += 1
        elif name == "content-length":
            if length is not None or not (value.isascii() and value.isdigit()) or len(value) > 15:
                raise Refused("bad_request", "content-length is not one whole number")
            length = int(value)
        elif name == "transfer-encoding":
            coding = value.lower() if coding is None else "twice"
        elif name == "connection":
            connection = f"{connection},{value.lower()}"
        elif name == "expect":
            expect = value.lower()
    head = Head()
    head.method, head.headers = method, pairs
    head.length, head.coding, head.expect = length, coding, expect
    old = head.old = minor == "0"
    if hosts != 1 and (hosts or not old):
        raise Refused("bad_request", "there has to be one Host header")
    tokens = [token.strip() for token in connection.split(",")] if connection else ()
    head.keep_alive = "close" not in tokens and (not old or "keep-alive" in tokens)
    head.path, _, head.query = _origin(method, target).partition("?")
    return head


def _origin(method, target):
    """Path and query, also of a target with scheme and host."""
    if target[0] == "/" or (target == "*" and method == "OPTIONS"):
        return target
    match = _ABSOLUTE(target)
    if match is None or method == "CONNECT":
        raise Refused("bad_request", "the request target is no path")
    target = target[match.end() :]
    return target if target[:1] == "/" else "/" + target
