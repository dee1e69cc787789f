#!/usr/bin/env python3
"""Runs the conformance cases of the handler contract against a runtime.

    run.py --runtime python3.11 [--runtime nodejs20]   starts the runtime's server for each case
    run.py --url http://127.0.0.1:9090/fn/NS/case-{case}    calls functions deployed already; `{case}` is the folder

What a case looks like is in README.md beside this file. Standard library only.
"""

import argparse
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
RUNTIMES = HERE.parent.parent / "runtimes"
SERVERS = {
    "python3.11": [os.environ.get("PYTHON", sys.executable), str(RUNTIMES / "python3.11/server.py")],
    "nodejs20": [os.environ.get("NODE", "node"), str(RUNTIMES / "nodejs20/server.js")],
}
ANSWER_SECONDS = 30
START_SECONDS = 20
# Log records are written beside the answer, so they may come a moment after it.
LOG_SECONDS = 5


class Mismatch(Exception):
    """What is not as expected."""


# The wire.

class Answer:
    """One response as it came: `pieces` has the time of each read of the body."""

    def __init__(self):
        self.status, self.headers, self.body, self.pieces, self.broken, self.ms = 0, [], b"", [], False, 0.0

    def all(self, name):
        return [v for n, v in self.headers if n == name]


class Reader:
    def __init__(self, sock):
        self.sock, self.buf = sock, b""

    def more(self):
        data = self.sock.recv(65536)
        self.buf += data
        return bool(data)

    def line(self):
        while b"\r\n" not in self.buf:
            if not self.more():
                raise ConnectionError("the connection ended within a line")
        line, _, self.buf = self.buf.partition(b"\r\n")
        return line.decode("latin-1")


def call(base, method, target, headers, body, chunk):
    """Sends one request on a connection of its own and reads the answer."""
    answer, started = Answer(), time.monotonic()
    address = (base.hostname, base.port or 80)
    names = {name.lower() for name, _ in headers}
    lines = [f"{method} {base.path.rstrip('/')}{target} HTTP/1.1"]
    if "host" not in names:
        lines.append(f"Host: {base.netloc}")
    lines += [f"{name}: {value}" for name, value in headers]
    if chunk:
        lines.append("Transfer-Encoding: chunked")
    elif body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
    with socket.create_connection(address, ANSWER_SECONDS) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender = threading.Thread(target=_send, args=(sock, head, body, chunk), daemon=True)
        sender.start()
        reader = Reader(sock)
        while True:
            status = reader.line().split(" ", 2)
            answer.status, answer.headers = int(status[1]), []
            while line := reader.line():
                name, _, value = line.partition(":")
                answer.headers.append((name.lower(), value.strip(" \t")))
            if answer.status != 100:
                break
        bodiless = method == "HEAD" or answer.status in (204, 304)
        try:
            _read_body(reader, answer, bodiless, started)
        except (ConnectionError, ValueError):
            answer.broken = True
        answer.ms = (time.monotonic() - started) * 1000
    return answer


def _send(sock, head, body, chunk):
    try:
        sock.sendall(head if chunk else head + body)
        if chunk:
            for start in range(0, len(body), chunk):
                part = body[start : start + chunk]
                sock.sendall(b"%x\r\n%b\r\n" % (len(part), part))
            sock.sendall(b"0\r\n\r\n")
    except OSError:
        pass  # Refused before all of it was sent: the answer tells.


def _read_body(reader, answer, bodiless, started):
    parts = []

    def take(data):
        if data:
            parts.append(data)
            answer.pieces.append((time.monotonic() - started) * 1000)
            answer.body = b""

    try:
        if bodiless:
            while reader.more():
                pass
            take(reader.buf)  # There should be none: it counts as a body.
        elif "chunked" in answer.all("transfer-encoding"):
            while size := int(reader.line().partition(";")[0], 16):
                while len(reader.buf) < size + 2:
                    if not reader.more():
                        raise ConnectionError
                take(reader.buf[:size])
                reader.buf = reader.buf[size + 2 :]
            while reader.line():
                pass
        elif length := answer.all("content-length"):
            left = int(length[0])
            while left:
                if not reader.buf and not reader.more():
                    raise ConnectionError
                take(reader.buf[:left])
                left -= len(parts[-1])
                reader.buf = reader.buf[len(parts[-1]) :]
        else:
            while reader.more():
                take(reader.buf)
                reader.buf = b""
    finally:
        answer.body = b"".join(parts)


# Values of a case.

def content(spec) -> bytes:
    """The bytes that a body in a case stands for."""
    if spec is None:
        return b""
    if isinstance(spec, str):
        return spec.encode()
    if "json" in spec:
        return json.dumps(spec["json"], ensure_ascii=False).encode()
    if "hex" in spec:
        return bytes.fromhex(spec["hex"])
    if "base64" in spec:
        return base64.b64decode(spec["base64"])
    return spec["repeat"].encode() * spec["times"]


