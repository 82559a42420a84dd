"""The agent of ``mlsim mpi listen``: messages, connections, hooks, its bounded log, its process."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import stat
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mlsim.errors import InputError
from mlsim.mpi.rca import wire
from mlsim.mpi.rca.wire import BUSY, LONGEST, Listening, Message, NodeIdle, RefusedError

_MOST = 1024
_SPARE_FILES = 64


def most_connections() -> int:
    """Return how many connections may be open at once: 1024, or fewer where few files may be open."""
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else max(1, min(_MOST, files - _SPARE_FILES))


class Connection:
    """One connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        place = writer.get_extra_info("peername") or ("unknown",)
        self.peer, self.address = str(place), str(place[0])  # with the port, and without
        self.silent = True  # before its first whole line
        self.dropped = False  # closed to make room, and answered
        self._writer = writer

    def drop(self, reason: str) -> None:
        """Close it, with an answer; its reader sees the end of the stream."""
        self.dropped = True
        self._writer.write(f"refused: {reason}\n".encode())
        self._writer.close()


class Connections:
    """Open connections in order of arrival, at most ``most`` in all and ``most_of_one`` per address."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._open: dict[Connection, None] = {}
        self._of: Counter[str] = Counter()

    def add(self, connection: Connection) -> None:
        """Add a connection; at the limit, drop the oldest silent one, of the address with the most.

        Raises RefusedError if none is silent.
        """
        if self._of[connection.address] >= self._most_of_one:
            self._drop_oldest(self._silent(connection.address), "of this address")
        elif len(self._open) >= self._most:
            silent = {other.address for other in self._silent()}
            fullest = max(silent, key=self._of.__getitem__, default="")
            self._drop_oldest(self._silent(fullest), "in all")
        self._open[connection] = None
        self._of[connection.address] += 1

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        if connection in self._open:
            del self._open[connection]
            self._of[connection.address] -= 1
            if not self._of[connection.address]:
                del self._of[connection.address]

    def drop_silent(self, reason: str) -> None:
        """Close all that have sent no line."""
        for connection in list(self._silent()):
            connection.drop(reason)

    def _silent(self, address: str | None = None) -> Iterator[Connection]:
        """Yield the silent connections, the oldest first."""
        for connection in self._open:
            same = address is None or connection.address == address
            if same and connection.silent and not connection.dropped:
                yield connection

    def _drop_oldest(self, silent: Iterator[Connection], whose: str) -> None:
        oldest = next(silent, None)
        if oldest is None:
            raise RefusedError(f"{BUSY}: too many connections {whose}")
        oldest.drop(f"{BUSY}: silent, and too many connections {whose}")
        self.remove(oldest)


@dataclass
class _Window:
    """Events of one kind since a time: lines logged, and events without a line."""

    began: float
    lines: int = 0
    left_out: int = 0


class LimitedLog:
    """Logger of at most ``most`` lines of each kind per ``seconds``; ``clock`` is for tests.

    Examples
    --------
    >>> log = LimitedLog(logging.getLogger("example"), most=2, seconds=10.0)
    >>> for row in range(5):
    ...     log.add(logging.INFO, "refused", f"line {row}")
    >>> log.left_out("refused")
    3
    """

    def __init__(
        self,
        logger: logging.Logger,
        most: int = 20,
        seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger, self._most, self._seconds, self._clock = logger, most, seconds, clock
        self._windows: dict[str, _Window] = {}

    def add(self, level: int, kind: str, text: str) -> None:
        """Write or count one event of a kind; kinds are few and our own words."""
        now = self._clock()
        window = self._windows.setdefault(kind, _Window(now))
        if now - window.began >= self._seconds:
            self._log_left_out(kind)
            window.began, window.lines = now, 0
        if window.lines < self._most:
            window.lines += 1
            self._logger.log(level, "%s: %s", kind, text)
        else:
            window.left_out += 1

    def left_out(self, kind: str) -> int:
        """Return how many events of a kind have been counted and not yet logged."""
        return self._windows[kind].left_out if kind in self._windows else 0

    def close(self) -> None:
        """Log the counts of events that have not been logged."""
        for kind in self._windows:
            self._log_left_out(kind)

    def _log_left_out(self, kind: str) -> None:
        window = self._windows[kind]
        if window.left_out:
            self._logger.warning("%s: %d more, not listed", kind, window.left_out)
            window.left_out = 0


_MOST_WAITING = 1024
_SECONDS_TO_END = 1.0


class Hooks:
    """Calls of a command, with job and node appended, for every message; receiving never waits for them.

    ``at_once`` run at a time, each for up to ``timeout`` s. An empty command is never called.
    """

    def __init__(self, command: Sequence[str], at_once: int, timeout: float, log: LimitedLog) -> None:
        self._command, self._timeout, self._log = tuple(command), timeout, log
        self._turn = asyncio.Semaphore(at_once)
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def full(self) -> bool:
        """Whether so many wait that no more can be called."""
        return len(self._calls) >= _MOST_WAITING

    def call(self, message: NodeIdle) -> bool:
        """Schedule a call of the command; return whether there is one."""
        if self._command:
            task = asyncio.create_task(self._call(message))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        return bool(self._command)

    async def finish(self) -> None:
        """Wait until all have been called and are done."""
        if self._calls:
            await asyncio.wait(self._calls)

    async def end(self) -> None:
        """End those that run, by SIGTERM and then by SIGKILL, and call none of those that wait."""
        calls = list(self._calls)
        for task in calls:
            task.cancel()
        if calls:
            await asyncio.wait(calls, timeout=3 * _SECONDS_TO_END)
            self._log.add(logging.WARNING, "hooks", f"{len(calls)} were ended or not begun")

    async def _call(self, message: NodeIdle) -> None:
        async with self._turn:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    message.job,
                    message.node,
                    env=_environment(message),
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,  # so that what it starts can be ended with it
                )
            except (OSError, ValueError) as error:
                self._log.add(logging.ERROR, "hook", f"{self._command[0]}: cannot be started: {error}")
                return
            try:
                code = await asyncio.wait_for(process.wait(), self._timeout)
            except TimeoutError:
                await _end(process)
                text = f"for node {message.node}: not done after {self._timeout:g} s, and ended"
                self._log.add(logging.ERROR, "hook", text)
                return
            except asyncio.CancelledError:
                await _end(process)
                raise
        level = logging.INFO if code == 0 else logging.ERROR
        self._log.add(level, "hook", f"for node {message.node}: exit {code}")


def _environment(message: NodeIdle) -> dict[str, str]:
    """Return the variables of a hook; the secret is not among them."""
    secret = wire.SECRET, wire.SECRET_FILE
    inherited = {name: value for name, value in os.environ.items() if name not in secret}
    return {
        **inherited,
        "MLSIM_RCA_JOB": message.job,
        "MLSIM_RCA_NODE": message.node,
        "MLSIM_RCA_NODE_NUMBER": str(message.node_number),
    }


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process and what it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):  # it does not listen; then the stronger signal
            await asyncio.wait_for(process.wait(), _SECONDS_TO_END)


_READ_SECONDS = 5.0
_CLOSE_SECONDS = 1.0
_BACKLOG = 256
"""Connections that are accepted in a row; fewer than may be open, so that none is dropped unread."""
_MOST_NONCES = 1_000_000
_ENDS = f"{BUSY}: the agent ends"


class Agent:
    """Receiver of messages of real runs, whose senders share a secret."""

    def __init__(
        self,
        secret: bytes,
        records: Path | None = None,  # one JSON object per message is appended to this file
        hook: Sequence[str] = (),  # command to call with job and node for every idle node
        max_age: float = 300.0,  # s, of a message's time from ours; nonces are remembered for as long
        hook_timeout: float = 60.0,  # s after which a hook is ended
        hooks_at_once: int = 4,
    ) -> None:
        self._secret, self._records, self._max_age = secret, records, max_age
        self._nonces: OrderedDict[str, float] = OrderedDict()
        self._log = LimitedLog(logging.getLogger("mlsim.rca"))
        self._hooks = Hooks(hook, hooks_at_once, hook_timeout, self._log)
        most = most_connections()
        self._connections = Connections(most, max(1, most // 2))
        self._tasks: set[asyncio.Task[None]] = set()
        self._more = asyncio.Event()
        self.taken = 0  # messages
        self.refused = 0  # lines and connections
        self._server: asyncio.Server | None = None
        self._ends = False

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Start to listen; return the address, with the port that the system chose for port 0.

        Raises InputError if the address, or the file of records, cannot be used.
        """
        if self._records is not None:
            _check_records(self._records)
        try:
            self._server = await asyncio.start_server(
                self._connected,
                host,
                port,
                limit=LONGEST,
                backlog=min(_BACKLOG, most_connections() // 4 or 1),
            )
        except OSError as error:
            raise InputError(f"{host}:{port}: cannot listen: {error.strerror or error}") from error
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def has_taken(self, count: int | None) -> None:
        """Wait until this number of messages has been received; None: for ever."""
        while count is None or self.taken < count:
            self._more.clear()
            await self._more.wait()

    async def close(self, end_hooks: bool = False) -> None:
        """Stop listening, answer received lines, and wait for hooks, or end them within seconds."""
        if self._server is not None:
            self._server.close()
        self._ends = True
        self._connections.drop_silent(_ENDS)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS)
            for task in self._tasks:
                task.cancel()
        await (self._hooks.end() if end_hooks else self._hooks.finish())
        self._log.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "connections are served by tasks"
        self._tasks.add(task)
        connection = Connection(writer)
        try:
            answer = await self._answer(connection, reader)
            if not connection.dropped:
                writer.write(answer)
                await asyncio.wait_for(writer.drain(), _READ_SECONDS)
        except (OSError, TimeoutError) as error:
            self._refuse(connection, type(error).__name__)
        except asyncio.CancelledError:  # by close alone, and there is nothing more to do
            self._refuse(connection, "the agent ended first")
        finally:
            self._connections.remove(connection)
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError):  # the other side may be gone already
                await writer.wait_closed()

    async def _answer(self, connection: Connection, reader: asyncio.StreamReader) -> bytes:
        try:
            if self._ends:  # it came with the last ones
                raise RefusedError(_ENDS)
            self._connections.add(connection)
            line = await self._line(reader)
            connection.silent = False
            return self._take(self._checked(line))
        except RefusedError as error:
            reason = "dropped, as it was silent and others came" if connection.dropped else str(error)
            self._refuse(connection, reason)
            return f"refused: {error}\n".encode()

    def _refuse(self, connection: Connection, reason: str) -> None:
        self.refused += 1
        self._log.add(logging.WARNING, "refused", f"{connection.peer}: {reason}")

    def _take(self, message: Message) -> bytes:
        """Execute a message's request; return the answer."""
        if isinstance(message, Listening):
            return b"ok: nobody asks here\n"
        self.taken += 1
        self._more.set()
        self._record(message)
        if not isinstance(message, NodeIdle):
            self._log.add(logging.INFO, "taken", f"job {message.job}: {message.kind}")
            return b"ok: noted\n"
        text = f"job {message.job}: node {message.node} is idle ({message.ranks} ranks)"
        self._log.add(logging.INFO, "taken", text)
        return b"ok: noted, the hook is called\n" if self._hooks.call(message) else b"ok: noted\n"

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await asyncio.wait_for(reader.readuntil(b"\n"), _READ_SECONDS)
        except asyncio.LimitOverrunError as error:
            raise RefusedError(f"longer than {LONGEST} bytes") from error
        except asyncio.IncompleteReadError as error:
            raise RefusedError("the line did not end") from error
        except TimeoutError as error:
            raise RefusedError(f"no line within {_READ_SECONDS} s") from error

    def _checked(self, line: bytes) -> Message:
        """Check a line, its age, and that it comes for the first time."""
        message, nonce = wire.unpack(line, self._secret)
        now, sent = time.time(), float(vars(message)["time"])
        if abs(now - sent) > self._max_age:
            raise RefusedError(f"sent {now - sent:.0f} s ago; allowed: {self._max_age:.0f} s either way")
        # A message may be ahead by max_age, so its nonce is kept for twice as long.
        while self._nonces and next(iter(self._nonces.values())) < now - 2 * self._max_age:
            self._nonces.popitem(last=False)
        if nonce in self._nonces:
            raise RefusedError(wire.SENT_BEFORE)
        if len(self._nonces) >= _MOST_NONCES:
            raise RefusedError("too many messages")
        if self._hooks.full and isinstance(message, NodeIdle):
            raise RefusedError(f"{BUSY}: too many hooks wait")
        self._nonces[nonce] = now
        return message

    def _record(self, message: Message) -> None:
        if self._records is None:
            return
        try:
            with self._records.open("a", encoding="utf-8") as file:
                row = {"received": time.time(), "type": message.kind, **asdict(message)}
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            self._log.add(logging.ERROR, "records", f"{self._records}: cannot be written: {error.strerror}")


