def handler(event, context):
    seen = {"headers": "x-leak" in event["headers"], "query": dict(event["query"]), "path": event["path"]}
    event["headers"]["x-leak"] = "1"
    event["query"]["leak"] = "1"
    event["path"] = "/changed"
    return seen
