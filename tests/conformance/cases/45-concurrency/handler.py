import asyncio


async def handler(event, context):
    await asyncio.sleep(0.3)
    return event["body"]
