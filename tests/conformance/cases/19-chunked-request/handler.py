def handler(event, context):
    return {"length": len(event["body"]), "start": event["body"][:5], "framed": "transfer-encoding" in event["headers"]}
