def handler(event, context):
    kind = event["type"]
    if kind == "fails":
        raise RuntimeError("not today")
    if kind == "retry":
        return {"statusCode": 503, "body": "later"}
    return None
