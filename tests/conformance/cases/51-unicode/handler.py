TEXTS = {"/emoji": "\U0001F468\u200D\U0001F469\u200D\U0001F467", "/combining": "e\u0301 \u00e9", "/rtl": "\u05e9\u05dc\u05d5\u05dd",
         "/nul": "a\u0000b", "/lone": "a\ud800b", "/separators": "\u2028\u2029"}


def handler(event, context):
    text = TEXTS[event["path"]]
    return {"text": text} if event["query"].get("as") == "json" else text
