def handler(event, context):
    if "specversion" not in event:
        return {"http": event["method"]}
    return {"event": event}
