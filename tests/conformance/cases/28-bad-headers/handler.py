HEADERS = {"/list": ["a", "b"], "/text": "a: b", "/name-space": {"x y": "1"}, "/name-empty": {"": "1"},
           "/value-newline": {"x-bad": "a\r\nx-evil: 1"}, "/value-nul": {"x-bad": "a\0b"}, "/value-wide": {"x-bad": "€"},
           "/value-null": {"x-bad": None}, "/value-bool": {"x-bad": True}, "/value-float": {"x-bad": 1.5},
           "/value-object": {"x-bad": {"a": 1}}, "/in-list": {"x-bad": ["ok", None]}}


def handler(event, context):
    return {"statusCode": 200, "headers": HEADERS[event["path"]], "body": "x"}
