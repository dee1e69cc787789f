"""What a handler returned → status, head and body. Whatever is not a response is refused with the fault's name."""

import base64
import binascii
import json
import re
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus

from .event import HOP_BY_HOP

REASONS = {int(s): s.phrase for s in HTTPStatus}
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
BINARY = "application/octet-stream"
FIELDS = ("statusCode", "headers", "body", "isBase64Encoded")

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_VALUE = re.compile(r"(?:[\t\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\t\x21-\x7e\x80-\xff])?)?").fullmatch


class BadResponse(ValueError):
    """The function's fault, named."""


class Prepared:
    """An answer ready for the wire. `stream` is an iterator, sync or async, if the body comes in pieces."""

    __slots__ = ("status", "head", "body", "stream", "typed", "length")

    def __init__(self, status, head, body=b"", stream=None, typed=True, length=None):
        self.status = status
        self.head = head  # Header lines, each with its CRLF, without the framing.
        self.body = body
        self.stream = stream
        self.typed = typed  # Whether a content-type is in the head.
        self.length = length  # What the function said in content-length.


def encode(text: str) -> bytes:
    """UTF-8; a lone surrogate, which UTF-8 has no bytes for, becomes U+FFFD as in JavaScript."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def to_json(value) -> bytes:
    try:
        return encode(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadResponse(f"the handler returned a {type(value).__name__} that can't be written as JSON: {error}; "
                          "return text, bytes, JSON values or a response") from None


def piece(chunk) -> bytes:
    """A piece of a streamed body."""
    if isinstance(chunk, str):
        return encode(chunk)
    if isinstance(chunk, (bytes, bytearray, memoryview)):
        return bytes(chunk)
    raise BadResponse(f"the body's stream gave a {type(chunk).__name__}; give str or bytes")


def _one(name, value) -> str:
    if isinstance(value, str):
        text = value.strip(" \t")
    elif isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    else:
        raise BadResponse(f"header `{name}` is a {type(value).__name__}; use text, a whole number, or a list of them")
    if not _VALUE(text):
        raise BadResponse(f"header `{name}` has a character that headers can't carry; "
                          "allowed are U+0020 to U+007E and U+0080 to U+00FF")
    return text


def _headers(given):
    """`(lines, content-type given, content-length)`."""
    if given is None:
        return "", False, None
    if not isinstance(given, dict):
        raise BadResponse(f"`headers` is a {type(given).__name__}; use an object of names and values")
    lines, typed, length = [], False, None
    for name, values in given.items():
        if not isinstance(name, str) or not _TOKEN(name):
            raise BadResponse(f"{name!r} is no header name")
        lower = name.lower()
        texts = [_one(name, v) for v in values] if isinstance(values, (list, tuple)) else [_one(name, values)]
        # The connection is the runtime's; X-Sless-* are the platform's own words; the date is the server's.
        if lower in HOP_BY_HOP or lower.startswith("x-sless-") or lower == "date":
            continue
        if lower == "content-length":
            if len(texts) != 1 or not (texts[0].isascii() and texts[0].isdigit()) or len(texts[0]) > 15:
                raise BadResponse(f"`content-length` is {', '.join(texts)!r}; use the body's length, or leave it out")
            length = int(texts[0])
            continue
        if lower == "content-type":
            typed = True
        for text in texts:
            lines.append(f"{lower}: {text}\r\n")
    return "".join(lines), typed, length


def _body(value, is_base64):
    """`(bytes, stream, default content-type)`."""
    if is_base64:
        if not isinstance(value, str):
            raise BadResponse(f"`isBase64Encoded` is true, but `body` is a {type(value).__name__}; use base64 text")
        try:
            return base64.b64decode(value, validate=True), None, BINARY
        except (binascii.Error, ValueError) as error:
            raise BadResponse(f"`isBase64Encoded` is true, but `body` is not base64: {error}") from None
    if value is None:
        return b"", None, None
    if isinstance(value, str):
        return encode(value), None, TEXT
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), None, BINARY
    if isinstance(value, (AsyncIterator, Iterator)):
        return b"", value, None
    return to_json(value), None, JSON


def prepare(result, max_bytes: int) -> Prepared:
    """The answer that a handler's return value stands for."""
    if isinstance(result, dict) and "statusCode" in result:
        return _response(result, max_bytes)
    body, stream, kind = _body(result, False)
    if stream is not None:
        return Prepared(200, "", stream=stream, typed=False)
    if result is None:
        return Prepared(204, "")
    _check_size(body, max_bytes)
    return Prepared(200, f"content-type: {kind}\r\n", body)


def _response(result: dict, max_bytes: int) -> Prepared:
    for field in result:
        if field not in FIELDS:
            raise BadResponse(f"`{field}` is no field of a response; there are {', '.join(FIELDS)} "
                              "(a header with several values has a list)")
    status = result["statusCode"]
    if not isinstance(status, int) or isinstance(status, bool) or not 200 <= status <= 599:
        raise BadResponse(f"`statusCode` is {status!r}; use a whole number from 200 to 599")
    head, typed, length = _headers(result.get("headers"))
    is_base64 = result.get("isBase64Encoded")
    if is_base64 not in (None, True, False):
        raise BadResponse(f"`isBase64Encoded` is {is_base64!r}; use true or false")
    body, stream, kind = _body(result.get("body"), is_base64)
    if stream is not None:
        return Prepared(status, head, stream=stream, typed=typed, length=length)
    _check_size(body, max_bytes)
    if body and not typed:
        head += f"content-type: {kind}\r\n"
    return Prepared(status, head, body, length=length)


def _check_size(body: bytes, max_bytes: int) -> None:
    if len(body) > max_bytes:
        raise BadResponse(f"the response's body has {len(body)} bytes; at most {max_bytes} are allowed "
                          "(limits.responseBytes)")
