def handler(event, context):
    return {"statusCode": 200, "body": (b"%04d" % n * 1024 for n in range(1024))}