def fill(value, index):
    """Puts the number of a parallel call where `{i}` stands."""
    if isinstance(value, str):
        return value.replace("{i}", str(index))
    if isinstance(value, list):
        return [fill(v, index) for v in value]
    if isinstance(value, dict):
        return {k: fill(v, index) for k, v in value.items()}
    return value


TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list}


def same(expected, got, where, exact):
    """Compares JSON; `exact` also refuses members that are not expected. `{"$matches"}` and `{"$type"}` are patterns."""
    if isinstance(expected, dict) and len(expected) == 1 and next(iter(expected)).startswith("$"):
        (kind, wanted), = expected.items()
        if kind == "$type":
            good = isinstance(got, TYPES[wanted]) and (wanted == "boolean" or not isinstance(got, bool))
        elif kind == "$matches":
            good = isinstance(got, str) and re.search(wanted, got) is not None
        else:
            raise ValueError(f"{kind} is no pattern")
        if not good:
            raise Mismatch(f"{where}: expected {kind} {wanted!r}, got {got!r}")
    elif isinstance(expected, dict) and isinstance(got, dict):
        for key, value in expected.items():
            if key not in got:
                raise Mismatch(f"{where}/{key}: missing in {short(got)}")
            same(value, got[key], f"{where}/{key}", exact)
        if exact and set(got) != set(expected):
            raise Mismatch(f"{where}: not expected: {sorted(set(got) - set(expected))}")
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for n, (a, b) in enumerate(zip(expected, got)):
            same(a, b, f"{where}/{n}", exact)
    elif isinstance(expected, bool) != isinstance(got, bool) or expected != got:
        raise Mismatch(f"{where}: expected {short(expected)}, got {short(got)}")


def short(value, limit=300):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def check_body(expected, answer):
    if isinstance(expected, dict) and ("json" in expected or "subset" in expected):
        exact = "json" in expected
        try:
            got = json.loads(answer.body)
        except ValueError as error:
            raise Mismatch(f"body is not JSON ({error}): {short(answer.body)}") from None
        same(expected["json" if exact else "subset"], got, "body", exact)
    elif isinstance(expected, dict) and "sha256" in expected:
        got = hashlib.sha256(answer.body).hexdigest()
        if got != expected["sha256"]:
            raise Mismatch(f"body of {len(answer.body)} bytes has sha256 {got}, expected {expected['sha256']}")
    elif (wanted := content(expected)) != answer.body:
        raise Mismatch(f"body: expected {short(wanted)}, got {short(answer.body)}")


def check_answer(expect, answer):
    if answer.status != expect["status"]:
        raise Mismatch(f"status: expected {expect['status']}, got {answer.status} with {short(answer.body)}")
    if answer.broken != expect.get("broken", False):
        raise Mismatch("the answer should have been cut" if expect.get("broken") else "the answer was cut")
    for name, wanted in expect.get("headers", {}).items():
        got = answer.all(name)
        wanted = [] if wanted is None else wanted if isinstance(wanted, list) else [wanted]
        if got != wanted:
            raise Mismatch(f"header {name}: expected {short(wanted)}, got {short(got)}")
    if "body" in expect:
        check_body(expect["body"], answer)
    for text in expect.get("notInBody", []):
        if text.encode() in answer.body:
            raise Mismatch(f"body has {text!r}: {short(answer.body)}")
    if not expect.get("minMs", 0) <= answer.ms <= expect.get("maxMs", ANSWER_SECONDS * 1000):
        raise Mismatch(f"took {answer.ms:.0f} ms, expected {expect.get('minMs', 0)} to {expect.get('maxMs')} ms")
    if pieces := expect.get("pieces"):
        spread = answer.pieces[-1] - answer.pieces[0] if answer.pieces else 0
        if len(answer.pieces) < pieces["atLeast"] or spread < pieces["spreadMs"]:
            raise Mismatch(f"{len(answer.pieces)} pieces over {spread:.0f} ms, expected {pieces}")


# Logs.

def fits(wanted, record, request_id):
    text = json.dumps(record, ensure_ascii=False)
    return (
        record.get("requestId") == request_id
        and wanted.get("level") in (None, record.get("level"))
        and wanted.get("message") in (None, record.get("message"))
        and wanted.get("contains", "") in text
        and all(record.get(k) == v for k, v in wanted.get("fields", {}).items())
    )


def check_logs(expect, request_id, records):
    """Awaits the wanted records; then the unwanted ones must not be there."""
    until = time.monotonic() + LOG_SECONDS
    for wanted in expect.get("logs", []):
        while not any(fits(wanted, record, request_id) for record in records()):
            if time.monotonic() > until:
                mine = [r for r in records() if r.get("requestId") == request_id]
                raise Mismatch(f"no log record {wanted}; there are {short(mine, 800)}")
            time.sleep(0.02)
    for unwanted in expect.get("notLogs", []):
        if any(fits(unwanted, record, request_id) for record in records()):
            raise Mismatch(f"there is a log record {unwanted}")


# Cases.

