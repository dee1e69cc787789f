import time


def handler(event, context):
    left = context.deadlineMs - time.time() * 1000
    fields = ("requestId", "functionName", "namespace", "version", "deadlineMs", "log")
    return {"requestId": context.requestId, "functionName": context.functionName, "namespace": context.namespace,
            "version": context.version, "deadline": 0 < left <= 7000, "whole": isinstance(context.deadlineMs, int),
            "all": all(hasattr(context, field) for field in fields), "item": context["requestId"] == context.requestId}
