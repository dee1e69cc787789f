import asyncio


async def pieces():
    for n in range(6):
        yield f"piece {n}\n"
        await asyncio.sleep(0.1)


async def handler(event, context):
    return {"statusCode": 201, "headers": {"content-type": "text/x-pieces"}, "body": pieces()}
