import os

AT_LOAD = os.environ["GREETING"]


def handler(event, context):
    return {"greeting": os.environ["GREETING"], "atLoad": AT_LOAD, "empty": os.environ.get("EMPTY"),
            "missing": os.environ.get("NOT_THERE"), "odd": os.environ["ODD"]}
