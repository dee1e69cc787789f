"""Calls of the handler: admission, deadline, running it on the loop or in a thread, its answer, its log."""

import asyncio
import contextvars
import inspect
import threading
import time
import uuid
from collections import deque

from . import event as events
from . import logs, problem
from .call import Call
from .response import BINARY, TEXT, BadResponse, Prepared, piece, prepare
from .workers import Job, Overdue, Workers

# A call over the concurrency waits this long for its turn, then 429. A burst that is over in a moment is served.
QUEUE_WAIT_SECONDS = 2.0
MAX_WAITING = 1024
# Between interrupts of a thread whose time is up.
INTERRUPT_SECONDS = 1.0
# Pieces of a streamed body on their way from a thread to the client.
PIECES_AHEAD = 8
MAX_REQUEST_ID_CHARS = 128
LOG = logs.Log()


class Runner:
    """Runs calls of one handler within the settings."""

    def __init__(self, settings, handler, loop):
        self.settings = settings
        self.handler = handler
        self.loop = loop
        self.workers = Workers(loop)
        self.running = 0
        self.waiting: deque = deque()
        self.stuck = 0  # Threads that run on though their call is over.
        call = getattr(handler, "__call__", None)
        self.is_async = any(check(f) for f in (handler, call)
                            for check in (inspect.iscoroutinefunction, inspect.isasyncgenfunction))

    def healthy(self) -> bool:
        """Whether a call could be run at all."""
        return self.stuck < self.settings.concurrency

    def start(self, connection, method, path, query, pairs, body) -> None:
        """Takes a request. The connection gets its answer some time."""
        headers = events.join_headers(pairs)
        request_id = headers.get("x-request-id", "")
        if not request_id or len(request_id) > MAX_REQUEST_ID_CHARS:
            request_id = str(uuid.uuid4())
        call = Call(self, connection, request_id, method, path)
        connection.call = call
        try:
            call.event = events.make(method, path, query, headers, body)
        except events.BadEvent as error:
            self._problem(call, "bad_request", str(error))
            return
        if self.running < self.settings.concurrency:
            self._begin(call)
        elif len(self.waiting) < MAX_WAITING:
            self.waiting.append(call)
            wait = min(QUEUE_WAIT_SECONDS, self.settings.timeout_seconds)
            call.timer = self.loop.call_later(wait, self._give_up, call)
        else:
            self._refuse_for_load(call)

    def _give_up(self, call):
        self.waiting.remove(call)
        self._refuse_for_load(call)

    def _refuse_for_load(self, call):
        self._problem(call, "concurrency_exceeded", f"the function takes at most {self.settings.concurrency} calls "
                      "at once (concurrency); try again")

    def _begin(self, call):
        settings = self.settings
        self.running += 1
        call.holds_slot = True
        timeout = settings.timeout_seconds
        call.context = events.Context(call.request_id, settings.function_name, settings.namespace, settings.version,
                                      int((time.time() + timeout) * 1000), LOG)
        call.timer = self.loop.call_later(timeout, self._overdue, call)
        variables = call.variables = contextvars.copy_context()
        variables.run(logs.current.set, call)
        if self.is_async:
            call.task = self.loop.create_task(self._run_async(call), context=variables)
        else:
            self._submit(call, self._run_in_thread)

    # On the loop.

    async def _run_async(self, call, awaitable=None):
        """The handler, or what a plain function returned to be awaited, up to the end of its answer."""
        handed_over = False
        try:
            result = self.handler(call.event, call.context) if awaitable is None else awaitable
            if inspect.isawaitable(result):
                result = await result
            prepared = prepare(result, self.settings.response_bytes)
            if prepared.stream is None:
                self._send(call, prepared)
            elif hasattr(prepared.stream, "__anext__"):
                await self._pump(call, prepared)
            elif not call.over:
                self._stream_in_thread(call, prepared)  # A plain iterator may block the loop.
                handed_over = True
        except BaseException as error:
            self._failed(call, error)
        finally:
            call.task = None
            if not handed_over:
                self._release(call)

    async def _pump(self, call, prepared):
        stream = prepared.stream
        call.drained = asyncio.Event()
        try:
            async for chunk in stream:
                data = piece(chunk)
                if data:
                    self._piece(call, prepared, data, isinstance(chunk, str))
                if call.over:
                    return
                if call.connection.paused:
                    call.drained.clear()
                    await call.drained.wait()
            self._stream_ended(call, prepared)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    # In a thread.

    def _submit(self, call, run, *args):
        call.job = Job(lambda: call.variables.run(run, call, *args), lambda error: (self._thread_failed, call, error))
        self.workers.submit(call.job)

    def _run_in_thread(self, call):
        try:
            result = self.handler(call.event, call.context)
            if inspect.isawaitable(result):
                return self._thread_awaits, call, result
            return self._thread_answers, call, prepare(result, self.settings.response_bytes)
        except BaseException as error:
            return self._thread_failed, call, error

    def _iterate_in_thread(self, call, prepared):
        stream = prepared.stream
        try:
            try:
                for chunk in stream:
                    data = piece(chunk)
                    if data:
                        call.credit.acquire()
                        if call.over:
                            break
                        self.workers.post(self._thread_gave, call, (prepared, data, isinstance(chunk, str)))
                    if call.over:
                        break
            finally:
                close = getattr(stream, "close", None)
                if close is not None:
                    close()
            return self._thread_ended, call, prepared
        except BaseException as error:
            return self._thread_failed, call, error

    # What threads say, told in the loop.

    def _thread_answers(self, call, prepared):
        call.job = None
        if prepared.stream is None:
            self._send(call, prepared)
            self._release(call)
        elif call.over:
            self._release(call)
        elif hasattr(prepared.stream, "__anext__"):
            call.task = self.loop.create_task(self._pump_alone(call, prepared), context=call.variables)
        else:
            self._stream_in_thread(call, prepared)

    async def _pump_alone(self, call, prepared):
        try:
            await self._pump(call, prepared)
        except BaseException as error:
            self._failed(call, error)
        finally:
            call.task = None
            self._release(call)

    def _stream_in_thread(self, call, prepared):
        call.credit = threading.Semaphore(PIECES_AHEAD)
        self._submit(call, self._iterate_in_thread, prepared)

    def _thread_awaits(self, call, awaitable):
        call.job = None
        if call.timer is not None:
            call.task = self.loop.create_task(self._run_async(call, awaitable), context=call.variables)
            return
        if hasattr(awaitable, "close"):
            awaitable.close()  # Its time was up before it began.
        self._release(call)

    def _thread_gave(self, call, value):
        try:
            self._piece(call, *value)
        except BadResponse as error:
            self._failed(call, error)
        if call.connection.paused and not call.over:
            call.owed += 1
        else:
            call.credit.release()

    def _thread_ended(self, call, prepared):
        call.job = None
        try:
            self._stream_ended(call, prepared)
        except BadResponse as error:
            self._failed(call, error)
        self._release(call)

    def _thread_failed(self, call, error):
        call.job = None
        self._failed(call, error)
        self._release(call)

    # Answers.

    def _send(self, call, prepared: Prepared):
        if call.over:
            return
        length = prepared.length
        if length is not None and length != len(prepared.body) and prepared.status not in (204, 304):
            if call.method != "HEAD" or prepared.body:
                self._failed(call, BadResponse(f"`content-length` is {length}, but the body has "
                                               f"{len(prepared.body)} bytes; leave the header out"))
                return
        call.over = call.answered = True
        call.connection.send(prepared.status, prepared.head, prepared.body, length)

    def _piece(self, call, prepared, data, is_text):
        if call.over:
            return
        length, total = prepared.length, call.sent + len(data)
        if length is not None and total > length:
            raise BadResponse(f"`content-length` is {length}, but the body has more bytes; leave the header out")
        if total > self.settings.response_bytes:
            raise BadResponse(f"the response's body has more than {self.settings.response_bytes} bytes "
                              "(limits.responseBytes)")
        if not call.answered:
            call.answered = True
            head = prepared.head if prepared.typed else f"content-type: {TEXT if is_text else BINARY}\r\n{prepared.head}"
            if not call.connection.begin(prepared.status, head, length):
                call.over = True  # HEAD, 204, 304: the rest isn't wanted.
                call.connection.end()
                return
        call.sent = total
        call.connection.piece(data)

    def _stream_ended(self, call, prepared):
        if call.over:
            return
        if prepared.length is not None and call.sent != prepared.length:
            raise BadResponse(f"`content-length` is {prepared.length}, but the body has {call.sent} bytes; "
                              "leave the header out")
        call.over = True
        if call.answered:
            call.connection.end()
        else:
            call.answered = True
            call.connection.send(prepared.status, prepared.head, b"")

    def _failed(self, call, error):
        if isinstance(error, BadResponse):
            logs.platform("error", "the handler's response is not valid", call.request_id, error=str(error))
            self._problem(call, "bad_response", str(error))
        elif isinstance(error, (Overdue, asyncio.CancelledError)) and call.timer is None:
            pass  # It was told to stop.
        elif isinstance(error, Overdue):
            self._overdue(call)
        else:
            kind, text = type(error).__name__, str(error)
            logs.platform("error", "the handler raised an exception", call.request_id, errorType=kind, error=text,
                          stack=logs.stack(error))
            if isinstance(error, MemoryError):
                self._problem(call, "out_of_memory", "the function wanted more memory than there is (memoryMb)")
            else:
                self._problem(call, "function_error", f"{kind}: {text}" if text else kind)

    def _problem(self, call, code, detail):
        if call.over:
            return
        call.over = True
        if call.answered:
            call.connection.cut()
            return
        call.answered = True
        call.connection.send(*problem.answer(code, detail, call.path, call.request_id))

    def _overdue(self, call):
        """The deadline: answers, and stops the handler as far as Python can."""
        call.timer.cancel()
        call.timer = None
        logs.platform("warn", "the call took too long", call.request_id, timeoutSeconds=self.settings.timeout_seconds)
        self._problem(call, "deadline_exceeded",
                      f"the function took longer than {self.settings.timeout_seconds:g} s (timeoutSeconds)")
        call.over = True
        call.resume()
        if call.job is not None:
            # The thread keeps its slot until it really ends: it may be in code that can't be interrupted.
            call.stuck = True
            self.stuck += 1
            if call.credit is not None:
                call.credit.release()
            self._interrupt(call)
        elif call.task is not None:
            call.task.cancel()
            self._free(call)

    def _interrupt(self, call):
        """Interrupts a call's thread until it ends: an `except:` in a loop may swallow it once."""
        if call.job is not None:
            self.workers.interrupt(call.job)
            self.loop.call_later(INTERRUPT_SECONDS, self._interrupt, call)

    def _release(self, call):
        """The handler has ended."""
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        if call.stuck:
            self.stuck -= 1
        if call.lines or call.dropped:
            call.end_log()
        self._free(call)

    def _free(self, call):
        if not call.holds_slot:
            return
        call.holds_slot = False
        self.running -= 1
        while self.waiting and self.running < self.settings.concurrency:
            waiting = self.waiting.popleft()
            waiting.timer.cancel()
            if not waiting.over:
                self._begin(waiting)

    def abandon(self, call) -> None:
        """Answers a call that is not waited for any longer."""
        self._problem(call, "shutting_down", "the function's server is shutting down; try again")
