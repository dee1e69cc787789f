"""What the servers are tried with. `handler` is plain, `main` is async; both do what the path says."""

import asyncio
import sys
import time


def handler(event, context):
    path, query = event.get("path"), event.get("query", {})
    if path == "/sleep":
        time.sleep(float(query["s"]))
        context.log("slept", name=query.get("name"))
        return "slept"
    if path == "/spin":
        while True:
            pass
    if path == "/stubborn":
        while True:
            try:
                while True:
                    pass
            except BaseException:
                if time.time() * 1000 > context.deadlineMs + 3000:
                    raise
    if path == "/endless":
        return endless(context)
    if path == "/big":
        return "x" * int(query["n"])
    if path == "/exit":
        sys.exit(3)
    return {"method": event["method"], "path": path, "body": event["body"]}


def endless(context):
    try:
        while True:
            yield b"x" * 65536
    finally:
        context.log("stream stopped")


async def main(event, context):
    path, query = event.get("path"), event.get("query", {})
    if path == "/sleep":
        await asyncio.sleep(float(query["s"]))
        context.log("slept", name=query.get("name"))
        return "slept"
    if path == "/endless":
        return aendless(context)
    return handler(event, context)


async def aendless(context):
    try:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)
    finally:
        context.log("stream stopped")
