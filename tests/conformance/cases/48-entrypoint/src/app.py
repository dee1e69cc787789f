def main(event, context):
    return {"from": "src/app", "path": event["path"]}
