def handler(event, context):
    for n in range(100):
        print(f"line {n:03d} " + "x" * 91)
    return "ok"
