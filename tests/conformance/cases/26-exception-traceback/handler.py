def inner(amount):
    return 10 / amount


def handler(event, context):
    return inner(0)
