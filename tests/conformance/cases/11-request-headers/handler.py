def handler(event, context):
    headers = event["headers"]
    names = [n for n in sorted(headers) if n.startswith("x-") and not n.startswith(("x-forwarded", "x-request"))]
    return {"headers": {n: headers[n] for n in names}, "cookie": headers.get("cookie"), "accept": headers.get("accept"),
            "te": headers.get("te"), "connection": headers.get("connection"),
            "transferEncoding": headers.get("transfer-encoding")}
