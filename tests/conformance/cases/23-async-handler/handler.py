import asyncio


async def part(n):
    await asyncio.sleep(0.01 * (4 - n))
    return n * n


async def handler(event, context):
    return {"parts": await asyncio.gather(*(part(n) for n in range(4)))}
