TABLE = {n: n * n for n in range(100)}
calls = 0


def handler(event, context):
    global calls
    calls += 1
    return {"square": TABLE[12], "calls": calls}