class Server:
    """A runtime's server for one case, on a free port."""

    def __init__(self, runtime, folder, settings):
        limits = settings.get("limits", {})
        given = {
            "PORT": 0,
            "SLESS_HOST": "127.0.0.1",
            "SLESS_FUNCTION_DIR": folder,
            "SLESS_FUNCTION_NAME": folder.name,
            "SLESS_NAMESPACE": "sless-conformance",
            "SLESS_VERSION": 1,
            "SLESS_ENTRYPOINT": settings.get("entrypoint", ""),
            "SLESS_TIMEOUT_SECONDS": settings.get("timeoutSeconds", ""),
            "SLESS_CONCURRENCY": settings.get("concurrency", ""),
            "SLESS_REQUEST_BYTES": limits.get("requestBytes", ""),
            "SLESS_RESPONSE_BYTES": limits.get("responseBytes", ""),
            "SLESS_LOG_BYTES": limits.get("logBytes", ""),
            **settings.get("env", {}),
        }
        environment = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
        environment.update((k, str(v)) for k, v in given.items())
        self.out = tempfile.TemporaryFile()
        self.process = subprocess.Popen(SERVERS[runtime], stdout=self.out, stderr=subprocess.STDOUT, env=environment,
                                        stdin=subprocess.DEVNULL, cwd="/")
        until = time.monotonic() + START_SECONDS
        while True:
            port = next((r["port"] for r in self.records() if r.get("message") == "listening"), None)
            if port:
                break
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise Mismatch(f"the server did not start: {short(self.text(), 1000)}")
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{port}"

    def text(self):
        size = os.fstat(self.out.fileno()).st_size
        return os.pread(self.out.fileno(), size, 0).decode("utf-8", "replace")

    def records(self):
        found = []
        for line in self.text().split("\n"):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                found.append(record)
        return found

    def stop(self):
        """Ends it; that it ends well is part of every case."""
        self.process.terminate()
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Mismatch("the server did not end at SIGTERM") from None
        strange = [line for line in self.text().split("\n") if line and not line.startswith("{")]
        self.out.close()
        if code != 0 or strange:
            raise Mismatch(f"the server ended with {code}; lines that are no JSON: {short(strange, 800)}")


def run_request(base, request, index, records):
    request = fill(request, index) if "parallel" in request else request
    headers = [tuple(pair) for pair in request.get("headers", [])]
    request_id = next((v for n, v in headers if n.lower() == "x-request-id"), None)
    if request_id is None and request["expect"].get("logs"):
        request_id = f"case-{time.monotonic_ns()}-{index}"
        headers.append(("x-request-id", request_id))
    answer = call(base, request.get("method", "GET"), request["path"], headers, content(request.get("body")),
                  request.get("chunked"))
    expects = request["expect"].get("anyOf", [request["expect"]])
    faults = []
    for expect in expects:
        try:
            check_answer(expect, answer)
            break
        except Mismatch as fault:
            faults.append(str(fault))
    else:
        raise Mismatch("; or ".join(faults))
    if records is not None:
        # The log is the same whichever of the answers came, so it stands beside `anyOf`.
        check_logs(request["expect"], request_id, records)


def run_case(folder, runtime, url):
    """None if the case passes, else what is wrong."""
    case = json.loads((folder / "case.json").read_text())
    server = None
    faults = []
    try:
        if runtime:
            server = Server(runtime, folder, case.get("settings", {}))
        base = urllib.parse.urlsplit(server.url if server else url.replace("{case}", folder.name))
        for n, request in enumerate(case["requests"]):
            times = request.get("parallel", 1)
            try:
                if times == 1:
                    run_request(base, request, 0, server and server.records)
                else:
                    with concurrent.futures.ThreadPoolExecutor(times) as pool:
                        args = ((base, request, i, server and server.records) for i in range(times))
                        for done in [pool.submit(run_request, *a) for a in args]:
                            done.result()
            except (Mismatch, OSError) as fault:
                faults.append(f"request {n} {request.get('method', 'GET')} {request['path'][:60]}: {fault}")
    except Mismatch as fault:
        faults.append(str(fault))
    finally:
        if server:
            try:
                server.stop()
            except Mismatch as fault:
                faults.append(str(fault))
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", action="append", choices=sorted(SERVERS), help="may be given several times")
    parser.add_argument("--url", help="base URL of deployed functions; `{case}` stands for the case; logs are not checked")
    parser.add_argument("--jobs", type=int, default=4, help="cases at once (default 4)")
    parser.add_argument("names", nargs="*", help="only cases whose name has one of these in it")
    options = parser.parse_args()
    if bool(options.runtime) == bool(options.url):
        parser.error("give either --runtime or --url")
    folders = sorted(p.parent for p in (HERE / "cases").glob("*/case.json"))
    if options.names:
        folders = [f for f in folders if any(name in f.name for name in options.names)]
    if not folders:
        parser.error("no case has such a name")
    tasks = [(folder, runtime) for runtime in options.runtime or [None] for folder in folders]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda task: run_case(*task, options.url), tasks)
        for (folder, runtime), faults in zip(tasks, results):
            passed, failed = passed + (not faults), failed + bool(faults)
            if faults:
                print(f"FAIL {runtime or 'url'} {folder.name}")
                for fault in faults:
                    print(f"     {fault}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
