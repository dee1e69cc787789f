def handler(event, context):
    return {"query": event["query"], "raw": event["rawQuery"]}
