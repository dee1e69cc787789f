def handler(event, context):
    bodies = {"/png": "iVBORw0KGgo=", "/text": "aMOkbGxv", "/empty": "", "/pad": "YQ=="}
    return {"statusCode": 200, "body": bodies[event["path"]], "isBase64Encoded": True}
