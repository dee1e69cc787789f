"""Calls of a handler as the platform makes them, without a server.

Requests and answers are read by the runtime's own code, so a test sees what a client would.

>>> call(lambda event, context: {"path": event["path"]}, "/a%2Fb?x=1").json()
{'path': '/a%2Fb'}
"""

from __future__ import annotations

import asyncio
import inspect
import json as json_module
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from .contract import event as _event
from .contract import response as _response

if TYPE_CHECKING:
    from . import CloudEvent, Handler

# The platform's default for `limits.responseBytes`.
_MAX_RESPONSE_BYTES = 6 << 20
_WITHOUT_BODY = (204, 304)


@dataclass(frozen=True)
class Answer:
    """What a client would get, and what the handler wrote with ``context.log``."""

    status: int
    headers: dict[str, str | list[str]]
    """Names in lower case; a list where a header comes several times."""
    body: bytes
    logs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json_module.loads(self.body)


class _Log:
    """``context.log`` that keeps what it is given."""

    def __init__(self, logs: list[dict[str, Any]]) -> None:
        self._logs = logs

    def _at(self, level: str, message: object, args: tuple[object, ...], fields: dict[str, Any]) -> None:
        text = str(message) % args if args else str(message)
        self._logs.append({"level": level, "message": text, **fields})

    def __call__(self, message: object, *args: object, **fields: object) -> None:
        self._at("info", message, args, fields)

    info = __call__

    def debug(self, message: object, *args: object, **fields: object) -> None:
        self._at("debug", message, args, fields)

    def warn(self, message: object, *args: object, **fields: object) -> None:
        self._at("warn", message, args, fields)

    warning = warn

    def error(self, message: object, *args: object, **fields: object) -> None:
        self._at("error", message, args, fields)

    exception = error


class _Context(dict[str, Any]):
    """Fields that are read as attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def cloud_event(**attributes: Any) -> CloudEvent:
    """A CloudEvent, with what is not given filled in."""
    event = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "source": "/test",
        "type": "test",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **attributes,
    }
    return cast("CloudEvent", event)


def _request(target: str, method: str | None, headers: Any, body: str | bytes, json: Any) -> dict[str, Any]:
    if not target.startswith("/"):
        raise ValueError(f"path is {target!r}; it begins with /")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    joined = _event.join_headers((name.lower(), value) for name, value in pairs)
    raw = body.encode() if isinstance(body, str) else bytes(body)
    if json is not None:
        raw = json_module.dumps(json, ensure_ascii=False).encode()
        joined.setdefault("content-type", "application/json")
    path, _, query = target.partition("?")
    made: dict[str, Any] = _event.make(method or ("POST" if raw else "GET"), path, query, joined, raw)
    return made


async def _settle(result: Any) -> tuple[Any, list[Any]]:
    """The prepared answer and, where it is a stream, its pieces."""
    if inspect.isawaitable(result):
        result = await result
    prepared = _response.prepare(result, _MAX_RESPONSE_BYTES)
    if prepared.stream is None:
        return prepared, []
    if hasattr(prepared.stream, "__anext__"):
        return prepared, [piece async for piece in prepared.stream]
    return prepared, list(prepared.stream)


def call(
    handler: Handler,
    path: str = "/",
    *,
    method: str | None = None,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    body: str | bytes = b"",
    json: Any = None,
    event: CloudEvent | None = None,
    context: Mapping[str, Any] | None = None,
) -> Answer:
    """Calls a handler once, with an HTTP request or with ``event`` as it is.

    ``method`` is GET, or POST with a body. What the handler raises is raised; what is no response is an error that names
    the fault.
    """
    logs: list[dict[str, Any]] = []
    given: Any = event if event is not None else _request(path, method, headers, body, json)
    known = _Context({
        "requestId": str(uuid.uuid4()),
        "functionName": "test",
        "namespace": "sless-0000000000000000",
        "version": 1,
        "deadlineMs": int(time.time() * 1000) + 30_000,
        "log": _Log(logs),
        **(context or {}),
    })

    async def run() -> tuple[Any, list[Any]]:
        return await _settle(handler(given, known))

    prepared, pieces = asyncio.run(run())
    lines = prepared.head
    if pieces and not prepared.typed:
        kind = _response.TEXT if isinstance(pieces[0], str) else _response.BINARY
        lines = f"content-type: {kind}\r\n{lines}"
    whole = b"".join(map(_response.piece, pieces)) if pieces else prepared.body
    dropped = given.get("method") == "HEAD" or prepared.status in _WITHOUT_BODY
    answered: dict[str, str | list[str]] = {}
    for line in filter(None, lines.split("\r\n")):
        name, _, value = line.partition(": ")
        known_value = answered.get(name)
        if known_value is None:
            answered[name] = value
        else:
            answered[name] = [*([known_value] if isinstance(known_value, str) else known_value), value]
    return Answer(prepared.status, answered, b"" if dropped else whole, logs)
