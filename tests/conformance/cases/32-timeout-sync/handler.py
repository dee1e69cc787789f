import time


def handler(event, context):
    for _ in range(int(event["query"].get("s", 0)) * 20):
        time.sleep(0.05)
    return "done"
