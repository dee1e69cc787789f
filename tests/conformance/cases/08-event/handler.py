def handler(event, context):
    return {"keys": sorted(event), "method": event["method"], "body": event["body"],
            "isBase64Encoded": event["isBase64Encoded"], "query": event["query"], "rawQuery": event["rawQuery"]}
