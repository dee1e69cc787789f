import logging
import sys


def handler(event, context):
    print("printed", 42, "ünï")
    print("to stderr", file=sys.stderr)
    logging.getLogger("shop").warning("warned about %s", "pears")
    context.log("plain words")
    context.log.info("with fields", basket=3, who="ann")
    context.log.error("it is bad")
    print("no newline", end="")
    return "ok"
