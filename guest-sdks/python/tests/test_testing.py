"""The test helper answers as the runtimes do: by the project's conformance cases, without a server."""

import base64
import doctest
import hashlib
import importlib.util
import json
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

import sless.testing  # noqa: E402
from sless.testing import call, cloud_event  # noqa: E402

CASES = HERE.parents[3] / "tests/conformance/cases"
# What is not about requests and answers: limits, time, the wire, and the process.
OTHERS = re.compile("timeout|limit|streaming-errors|concurrency|isolation|env|context|module-state|content-length")


def body_of(body) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if "hex" in body:
        return bytes.fromhex(body["hex"])
    if "base64" in body:
        return base64.b64decode(body["base64"])
    if "json" in body:
        return json.dumps(body["json"], separators=(",", ":"), ensure_ascii=False).encode()
    return body["repeat"].encode() * body["times"]


def comparable(request) -> bool:
    expect = request.get("expect", {})
    odd = "anyOf" in expect or "broken" in expect or "chunked" in request or "parallel" in request
    body = expect.get("body")
    odd = odd or isinstance(body, dict) and "subset" in body
    return not odd and 200 <= expect.get("status", 0) < 400 and '"$' not in json.dumps(expect)


def load(folder: Path, file: str):
    path = (folder / file).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"case_{folder.name.replace('-', '_')}", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


class Conformance(unittest.TestCase):
    def test_the_cases(self):
        compared = 0
        for folder in sorted(CASES.iterdir()):
            if OTHERS.search(folder.name):
                continue
            case = json.loads((folder / "case.json").read_text())
            file, _, name = case.get("settings", {}).get("entrypoint", "handler.handler").rpartition(".")
            wanted = [request for request in case["requests"] if comparable(request)]
            if not wanted:
                continue
            handler = getattr(load(folder, file), name)
            for request in wanted:
                with self.subTest(case=folder.name, path=request.get("path")):
                    self.compare(handler, request)
                    compared += 1
        self.assertGreater(compared, 100)

    def compare(self, handler, request):
        expect = request["expect"]
        answer = call(
            handler, request.get("path", "/"), method=request.get("method", "GET"),
            headers=[tuple(pair) for pair in request.get("headers", [])], body=body_of(request.get("body", "")),
        )
        self.assertEqual(answer.status, expect["status"])
        for name, value in expect.get("headers", {}).items():
            if name not in ("content-length", "date", "connection", "transfer-encoding"):
                self.assertEqual(answer.headers.get(name), value, name)
        body = expect.get("body")
        if isinstance(body, dict) and "sha256" in body:
            self.assertEqual(hashlib.sha256(answer.body).hexdigest(), body["sha256"])
        elif isinstance(body, dict) and "json" in body:
            self.assertEqual(answer.json(), body["json"])
        elif body is not None:
            self.assertEqual(answer.body, body_of(body))


class Calls(unittest.TestCase):
    def test_errors_are_the_tests_to_see(self):
        def fails(event, context):
            raise KeyError("no")

        with self.assertRaises(KeyError):
            call(fails)
        with self.assertRaisesRegex(ValueError, "`statusCode` is 99; use a whole number from 200 to 599"):
            call(lambda event, context: {"statusCode": 99})
        with self.assertRaisesRegex(ValueError, "begins with /"):
            call(lambda event, context: 1, "x")

    def test_a_context_can_be_given_and_what_is_logged_is_kept(self):
        def handler(event, context):
            context.log.warn("low on %s", "ink", left=3)
            return context["requestId"] + context.requestId

        answer = call(handler, context={"requestId": "r1"})
        self.assertEqual(answer.text, "r1r1")
        self.assertEqual(answer.logs, [{"level": "warn", "message": "low on ink", "left": 3}])

    def test_a_cloud_event_reaches_the_handler_as_it_is(self):
        event = cloud_event(type="cron", data={"n": 1})
        self.assertEqual(call(lambda given, context: given, event=event).json(), event)

    def test_the_examples(self):
        failed, tried = doctest.testmod(sless.testing)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 0)


if __name__ == "__main__":
    unittest.main()
