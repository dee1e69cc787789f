def handler(event, context):
    return {"hello": "world", "n": 1, "list": [1, 2.5, None, True], "nested": {"ä": "ö"}}
