"""From start to end, the same for both servers: what can't be loaded, what is not allowed, shutting down under load."""

import concurrent.futures
import pathlib
import socket
import tempfile
import threading
import time
import unittest

from harness import Process, Server, wait_until

HOST = "Host: x\r\n"
EXIT_SETTINGS, EXIT_HANDLER, EXIT_LISTEN = 78, 65, 71


class Lifecycle:
    """Mixed into a case for each server. `bad` maps files to what is wrong with them."""

    runtime = entrypoint = None
    good = ()
    bad = ()

    def folder(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = pathlib.Path(folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return pathlib.Path(folder.name)

    def server(self, **options):
        server = Server(self.runtime, SLESS_ENTRYPOINT=self.entrypoint, **options)
        self.addCleanup(server.kill)
        return server

    def refuses(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except ConnectionRefusedError:
            return True
        return False

    def end_of(self, *args, **options):
        """Exit code and the one record of a start that must fail."""
        process = Process(self.runtime, args=args, **options)
        self.addCleanup(process.kill)
        code = process.ended()
        records = process.records()
        self.assertEqual(len(records), 1, process.text())
        return code, records[0]

    def test_a_handler_that_cannot_be_loaded_is_told_with_file_line_and_remedy(self):
        for name, files, entrypoint, expected in self.bad:
            with self.subTest(name):
                folder = self.folder(files)
                code, record = self.end_of(folder=folder, SLESS_ENTRYPOINT=entrypoint)
                self.assertEqual((code, record["level"]), (EXIT_HANDLER, "error"), record)
                for key, value in expected.items():
                    if key in ("file", "line"):
                        self.assertEqual(record.get(key), value, record)
                    else:
                        self.assertIn(value, record[key])
                self.assertTrue(record["remedy"])

    def test_check_loads_and_does_not_serve(self):
        process = Process(self.runtime, args=["--check"], SLESS_ENTRYPOINT=self.entrypoint)
        self.addCleanup(process.kill)
        self.assertEqual((process.ended(), process.text()), (0, ""))
        name, files, entrypoint, _ = self.bad[0]
        code, _ = self.end_of("--check", folder=self.folder(files), SLESS_ENTRYPOINT=entrypoint)
        self.assertEqual(code, EXIT_HANDLER, name)
        # A variable that is set only where it runs is no reason to fail the build.
        code, record = self.end_of("--check", folder=self.folder(self.needs_surroundings))
        self.assertEqual((code, record["level"]), (0, "warn"))

    def test_a_bad_setting_is_named(self):
        for name, value in (("PORT", "http"), ("PORT", "65536"), ("SLESS_TIMEOUT_SECONDS", "0"), ("SLESS_CONCURRENCY", "1.5"),
                            ("SLESS_REQUEST_BYTES", "6MB"), ("SLESS_LOG_LEVEL", "loud"), ("SLESS_TIMEOUT_SECONDS", "nan")):
            code, record = self.end_of(**{name: value})
            self.assertEqual(code, EXIT_SETTINGS)
            self.assertIn(name, record["error"])
            self.assertIn("set", record["error"])

    def test_a_taken_port_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, record = self.end_of(PORT=port, SLESS_ENTRYPOINT=self.entrypoint)
        self.assertEqual((code, record["port"]), (EXIT_LISTEN, port))
        self.assertIn("PORT", record["remedy"])

    def test_nothing_is_written_beside_the_source(self):
        folder = self.folder(self.good)
        server = Server(self.runtime, folder=folder)
        self.addCleanup(server.kill)
        self.assertEqual(server.get("/").status, 200)
        server.terminate()
        self.assertEqual(server.ended(), 0)
        files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        self.assertEqual(files, sorted(self.good))

    def test_sigterm_lets_calls_finish_and_takes_no_new_ones(self):
        server = self.server()
        with server.connect() as busy, server.connect() as idle:
            idle.send(f"GET /idle HTTP/1.1\r\n{HOST}\r\n")
            self.assertEqual(idle.answer().status, 200)
            busy.send(f"GET /sleep?s=1 HTTP/1.1\r\n{HOST}\r\n")
            time.sleep(0.1)  # The call has to be under way; nothing tells from outside.
            server.terminate()
            self.assertEqual(idle.at_end(), b"")
            wait_until(lambda: self.refuses(server.port), "no new connections")
            answer = busy.answer()
            self.assertEqual((answer.status, answer.body, answer.headers["connection"].lower()), (200, b"slept", "close"))
        self.assertEqual(server.ended(), 0)
        self.assertEqual([r["abandonedCalls"] for r in server.records("stopped")], [0])

    def test_sigterm_cuts_what_is_over_the_grace(self):
        server = self.server(SLESS_GRACE_SECONDS=0.5)
        with server.connect() as busy:
            busy.send(f"GET /sleep?s=60 HTTP/1.1\r\n{HOST}\r\n")
            time.sleep(0.1)
            started = time.monotonic()
            server.terminate()
            answer = busy.answer()
            self.assertEqual((answer.status, answer.json()["code"]), (503, "shutting_down"))
            self.assertEqual(server.ended(), 0)
            self.assertLess(time.monotonic() - started, 5)

    def test_sigterm_under_load_breaks_no_answer(self):
        server = self.server()
        faults, answered, lock = [], [0], threading.Lock()

        def load():
            while True:
                try:
                    client = server.connect()
                except OSError:
                    return
                with client:
                    try:
                        while True:
                            client.send(f"GET /load HTTP/1.1\r\n{HOST}\r\n")
                            answer = client.answer()
                            with lock:
                                answered[0] += 1
                                if answer.status != 200 or answer.json()["path"] != "/load":
                                    faults.append(answer.status)
                            if answer.headers.get("connection", "").lower() == "close":
                                break
                    except EOFError as error:
                        if client.buf:
                            faults.append(error)  # Begun, and not ended.
                    except OSError:
                        if client.buf:
                            faults.append("reset within an answer")

        threads = [threading.Thread(target=load) for _ in range(16)]
        for thread in threads:
            thread.start()
        wait_until(lambda: answered[0] > 200, "load")
        server.terminate()
        self.assertEqual(server.ended(), 0)
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])

    def test_a_call_over_its_time_leaves_room_for_the_next(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.3, SLESS_CONCURRENCY=1)
        for _ in range(3):
            answer = server.get("/sleep?s=0.8&name=late")
            self.assertEqual((answer.status, answer.json()["code"]), (504, "deadline_exceeded"))
            self.assertEqual(answer.headers["x-sless-outcome"], "deadline_exceeded")
            wait_until(lambda: server.get("/next").status == 200, "room")

    def test_a_stream_over_its_time_is_cut(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.5, SLESS_RESPONSE_BYTES=100 << 20)
        with server.connect() as client:
            client.send(f"GET /endless HTTP/1.1\r\n{HOST}\r\n")
            client.more()
            with self.assertRaises((EOFError, ConnectionResetError)):
                client.answer()
        wait_until(lambda: server.records("stream stopped"), "the generator ended")
        self.assertEqual(server.get("/next").status, 200)

    def test_a_streams_size_is_limited(self):
        server = self.server(SLESS_RESPONSE_BYTES=1 << 20)
        with server.connect() as client:
            client.send(f"GET /endless HTTP/1.1\r\n{HOST}\r\n")
            with self.assertRaises((EOFError, ConnectionResetError)):
                client.answer()
        wait_until(lambda: server.records("the handler's response is not valid"), "the log says so")

    def test_ending_the_process_from_a_handler_is_an_error_of_the_call(self):
        server = self.server()
        answer = server.get("/exit")
        self.assertEqual((answer.status, answer.json()["code"]), (500, "function_error"))
        self.assertEqual(server.get("/next").status, 200)


PYTHON_BAD = (
    ("syntax", {"handler.py": "import os\n\ndef handler(event, context)\n    return 1\n"}, "",
     {"file": "handler.py", "line": 3, "error": "SyntaxError"}),
    ("indentation", {"handler.py": "def handler(e, c):\nreturn 1\n"}, "", {"file": "handler.py", "line": 2, "error": "IndentationError"}),
    ("syntax in a module", {"handler.py": "import lib\n", "lib.py": "x = (\n"}, "", {"file": "lib.py", "line": 1}),
    ("missing package", {"handler.py": "\nimport not_a_package_here\n"}, "",
     {"file": "handler.py", "line": 2, "error": "not_a_package_here", "remedy": "requirements.txt"}),
    ("missing name", {"handler.py": "from json import nothing\n"}, "", {"file": "handler.py", "line": 1, "error": "nothing"}),
    ("no file", {}, "", {"file": "handler.py", "line": None, "error": "no handler.py"}),
    ("no folder file", {"handler.py": ""}, "src/app.main", {"file": "src/app.py"}),
    ("no handler", {"handler.py": "def handle(e, c):\n    pass\n"}, "", {"file": "handler.py", "error": "handler", "remedy": "def handler"}),
    ("not a function", {"handler.py": "handler = 5\n"}, "", {"file": "handler.py", "error": "int"}),
    ("fails at the top", {"handler.py": "\n\nraise ValueError('no config')\n"}, "",
     {"file": "handler.py", "line": 3, "error": "ValueError: no config", "stack": "handler.py"}),
    ("exits at the top", {"handler.py": "import sys\nsys.exit(0)\n"}, "", {"file": "handler.py", "line": 2, "error": "SystemExit"}),
    ("entrypoint outside", {"handler.py": ""}, "../../etc/passwd.x", {"error": "entrypoint"}),
    ("entrypoint without function", {"handler.py": ""}, "handler", {"error": "entrypoint"}),
    ("module name taken", {"json.py": "def handler(e, c): pass\n"}, "json.handler", {"file": "json.py", "remedy": "rename"}),
)
NODE_BAD = (
    ("syntax", {"handler.js": "const a = 1;\nexports.handler = (event => {\n  return { x: };\n};\n"}, "",
     {"file": "handler.js", "line": 3, "error": "SyntaxError"}),
    ("syntax of a module", {"handler.mjs": "export async function handler() {\n  return { x: };\n}\n"}, "",
     {"file": "handler.mjs", "line": 2, "error": "SyntaxError"}),
    ("syntax in an import", {"handler.js": "exports.handler = require('./lib/a.js');\n", "lib/a.js": "\nlet let = 1;\n"}, "",
     {"file": "lib/a.js", "line": 2}),
    ("missing package", {"handler.js": "\nconst x = require('not-a-package-here');\n"}, "",
     {"file": "handler.js", "line": 2, "error": "not-a-package-here", "remedy": "package.json"}),
    ("missing package of a module", {"handler.js": "\n\nimport x from 'not-a-package-here';\nexport const handler = x;\n"}, "",
     {"file": "handler.js", "line": 3, "error": "not-a-package-here", "remedy": "package.json"}),
    ("missing file of a module", {"handler.js": "import { x } from './lib';\nexport const handler = x;\n"}, "",
     {"file": "handler.js", "line": 1, "remedy": "extension"}),
    ("missing name", {"handler.mjs": "import { nothing } from 'node:fs';\nexport const handler = nothing;\n"}, "",
     {"file": "handler.mjs", "line": 1, "error": "nothing"}),
    ("no file", {}, "", {"file": "handler.js", "line": None, "error": "no handler.js"}),
    ("no folder file", {"handler.js": ""}, "src/app.main", {"file": "src/app.js"}),
    ("no handler", {"handler.js": "exports.handle = () => 1;\n"}, "", {"file": "handler.js", "error": "handler", "remedy": "exports.handler"}),
    ("not a function", {"handler.js": "exports.handler = 5;\n"}, "", {"file": "handler.js", "error": "number"}),
    ("fails at the top", {"handler.js": "\n\nthrow new TypeError('no config');\n"}, "",
     {"file": "handler.js", "line": 3, "error": "TypeError: no config", "stack": "handler.js"}),
    ("never ready", {"handler.mjs": "await new Promise(() => {});\nexport const handler = 1;\n"}, "", {"error": "await"}),
    ("exits at the top", {"handler.js": "process.exit(0);\n"}, "", {"error": "process.exit"}),
    ("entrypoint outside", {"handler.js": ""}, "../../etc/passwd.x", {"error": "entrypoint"}),
    ("entrypoint without function", {"handler.js": ""}, "handler", {"error": "entrypoint"}),
)


class PythonPlain(Lifecycle, unittest.TestCase):
    runtime, entrypoint, bad = "python3.11", "handler.handler", PYTHON_BAD
    good = {"handler.py": "from lib import x\n\ndef handler(e, c):\n    return x\n", "lib.py": "x = 1\n"}
    needs_surroundings = {"handler.py": "import os\nKEY = os.environ['NOT_SET_AT_BUILD']\n"}

    def test_a_loop_is_interrupted_at_the_deadline(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.5, SLESS_CONCURRENCY=1)
        for _ in range(3):
            self.assertEqual(server.get("/spin").json()["code"], "deadline_exceeded")
        wait_until(lambda: server.get("/next").status == 200, "the thread is free")
        self.assertLessEqual(server.threads(), 3)

    def test_what_comes_after_the_deadline_never_happens(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.3, SLESS_CONCURRENCY=1)
        self.assertEqual(server.get("/sleep?s=0.7&name=late").status, 504)
        # With one thread, the next answer means that the first call has ended.
        wait_until(lambda: server.get("/next").status == 200, "the thread is free")
        self.assertEqual(server.records("slept"), [])

    def test_interrupts_lose_no_call(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.05, SLESS_CONCURRENCY=4)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda n: server.get("/spin" if n % 2 else "/quick").status, range(90)))
        self.assertLessEqual(set(answers), {200, 429, 504})
        self.assertIn(504, answers)
        # Every place is free again: a lost call would keep its own for ever.
        wait_until(lambda: server.get("/healthz", headers="X-Sless-Probe: 1\r\n").status == 200, "no thread is stuck")
        wait_until(lambda: [server.get("/quick").status for _ in range(8)] == [200] * 8, "all places are free")
        server.terminate()
        self.assertEqual(server.ended(), 0)
        self.assertEqual([r["abandonedCalls"] for r in server.records("stopped")], [0])
        self.assertEqual(server.records("Exception in callback"), [])

    def test_the_probe_fails_when_every_thread_is_stuck(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.3, SLESS_CONCURRENCY=1)
        probe = "X-Sless-Probe: 1\r\n"
        self.assertEqual(server.get("/healthz", headers=probe).status, 200)
        self.assertEqual(server.get("/stubborn").status, 504)
        self.assertEqual(server.get("/healthz", headers=probe).status, 503)
        wait_until(lambda: server.get("/healthz", headers=probe).status == 200, "well again")


