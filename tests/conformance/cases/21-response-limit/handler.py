def handler(event, context):
    return "x" * int(event["path"].strip("/"))
