def handler(event, context):
    return bytearray(range(256)) if event["path"] == "/mutable" else bytes(range(256))
