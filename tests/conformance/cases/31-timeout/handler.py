import asyncio


async def handler(event, context):
    await asyncio.sleep(float(event["query"].get("s", 0)))
    return "done"
