import time


def handler(event, context):
    time.sleep(0.2)
    return event["body"]
