def handler(event, context):
    if event["path"] == "/not-json":
        return {"n": {1, 2}}
    if event["path"] == "/not-json-body":
        return {"statusCode": 200, "body": [handler]}
    responses = {
        "/not-base64": {"statusCode": 200, "body": "not base64!", "isBase64Encoded": True},
        "/cut-base64": {"statusCode": 200, "body": "YQ=", "isBase64Encoded": True},
        "/base64-object": {"statusCode": 200, "body": {}, "isBase64Encoded": True},
        "/base64-flag": {"statusCode": 200, "body": "YQ==", "isBase64Encoded": "yes"},
        "/unknown-field": {"statusCode": 200, "body": "x", "multiValueHeaders": {}},
    }
    return responses[event["path"]]