def _check_records(file: Path) -> None:
    """Check that lines can be appended; a pipe without a reader would block the agent."""
    try:
        if file.exists() and stat.S_ISFIFO(file.stat().st_mode):
            raise InputError(f"{file}: is a pipe; allowed: a file that can be appended to")
        with file.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error


_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(
    agent: Agent, host: str, port: int, count: int | None, listening: Callable[[str, int], None]
) -> int:
    """Run an agent in the main thread until it has ``count`` messages (None: no limit) or gets a signal.

    The event loop itself handles signals: an exception of a signal handler would occur in whatever callback
    runs at that moment, and the loop logs those of callbacks and continues. ``listening`` is called with the
    address. Returns the number of the signal, else 0. Raises InputError if the address cannot be used.
    """
    with asyncio.Runner() as runner, _signals(runner.get_loop()) as signalled:
        return runner.run(_serve(agent, host, port, count, listening, signalled))


async def _serve(
    agent: Agent,
    host: str,
    port: int,
    count: int | None,
    listening: Callable[[str, int], None],
    signalled: asyncio.Future[int],
) -> int:
    listening(*await agent.listen(host, port))
    enough = asyncio.create_task(agent.has_taken(count))
    await asyncio.wait((enough, signalled), return_when=asyncio.FIRST_COMPLETED)
    enough.cancel()
    stopped = signalled.done()
    closing = asyncio.create_task(agent.close(end_hooks=stopped))
    if not stopped:
        # Hooks may take their time, but not against a signal.
        await asyncio.wait((closing, signalled), return_when=asyncio.FIRST_COMPLETED)
        if signalled.done() and not closing.done():
            await agent.close(end_hooks=True)
    await closing
    return signalled.result() if signalled.done() else 0


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Future[int]]:
    """Handle signals that end a process in the event loop; yield a future of the first one's number."""
    signalled: asyncio.Future[int] = loop.create_future()

    def came(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    handled = [number for number in _ENDING if before[number] is not signal.SIG_IGN]  # such as by nohup
    for number in handled:
        loop.add_signal_handler(number, came, number)
    try:
        yield signalled
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
