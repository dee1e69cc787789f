RESPONSES = {
    "/status-only": {"statusCode": 202},
    "/null-body": {"statusCode": 200, "headers": None, "body": None, "isBase64Encoded": None},
    "/object-body": {"statusCode": 201, "body": {"made": True}},
    "/number-body": {"statusCode": 200, "body": 7},
    "/own-type": {"statusCode": 200, "headers": {"Content-Type": "text/html"}, "body": "<p>"},
    "/bytes-body": {"statusCode": 200, "body": b"\x00\xff"},
    "/no-status": {"body": "x", "headers": {"a": "b"}},
}


def handler(event, context):
    return RESPONSES[event["path"]]
