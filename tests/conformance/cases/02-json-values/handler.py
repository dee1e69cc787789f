VALUES = {"/list": [1, "two", None], "/zero": 0, "/int": -42, "/float": 1.5, "/true": True, "/false": False,
          "/empty-list": [], "/empty-object": {}, "/nested": [[[{"a": [None]}]]]}


def handler(event, context):
    return VALUES[event["path"]]
