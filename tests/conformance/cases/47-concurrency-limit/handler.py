import asyncio


async def handler(event, context):
    await asyncio.sleep(1.5)
    return "done"
