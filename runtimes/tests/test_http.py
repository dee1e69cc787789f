"""HTTP on the wire, the same for both servers: what is malformed, slow, huge, early or gone."""

import concurrent.futures
import time
import unittest

from harness import Server, wait_until

HOST = "Host: x\r\n"
MALFORMED = {
    "no request line": "GARBAGE\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\n\r\n",
    "two hosts": "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no path": "GET HTTP/1.1\r\nHost: x\r\n\r\n",
    "relative path": "GET x HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/3.0": f"GET / HTTP/3.0\r\n{HOST}\r\n",
    "space before the colon": f"GET / HTTP/1.1\r\n{HOST}X-A : b\r\n\r\n",
    "header without name": f"GET / HTTP/1.1\r\n{HOST}: b\r\n\r\n",
    "header without colon": f"GET / HTTP/1.1\r\n{HOST}nothing\r\n\r\n",
    "folded header": f"GET / HTTP/1.1\r\n{HOST}X-A: b\r\n c\r\n\r\n",
    "NUL in a value": f"GET / HTTP/1.1\r\n{HOST}X-A: b\0c\r\n\r\n",
    "CR in a value": f"GET / HTTP/1.1\r\n{HOST}X-A: b\rX-B: c\r\n\r\n",
    "two lengths": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunked": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "signed length": f"POST / HTTP/1.1\r\n{HOST}Content-Length: +1\r\n\r\na",
    "list of lengths": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 1, 1\r\n\r\na",
    "hexadecimal length": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 0x1\r\n\r\na",
    "other coding": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip\r\n\r\n",
    "chunked not last": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunk without size": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "negative chunk": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "chunk too long": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
}


