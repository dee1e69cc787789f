import base64


def handler(event, context):
    body = base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()
    if event["path"] == "/reversed":
        return body[::-1]
    return {"statusCode": 200, "headers": {"content-type": event["headers"]["content-type"]},
            "body": base64.b64encode(body).decode(), "isBase64Encoded": True}
