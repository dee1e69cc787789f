STATUSES = {"/text": "200", "/low": 99, "/high": 600, "/null": None, "/fraction": 200.5, "/bool": True,
            "/informational": 101}


def handler(event, context):
    return {"statusCode": STATUSES[event["path"]], "body": "x"}
