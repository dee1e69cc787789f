"""Starts the server: settings, handler, listener, and the way out at SIGTERM."""

import asyncio
import os
import signal
import socket
import sys
import time

from . import logs, problem
from .calls import Runner
from .http1 import BUSY, CLOSING, HEAD, Connection
from .load import LoadError, load
from .settings import SettingError, read
from .watchdog import Watchdog
from .workers import Overdue

EXIT_SETTINGS = 78
EXIT_HANDLER = 65
EXIT_LISTEN = 71

BACKLOG = 1024
SWEEP_SECONDS = 0.5
# A probe is told from a user's request by this header, which the platform takes from clients.
PROBE_HEADER = "x-sless-probe"
# A thread that computes lets the loop in after this: latency for its neighbours against a little throughput.
SWITCH_SECONDS = 0.001
# Of the open-file limit, for the handler's own files and sockets.
FILES_KEPT = 256


class Service:
    """What connections share."""

    def __init__(self, settings, handler, loop):
        self.settings = settings
        self.loop = loop
        self.runner = Runner(settings, handler, loop)
        self.connections: set = set()
        self.max_connections = _max_connections()
        self.max_body = settings.request_bytes
        self.head_seconds = settings.head_seconds
        self.draining = False

    def call(self, connection, method, path, query, headers, body) -> None:
        if path == "/healthz" and any(name == PROBE_HEADER for name, _ in headers):
            if self.runner.healthy():
                connection.send(200, "content-type: application/json\r\n", b'{"status":"ok"}')
            else:
                connection.send(*problem.answer("unhealthy", "every thread is in a call whose time is up", path, ""))
            return
        self.runner.start(connection, method, path, query, headers, body)

    def sweep(self) -> None:
        """Ends connections that are too slow."""
        now = self.loop.time()
        for connection in list(self.connections):
            connection.overdue(now)
        self.loop.call_later(SWEEP_SECONDS, self.sweep)


def _max_connections() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(4096, soft - FILES_KEPT)) if soft > 0 else 4096


async def _drain(service, listener, stop) -> None:
    """Stops accepting, lets calls finish within the grace, then answers the rest."""
    started = time.monotonic()
    logs.platform("info", "shutting down", calls=service.runner.running)
    service.draining = True
    # Connections that the kernel has accepted already would be reset: two turns of the loop take them in.
    await asyncio.sleep(0.02)
    listener.close()
    until = started + service.settings.grace_seconds
    while True:
        for connection in list(service.connections):
            if connection.state == HEAD and not connection.buf:
                connection.close()
        if not service.runner.running and not any(c.state <= BUSY for c in service.connections):
            break
        if time.monotonic() >= until:
            break
        await asyncio.sleep(0.02)
    for connection in list(service.connections):
        if connection.call is not None:
            service.runner.abandon(connection.call)
    until = time.monotonic() + 1.0  # For answers on their way out.
    while any(c.state <= CLOSING and c.transport.get_write_buffer_size() for c in service.connections):
        if time.monotonic() >= until:
            break
        await asyncio.sleep(0.01)
    for connection in list(service.connections):
        connection.transport.close()
    await asyncio.sleep(0)
    logs.platform("info", "stopped", elapsedMs=round((time.monotonic() - started) * 1000),
                  abandonedCalls=service.runner.running)
    stop()


def serve(settings, handler) -> int:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    service = Service(settings, handler, loop)
    ended = []

    def stop():
        ended.append(True)
        loop.stop()

    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
        listener = loop.run_until_complete(
            loop.create_server(lambda: Connection(service, loop), sock=listening, backlog=BACKLOG))
    except OSError as error:
        logs.platform("error", "can't listen", error=str(error), host=settings.host, port=settings.port,
                      remedy="free the port, or set PORT to another")
        return EXIT_LISTEN

    signals = []

    def on_signal():
        if not signals:
            signals.append(loop.create_task(_drain(service, listener, stop)))

    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, on_signal)
    service.sweep()
    if service.runner.is_async:
        Watchdog(loop, settings.timeout_seconds)
    sys.setswitchinterval(SWITCH_SECONDS)
    logs.platform("info", "listening", host=settings.host, port=listening.getsockname()[1],
                  function=settings.function_name, version=settings.version)
    while not ended:
        try:
            loop.run_forever()
        except Overdue:
            pass  # The watchdog's interrupt came after the handler had let go.
        except (SystemExit, KeyboardInterrupt) as error:
            logs.platform("error", "a task of the function tried to end the process", error=repr(error))
    if service.runner.running:
        os._exit(0)  # Threads that can't be stopped must not hold up the end.
    return 0


def main() -> int:
    """Serves; with `--check` only loads the handler, as a build does. The exit code says what went wrong."""
    check = sys.argv[1:] == ["--check"]
    # Before anything is read, so that every word of this process is a record.
    logs.install("info")
    try:
        settings = read(os.environ)
    except SettingError as error:
        logs.platform("error", "a setting is not allowed", error=str(error))
        return EXIT_SETTINGS
    logs.install(settings.log_level)
    try:
        handler = load(settings.function_dir, settings.entrypoint)
    except LoadError as error:
        if check and not error.certain:
            logs.platform("warn", "the handler can't be judged at build: its code needs its surroundings",
                          **error.fields())
            return 0
        logs.platform("error", "the handler can't be loaded", **error.fields())
        return EXIT_HANDLER
    return 0 if check else serve(settings, handler)

