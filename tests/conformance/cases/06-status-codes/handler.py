def handler(event, context):
    status = int(event["path"].strip("/"))
    return {"statusCode": status, "body": f"status {status}"}
