"""Starts a runtime's server and talks to it byte by byte."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

RUNTIMES = pathlib.Path(__file__).resolve().parent.parent
FUNCTION = pathlib.Path(__file__).resolve().parent / "function"
COMMANDS = {
    "python3.11": [os.environ.get("PYTHON", sys.executable), str(RUNTIMES / "python3.11/server.py")],
    "nodejs20": [os.environ.get("NODE", "node"), str(RUNTIMES / "nodejs20/server.js")],
}
START_SECONDS = 20
DEADLINE_SECONDS = 20


def wait_until(condition, what, seconds=DEADLINE_SECONDS):
    """Awaits a condition; what it gave."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > until:
            raise AssertionError(f"not in {seconds} s: {what}")
        time.sleep(0.01)
    return value


class Process:
    """A server process, its log and its way out."""

    def __init__(self, runtime, folder=FUNCTION, args=(), **env):
        environment = {k: os.environ[k] for k in ("PATH", "HOME") if k in os.environ}
        environment.update(PORT="0", SLESS_HOST="127.0.0.1", SLESS_FUNCTION_DIR=str(folder))
        environment.update((k, str(v)) for k, v in env.items())
        self.out = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*COMMANDS[runtime], *args], stdout=self.out, stderr=subprocess.STDOUT,
                                        env=environment, stdin=subprocess.DEVNULL, cwd="/")

    def text(self):
        return os.pread(self.out.fileno(), os.fstat(self.out.fileno()).st_size, 0).decode("utf-8", "replace")

    def records(self, message=None):
        found = [json.loads(line) for line in self.text().split("\n")[:-1]]
        return [r for r in found if message is None or r["message"] == message]

    def ended(self, seconds=DEADLINE_SECONDS):
        """Its exit code, awaited."""
        return self.process.wait(seconds)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.out.close()


class Server(Process):
    """A server that listens."""

    def __init__(self, runtime, **options):
        super().__init__(runtime, **options)
        try:
            self.port = wait_until(lambda: self.process.poll() is not None and self.text() + "\n"
                                   or [r["port"] for r in self.records("listening")], "listening", START_SECONDS)[0]
            assert isinstance(self.port, int), self.text()
        except BaseException:
            self.kill()
            raise

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) >> 10

    def connect(self):
        return Client(self.port)

    def get(self, target, method="GET", headers="", body=b""):
        """One request on a connection of its own."""
        with self.connect() as client:
            client.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        f"content-length: {len(body)}\r\n{headers}\r\n".encode("latin-1") + body)
            return client.answer(method)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Client:
    """A connection. Answers are read strictly by their framing."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def reset(self):
        """Closes with a reset, as a killed client does."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()

    def more(self):
        data = self.sock.recv(65536)
        self.buf += data
        return bool(data)

    def _until(self, mark):
        while mark not in self.buf:
            if not self.more():
                raise EOFError(f"ended with {self.buf!r}")
        part, _, self.buf = self.buf.partition(mark)
        return part

    def _take(self, size):
        while len(self.buf) < size:
            if not self.more():
                raise EOFError(f"{size - len(self.buf)} bytes are missing")
        part, self.buf = self.buf[:size], self.buf[size:]
        return part

    def answer(self, method="GET"):
        """The next answer; `EOFError` if the connection ends first."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", lines[0])[1])
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if method == "HEAD" or status in (100, 204, 304):
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self._until(b"\r\n"), 16):
                body += self._take(size)
                self._take(2)
            self._take(2)
        elif "content-length" in headers:
            body = self._take(int(headers["content-length"]))
        else:
            while self.more():
                pass
            body, self.buf = self.buf, b""
        return Answer(status, headers, body)

    def at_end(self):
        """Whether the server has ended the connection, awaited."""
        try:
            while self.more():
                pass
        except ConnectionResetError:
            pass
        return self.buf
