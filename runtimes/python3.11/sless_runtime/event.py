"""What a handler gets: the event of a request, and the context."""

import base64
import functools
import json
import re
from urllib.parse import unquote_to_bytes

CLOUD_EVENT = "application/cloudevents+json"

# The media types whose bodies are text if they are valid UTF-8. The same list in every runtime (runtimes/README.md).
_TEXT = re.compile(
    r"text/.+|.+/(?:json|xml|javascript|ecmascript|yaml|x-yaml|toml|graphql|sql|ndjson|x-ndjson|jsonl"
    r"|x-www-form-urlencoded)|.+\+(?:json|xml|yaml)"
)
# Of the connection, not of the request: a handler never sees them.
HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)


class BadEvent(ValueError):
    """The body is no CloudEvent; the text says why."""


def media_type(content_type: str) -> str:
    """`text/html; charset=x` → `text/html`."""
    return content_type.partition(";")[0].strip().lower()


@functools.lru_cache(256)
def _is_text(content_type: str) -> bool:
    kind = media_type(content_type)
    return kind == "" or _TEXT.fullmatch(kind) is not None


def join_headers(pairs) -> dict:
    """Names in lower case; repeated ones joined as RFC 9110 says, cookies as RFC 6265 does."""
    headers: dict = {}
    for name, value in pairs:
        if name in HOP_BY_HOP:
            continue
        known = headers.get(name)
        if known is None:
            headers[name] = value
        else:
            headers[name] = known + ("; " if name == "cookie" else ", ") + value
    return headers


def parse_query(raw: str) -> dict:
    """`x=1&x=2&y=` → `{"x": ["1", "2"], "y": ""}`: form encoding in UTF-8, wrong bytes replaced, wrong `%` kept."""
    query: dict = {}
    if not raw:
        return query
    for piece in raw.split("&"):
        if not piece:
            continue
        name, _, value = piece.partition("=")
        if "%" in piece or "+" in piece or not piece.isascii():
            name, value = _decode(name), _decode(value)
        known = query.get(name)
        if known is None:
            query[name] = value
        elif isinstance(known, list):
            known.append(value)
        else:
            query[name] = [known, value]
    return query


def _decode(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ").encode("latin-1")).decode("utf-8", "replace")


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


def _cloud_event(body: bytes) -> dict:
    try:
        event = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadEvent(f"the body is not JSON: {error}") from None
    if not isinstance(event, dict):
        raise BadEvent("a CloudEvent is a JSON object")
    for attribute in ("specversion", "id", "source", "type"):
        value = event.get(attribute)
        if not isinstance(value, str) or not value:
            raise BadEvent(f"a CloudEvent needs `{attribute}`, a string that is not empty")
    return event


def make(method: str, path: str, raw_query: str, headers: dict, body: bytes) -> dict:
    """The event of a request: a CloudEvent as it is, else the HTTP request."""
    kind = headers.get("content-type", "")
    if kind and media_type(kind) == CLOUD_EVENT:
        return _cloud_event(body)
    text, encoded = "", False
    if body:
        try:
            if not _is_text(kind):
                raise ValueError
            text = body.decode("utf-8")
        except ValueError:
            text, encoded = base64.b64encode(body).decode("ascii"), True
    return {"method": method, "path": path, "rawQuery": raw_query, "query": parse_query(raw_query),
            "headers": headers, "body": text, "isBase64Encoded": encoded}


class Context:
    """What a handler knows of its call. Read `context.requestId` or `context["requestId"]`."""

    __slots__ = ("requestId", "functionName", "namespace", "version", "deadlineMs", "log")

    def __init__(self, requestId, functionName, namespace, version, deadlineMs, log):
        self.requestId = requestId
        self.functionName = functionName
        self.namespace = namespace
        self.version = version
        self.deadlineMs = deadlineMs
        self.log = log

    def __getitem__(self, name):
        if name in self.__slots__:
            return getattr(self, name)
        raise KeyError(name)

    def get(self, name, default=None):
        return getattr(self, name) if name in self.__slots__ else default
