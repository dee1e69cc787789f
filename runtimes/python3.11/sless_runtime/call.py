"""One call: what it holds from its request to the end of its answer."""

from . import logs


class Call:
    """One call, from the request to the end of its answer."""

    __slots__ = ("runner", "connection", "request_id", "method", "path", "event", "context", "variables", "timer",
                 "answered", "over", "holds_slot", "stuck", "job", "task", "lines", "log_left", "dropped", "sent",
                 "credit", "owed", "drained")

    def __init__(self, runner, connection, request_id, method, path):
        self.runner = runner
        self.connection = connection
        self.request_id = request_id
        self.method = method
        self.path = path
        self.answered = False  # The head is out.
        self.over = False  # Nothing more goes out.
        self.holds_slot = False
        self.stuck = False  # Its thread runs on though its time is up.
        self.job = self.task = self.timer = None
        self.lines = {}
        self.log_left = runner.settings.log_bytes
        self.dropped = 0
        self.sent = 0
        self.credit = self.drained = None
        self.owed = 0

    def may_log(self, size: int) -> bool:
        """Whether a line of that size still fits; counts it if not."""
        if size > self.log_left:
            self.log_left = 0
            self.dropped += 1
            return False
        self.log_left -= size
        return True

    def end_log(self) -> None:
        """Writes lines that have no end yet, and how many were dropped."""
        token = logs.current.set(self)
        for level, text in list(self.lines.items()):
            if text:
                logs.user(level, text)
        logs.current.reset(token)
        self.lines.clear()
        if self.dropped:
            logs.platform("warn", "the call logged more than it may; lines were dropped", self.request_id,
                          droppedLines=self.dropped, logBytes=self.runner.settings.log_bytes)
            self.dropped = 0

    def resume(self) -> None:
        """The client has caught up with a streamed body."""
        if self.credit is not None and self.owed:
            self.credit.release(self.owed)
            self.owed = 0
        if self.drained is not None:
            self.drained.set()

    def client_gone(self) -> None:
        """Nobody is left to answer: a stream stops, anything else runs to its end."""
        self.over = True
        self.resume()