class Wire:
    """Mixed into a case for each server."""

    runtime = entrypoint = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.runtime, SLESS_ENTRYPOINT=cls.entrypoint, SLESS_HEAD_SECONDS=1,
                            SLESS_RESPONSE_BYTES=100 << 20)

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        code = cls.server.ended()
        cls.server.kill()
        assert code == 0, code

    def well(self):
        answer = self.server.get("/well")
        self.assertEqual((answer.status, answer.json()["path"]), (200, "/well"))

    def test_malformed_requests_are_refused_and_the_connection_ended(self):
        for name, request in MALFORMED.items():
            with self.subTest(name), self.server.connect() as client:
                client.send(request)
                answer = client.answer()
                self.assertIn(answer.status, (400, 501, 505), name)
                self.assertEqual(answer.json()["status"], answer.status)
                # Whatever follows must not be taken for a request.
                self.assertEqual(client.at_end(), b"")
        self.well()

    def test_a_malformed_request_after_a_good_one_is_refused_whole(self):
        with self.server.connect() as client:
            client.send(f"HEAD /first HTTP/1.1\r\n{HOST}\r\n")
            self.assertEqual(client.answer("HEAD").status, 200)
            client.send("NONSENSE\r\n\r\n")
            answer = client.answer()
            self.assertEqual((answer.status, answer.json()["instance"]), (400, "-"))
            self.assertEqual(client.at_end(), b"")

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.connect() as client:
            client.send(f"GET /sleep?s=0.1 HTTP/1.1\r\n{HOST}\r\n"
                        f"POST /b HTTP/1.1\r\n{HOST}Content-Length: 3\r\nContent-Type: text/plain\r\n\r\nabc"
                        f"POST /c HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1;x=y\r\nf\r\n0\r\nt: v\r\n\r\n"
                        f"HEAD /d HTTP/1.1\r\n{HOST}\r\nGET /e HTTP/1.1\r\n{HOST}\r\n")
            self.assertEqual(client.answer().body, b"slept")
            self.assertEqual(client.answer().json(), {"method": "POST", "path": "/b", "body": "abc"})
            self.assertEqual(client.answer().json(), {"method": "POST", "path": "/c", "body": "def"})
            self.assertEqual(client.answer("HEAD").status, 200)
            self.assertEqual(client.answer().json()["path"], "/e")

    def test_a_request_may_come_byte_by_byte(self):
        with self.server.connect() as client:
            for byte in f"POST /slow HTTP/1.1\r\n{HOST}Content-Length: 2\r\nContent-Type: text/plain\r\n\r\nhi".encode():
                client.send(bytes([byte]))
            self.assertEqual(client.answer().json(), {"method": "POST", "path": "/slow", "body": "hi"})

    def test_one_connection_serves_many_requests(self):
        with self.server.connect() as client:
            for n in range(300):
                client.send(f"GET /{n} HTTP/1.1\r\n{HOST}\r\n")
                self.assertEqual(client.answer().json()["path"], f"/{n}")

    def test_http_1_0_closes_unless_asked_not_to(self):
        with self.server.connect() as client:
            client.send("GET /old HTTP/1.0\r\n\r\n")
            self.assertEqual(client.answer().json()["path"], "/old")
            self.assertEqual(client.at_end(), b"")
        with self.server.connect() as client:
            for _ in range(2):
                client.send("GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                self.assertEqual(client.answer().json()["path"], "/old")

    def test_connection_close_is_kept(self):
        with self.server.connect() as client:
            client.send(f"GET /x HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n")
            answer = client.answer()
            self.assertEqual(answer.headers["connection"].lower(), "close")
            self.assertEqual(client.at_end(), b"")

    def test_other_forms_of_target(self):
        self.assertEqual(self.server.get("http://x.test/a%2Fb?c").json()["path"], "/a%2Fb")
        self.assertEqual(self.server.get("http://x.test").json()["path"], "/")
        self.assertEqual(self.server.get("*", "OPTIONS").json()["path"], "*")

    def test_too_large_a_head_is_431(self):
        for headers in ("X-Big: " + "x" * 70_000 + "\r\n", "".join(f"X-{n}: {n}\r\n" for n in range(201))):
            answer = self.server.get("/", headers=headers)
            self.assertEqual((answer.status, answer.json()["code"]), (431, "headers_too_large"))
        self.well()

    def test_expect_continue(self):
        with self.server.connect() as client:
            client.send(f"POST /c HTTP/1.1\r\n{HOST}Expect: 100-continue\r\nContent-Length: 2\r\n"
                        "Content-Type: text/plain\r\n\r\n")
            self.assertEqual(client.answer().status, 100)
            client.send("ok")
            self.assertEqual(client.answer().json()["body"], "ok")
        with self.server.connect() as client:
            client.send(f"POST /c HTTP/1.1\r\n{HOST}Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
            self.assertEqual(client.answer().status, 413)

    def test_a_body_over_the_limit_gets_its_answer_while_it_is_sent(self):
        for framing, body in (("Content-Length: 30000000", b"x" * 30_000_000),
                              ("Transfer-Encoding: chunked", b"80000\r\n" + b"x" * 0x80000 + b"\r\n")):
            with self.subTest(framing), self.server.connect() as client, \
                    concurrent.futures.ThreadPoolExecutor() as pool:
                def send():
                    try:
                        client.send(f"POST / HTTP/1.1\r\n{HOST}{framing}\r\n\r\n")
                        for _ in range(1 if "Length" in framing else 60):
                            client.send(body)
                    except OSError:
                        pass
                sending = pool.submit(send)
                answer = client.answer()
                self.assertEqual((answer.status, answer.json()["code"]), (413, "payload_too_large"))
                client.sock.close()
                sending.result()
        self.well()

    def test_slow_heads_are_ended_and_hold_up_nobody(self):
        slow = [self.server.connect() for _ in range(50)]
        started = time.monotonic()
        for client in slow:
            client.send(f"GET /x HTTP/1.1\r\n{HOST}X-")
        self.well()
        for client in slow:
            try:
                self.assertEqual(client.answer().status, 408)
            except EOFError:
                pass
            self.assertEqual(client.at_end(), b"")
            client.sock.close()
        # 1 s for the head and at most 0.5 s until the next look, on a busy machine.
        self.assertLess(time.monotonic() - started, 6)

    def test_disconnects_leave_nothing(self):
        self.well()
        files = self.server.files()
        starts = ("GET /x HTT", f"POST /x HTTP/1.1\r\n{HOST}Content-Length: 1000\r\n\r\nabc",
                  f"GET /sleep?s=0.2 HTTP/1.1\r\n{HOST}\r\n", f"GET /endless HTTP/1.1\r\n{HOST}\r\n",
                  f"POST /x HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n5\r\nab")
        for n in range(200):
            client = self.server.connect()
            client.send(starts[n % len(starts)])
            if n % 2:
                client.reset()
            else:
                client.sock.close()
        wait_until(lambda: self.server.files() <= files + 1, "connections closed")
        self.well()
        stopped = wait_until(lambda: len(self.server.records("stream stopped")) >= 1 and self.server.records(), "streams")
        self.assertFalse([r for r in stopped if r["level"] == "error"])

    def test_a_client_that_does_not_read_costs_no_memory(self):
        self.well()
        before = self.server.resident_mib()
        stops = len(self.server.records("stream stopped"))
        clients = [self.server.connect() for _ in range(4)]
        for client in clients:
            client.send(f"GET /endless HTTP/1.1\r\n{HOST}\r\n")
            client.more()
        self.well()
        peak = max(self.server.resident_mib() for _ in range(100) if not time.sleep(0.005))
        self.assertLess(peak - before, 80)
        for client in clients:
            client.sock.close()
        wait_until(lambda: len(self.server.records("stream stopped")) >= stops + 4, "generators ended")

    def test_a_burst_is_served(self):
        clients = [self.server.connect() for _ in range(500)]
        for n, client in enumerate(clients):
            client.send(f"GET /{n} HTTP/1.1\r\n{HOST}\r\n")
        for n, client in enumerate(clients):
            answer = client.answer()
            self.assertEqual((answer.status, answer.json()["path"]), (200, f"/{n}"))
            client.sock.close()

    def test_a_large_answer_reaches_a_slow_reader(self):
        with self.server.connect() as client:
            client.send(f"GET /big?n=20000000 HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n")
            client.more()
            self.well()
            self.assertEqual(client.answer().body, b"x" * 20_000_000)

    def test_the_probe_is_apart_from_the_users_path(self):
        answer = self.server.get("/healthz", headers="X-Sless-Probe: 1\r\n")
        self.assertEqual((answer.status, answer.json()), (200, {"status": "ok"}))
        self.assertEqual(self.server.get("/healthz").json()["path"], "/healthz")


class PythonPlain(Wire, unittest.TestCase):
    runtime, entrypoint = "python3.11", "handler.handler"


class PythonAsync(Wire, unittest.TestCase):
    runtime, entrypoint = "python3.11", "handler.main"


class Node(Wire, unittest.TestCase):
    runtime, entrypoint = "nodejs20", "handler.handler"


if __name__ == "__main__":
    unittest.main()
