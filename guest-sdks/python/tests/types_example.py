"""Checked by mypy, never run: what the types allow, and what they don't."""

from collections.abc import AsyncIterator

from sless import CloudEvent, Context, HttpEvent, Result
from sless.testing import call, cloud_event


def plain(event: HttpEvent, context: Context) -> Result:
    context.log("greeting", path=event["path"])
    return {"message": f"hello from {context.functionName}"}


async def full(event: HttpEvent, context: Context) -> Result:
    return {"statusCode": 201, "headers": {"set-cookie": ["a=1", "b=2"], "x-count": 3}, "body": b"\x00"}


def stream(event: HttpEvent, context: Context) -> Result:
    async def pieces() -> AsyncIterator[str]:
        yield "a piece"

    return pieces()


def cron(event: CloudEvent, context: Context) -> Result:
    return {"type": event["type"], "data": event.get("data")}


def wrong(event: HttpEvent, context: Context) -> Result:
    event["nothing"]  # type: ignore[typeddict-item]
    context.requestID  # type: ignore[attr-defined]
    return None


def uses() -> int:
    for handler in (plain, full, stream, wrong):
        call(handler, "/?name=Ada", json={"a": 1}, headers={"x-a": "b"})
    call(cron, event=cloud_event(type="cron", data={"n": 1}))
    return call(plain).status
