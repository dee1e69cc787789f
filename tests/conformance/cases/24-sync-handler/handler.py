async def later(value):
    return value


def handler(event, context):
    return later({"later": True}) if event["path"] == "/later" else {"later": False}
