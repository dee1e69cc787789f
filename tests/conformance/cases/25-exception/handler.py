import asyncio


class OutOfStock(Exception):
    pass


def check(n):
    if n == "/pears":
        raise OutOfStock("no more pears")
    if n == "/silent":
        raise OutOfStock
    if n == "/odd":
        raise OutOfStock('quote " and ünï\nsecond line')
    if n == "/long":
        raise OutOfStock("x" * 10_000)


async def handler(event, context):
    if event["path"].startswith("/later"):
        await asyncio.sleep(0.01)
    check(event["path"].removeprefix("/later"))
    return "fine"
