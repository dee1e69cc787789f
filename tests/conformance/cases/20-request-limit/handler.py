def handler(event, context):
    return len(event["body"])
