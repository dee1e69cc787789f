def handler(event, context):
    cookies = dict(pair.split("=", 1) for pair in event["headers"].get("cookie", "").split("; ") if pair)
    return {"statusCode": 200, "body": cookies, "headers": {"Set-Cookie": [
        "session=abc; Path=/; HttpOnly", "seen=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "seen=2"]}}
