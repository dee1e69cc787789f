def handler(event, context):
    if event["path"] == "/length":
        return len(event["body"])
    if event["path"] == "/make":
        return "0123456789abcdef" * (5 * 65536)
    return {"statusCode": 200, "headers": {"content-type": "text/plain"}, "body": event["body"]}
