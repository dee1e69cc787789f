def handler(event, context):
    return "" if event["path"] == "/empty" else "grüße, 世界 \U0001F600\n"
