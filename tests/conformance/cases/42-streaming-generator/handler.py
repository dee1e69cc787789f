def handler(event, context):
    if event["path"] == "/none":
        return
    yield b"\x00\xff" if event["path"] == "/bytes" else "erste "
    yield ""
    yield b"" if event["path"] == "/bytes" else "zwüite"
    yield b"\x01" if event["path"] == "/bytes" else "."