class PythonAsync(Lifecycle, unittest.TestCase):
    runtime, entrypoint, bad = "python3.11", "handler.main", PYTHON_BAD
    good = {"handler.py": "async def handler(e, c):\n    return 1\n"}
    needs_surroundings = PythonPlain.needs_surroundings

    test_a_handler_that_cannot_be_loaded_is_told_with_file_line_and_remedy = None  # The same as above.
    test_a_bad_setting_is_named = None

    def test_a_handler_that_blocks_the_loop_is_interrupted(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.3)
        self.assertEqual(server.get("/spin").json()["code"], "deadline_exceeded")
        self.assertEqual(server.get("/next").status, 200)
        self.assertTrue(server.records("the handler blocks the event loop; use a plain `def`, or await"))


class Node(Lifecycle, unittest.TestCase):
    runtime, entrypoint, bad = "nodejs20", "handler.handler", NODE_BAD
    good = {"handler.js": "exports.handler = () => require('./lib.js').x;\n", "lib.js": "exports.x = 1;\n"}
    needs_surroundings = {"handler.js": "if (!process.env.NOT_SET_AT_BUILD) throw new Error('set it');\n"}

    def test_a_handler_that_blocks_the_loop_ends_the_process_with_a_word(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.3)
        with server.connect() as client:
            client.send(f"GET /spin HTTP/1.1\r\n{HOST}\r\n")
            self.assertEqual(server.ended(), -9)
        self.assertEqual(len(server.records("the handler blocks the event loop past its deadline; restarting")), 1)

    def test_a_promise_that_never_settles_holds_no_place(self):
        server = self.server(SLESS_TIMEOUT_SECONDS=0.2, SLESS_CONCURRENCY=1)
        for _ in range(3):
            self.assertEqual(server.get("/never").status, 504)
        self.assertEqual(server.get("/next").status, 200)

    def test_an_error_that_no_await_sees_fails_its_call_only(self):
        server = self.server()
        with server.connect() as other:
            other.send(f"GET /sleep?s=0.3 HTTP/1.1\r\n{HOST}\r\n")
            answer = server.get("/throw-later", headers="X-Request-Id: stray\r\n")
            self.assertEqual((answer.status, answer.json()["detail"]), (500, "RangeError: out of nowhere"))
            self.assertEqual(other.answer().body, b"slept")
        self.assertEqual(server.get("/reject-unseen", headers="X-Request-Id: unseen\r\n").body, b"fine")
        ids = [r.get("requestId") for r in server.records() if r["level"] == "error"]
        self.assertEqual(ids, ["stray", "unseen"])

    def test_what_javascript_has_for_bodies_works(self):
        server = self.server()
        with server.connect() as client:
            client.send(f"GET /web-response HTTP/1.1\r\n{HOST}\r\n")
            answer = client.answer()
            self.assertEqual((answer.status, answer.body, answer.headers["content-type"]), (203, b"<p>", "text/html"))
        self.assertEqual(server.get("/web-json").json(), {"a": 1})
        self.assertEqual(server.get("/readable").body, b"ab")
        self.assertEqual(server.get("/web-stream").body, b"web stream")


if __name__ == "__main__":
    unittest.main()
