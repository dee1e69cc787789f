def handler(event, context):
    return {"statusCode": 200, "headers": {"Content-Length": event["query"]["n"]}, "body": "12345"}
