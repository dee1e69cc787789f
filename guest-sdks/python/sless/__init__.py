"""The handler contract of sless as types. Both runtimes, ``wasm-python`` and ``python3.11``, keep it.

Nothing here is needed at run time: import it under ``TYPE_CHECKING``. ``sless.testing`` calls a handler in tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NotRequired, Protocol, TypeAlias, TypedDict


class HttpEvent(TypedDict):
    """An HTTP request."""

    method: str
    """As sent."""
    path: str
    """The path after the function's name, byte for byte: ``%2F``, ``//`` and a trailing slash stay as they are."""
    rawQuery: str
    """What follows ``?``, byte for byte; ``""`` without one."""
    query: dict[str, str | list[str]]
    """The query decoded as a form: a key that comes once has text, a repeated one a list in order."""
    headers: dict[str, str]
    """Names in lower case. Repeated headers are joined with ``, ``, cookies with ``; ``."""
    body: str
    """Text, or base64 of the bytes where ``isBase64Encoded``; ``""`` without a body."""
    isBase64Encoded: bool


class CloudEvent(TypedDict):
    """An event of a schedule, a device or an asynchronous call: a CloudEvent 1.0. It may have extensions, too."""

    specversion: str
    id: str
    source: str
    type: str
    time: NotRequired[str]
    subject: NotRequired[str]
    datacontenttype: NotRequired[str]
    data: NotRequired[Any]
    data_base64: NotRequired[str]


Event: TypeAlias = HttpEvent | CloudEvent
"""``"specversion" in event`` tells the two apart."""


class Log(Protocol):
    """Writes a line to the function's log: a message, values for its ``%s``, and fields as keywords."""

    def __call__(self, message: object, *args: object, **fields: object) -> None: ...
    def debug(self, message: object, *args: object, **fields: object) -> None: ...
    def info(self, message: object, *args: object, **fields: object) -> None: ...
    def warn(self, message: object, *args: object, **fields: object) -> None: ...
    def warning(self, message: object, *args: object, **fields: object) -> None: ...
    def error(self, message: object, *args: object, **fields: object) -> None: ...
    def exception(self, message: object, *args: object, **fields: object) -> None: ...


class Context(Protocol):
    """What a handler knows of its call. ``context["requestId"]`` reads as ``context.requestId`` does."""

    @property
    def requestId(self) -> str: ...
    @property
    def functionName(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def deadlineMs(self) -> int:
        """When the call is cut, in milliseconds of Unix time."""
    @property
    def log(self) -> Log: ...
    def __getitem__(self, name: str, /) -> Any: ...


Json: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | float | bool | None
Body: TypeAlias = bytes | bytearray | memoryview | Json | Iterator[str | bytes] | AsyncIterator[str | bytes]
"""Text, bytes, JSON, or a stream whose pieces go out as they are made."""


class HttpResponse(TypedDict):
    """A response with a status of its own."""

    statusCode: int
    """200 to 599."""
    headers: NotRequired[Mapping[str, str | int | Sequence[str | int]] | None]
    """Each value is text, a whole number, or a list of them, which becomes a header for each."""
    body: NotRequired[Body]
    """It decides the content type, unless ``headers`` has one."""
    isBase64Encoded: NotRequired[bool | None]
    """``body`` is base64 text."""


Result: TypeAlias = HttpResponse | Body
"""A response, or a body alone with status 200. ``None`` is 204."""

Handler: TypeAlias = Callable[[Any, Context], Result | Awaitable[Result]]

__all__ = [
    "Body", "CloudEvent", "Context", "Event", "Handler", "HttpEvent", "HttpResponse", "Json", "Log", "Result",
]
