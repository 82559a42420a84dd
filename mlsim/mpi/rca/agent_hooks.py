"""Hooks of the agent, and its bounded log."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlsim.mpi.rca.wire import SECRET, SECRET_FILE, NodeIdle


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
    inherited = {name: value for name, value in os.environ.items() if name not in (SECRET, SECRET_FILE)}
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
