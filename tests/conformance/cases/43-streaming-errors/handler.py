async def pieces(path):
    if path == "/first":
        raise LookupError("nothing there")
    if path == "/wrong":
        yield 42
    yield "one"
    if path == "/later":
        raise LookupError("lost")
    yield "two"


async def handler(event, context):
    length = {"/short": {"content-length": "100"}, "/long": {"content-length": "4"}, "/exact": {"content-length": "6"}}
    return {"statusCode": 200, "headers": length.get(event["path"], {}), "body": pieces(event["path"])}
