import asyncio


async def inner(name):
    await asyncio.sleep(0.02)
    print("inner", name)


async def handler(event, context):
    name = event["headers"]["x-request-id"]
    print("before", name)
    await asyncio.gather(inner(name), asyncio.sleep(0.05))
    print("after", name)
    return name
