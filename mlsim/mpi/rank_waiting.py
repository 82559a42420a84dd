"""Waiting ranks: yields, alarms, and the last words of a rank that fails."""

import contextlib
import fcntl
import os
import stat
import sys
import termios
import time
import traceback
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from mpi4py import MPI

from mlsim.errors import MlsimError

_EVERY = 1.0
_STOPPED = ("T", "t")


class Alarm:
    """Warning, once per wait, after ``seconds``, about stopped ``processes`` of this machine (rank, process).

    A rank that executes a long chunk delays others as well, which is no reason to warn.
    """

    def __init__(
        self, rank: int, ranks: int, seconds: float, processes: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._rank, self._ranks, self._seconds, self._processes = rank, ranks, seconds, processes

    def watch(self, meeting: str = "") -> Callable[[], None]:
        """Return a function that warns once per wait; ``meeting``: what all ranks that meet must do."""
        begin = time.monotonic()
        due = begin + self._seconds

        def look() -> None:
            nonlocal due
            now = time.monotonic()
            if now < due:
                return
            due = now + _EVERY
            if reason := self._reason(meeting):
                due = float("inf")
                warnings.warn(f"mlsim: after {now - begin:.0f} s: {reason}", RuntimeWarning, stacklevel=2)

        return look

    def _reason(self, meeting: str) -> str:
        """Return why this rank waits, as far as that is known; empty if it is not."""
        for rank, process in self._processes:
            if _is_stopped(process):
                return f"rank {rank} of {self._ranks}, process {process}, has been stopped, and others wait"
        # If all reported it, the missing rank would be hard to find among the lines.
        if meeting and self._rank in (0, 1):
            return f"rank {self._rank} of {self._ranks} waits for others: {meeting}"
        return ""


def _is_stopped(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):  # no Linux, or it has ended, which the launcher sees
        return False
    return state in _STOPPED


WaitStyle = Literal["auto", "spin", "sleep"]

_LOOK_EVERY = 512  # polls between two checks for the reason of a wait: about 0.1 s, where ranks sleep
SPINS = 50  # polls before the first pause in which a rank yields its core
_YIELDS = 200
_FIRST_SLEEP = 10e-6
_LONGEST_SLEEP = 200e-6
_REST_AFTER, _REST_SHARE, _LONGEST_REST, _HOLDERS_REST = 2e-3, 0.05, 20e-3, 8e-3

_services: list[Callable[[], object]] = []


def serve_while_waiting(service: Callable[[], object]) -> None:
    """Register a function to be called at every pause of this process; it must not wait itself."""
    _services.append(service)


def stop_serving(service: Callable[[], object]) -> None:
    """Remove a function registered with :func:`serve_while_waiting`."""
    if service in _services:
        _services.remove(service)


class Patience:
    """One rank's style of waiting.

    ``spin`` polls all the time; ``sleep`` polls, then yields the core, then sleeps for up to 0.2 ms between
    polls; ``auto`` sleeps if there are more ``ranks_on_node`` than cores. Without an ``alarm`` there are no
    warnings.
    """

    def __init__(self, style: WaitStyle, ranks_on_node: int, alarm: Alarm | None = None) -> None:
        self.sleeps = style == "sleep" or (style == "auto" and ranks_on_node > cores_here())
        self._alarm = alarm

    def until(self, ready: Callable[[], object], meeting: str = "") -> None:
        """Poll until ``ready`` returns something true; for ``meeting`` see :meth:`Alarm.watch`."""
        tries = 0
        look: Callable[[], None] | None = None
        while not ready():
            self.pause(tries)
            tries += 1
            if self._alarm is not None and tries % _LOOK_EVERY == 0:
                look = look or self._alarm.watch(meeting)
                look()

    def rest_until(self, ready: Callable[[], object], holds: bool = False) -> None:
        """Poll until a function returns something true, as a rank that has no more work.

        After 2 ms, pauses grow to 20 ms, to leave the core to others, or to 8 ms if this rank ``holds`` what
        others reach through MPI. A rank that has to answer requests waits as :meth:`until` does.
        """
        tries, begin, longest = 0, time.monotonic(), _HOLDERS_REST if holds else _LONGEST_REST
        look = None if self._alarm is None else self._alarm.watch()
        while not ready():
            waited = time.monotonic() - begin
            if look is not None:
                look()
            if _services or waited < _REST_AFTER:
                self.pause(tries)
                tries += 1
            else:
                time.sleep(min(waited * _REST_SHARE, longest))

    def pause(self, tries: int) -> None:
        """Serve requests, then yield the core or sleep; ``tries`` is the number of polls so far."""
        for service in _services:
            service()
        if tries < SPINS:
            return
        if not self.sleeps or tries < _YIELDS:
            os.sched_yield()
        else:
            time.sleep(min(_FIRST_SLEEP * (tries - _YIELDS + 1), _LONGEST_SLEEP))


def cores_here() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_INTERRUPTED = 130
_LONGEST = 1.0
_BETWEEN = 1e-3


def abort_with_words(comm: MPI.Intracomm, text: str, code: int) -> None:
    """End all ranks, once a text was read on the error stream: launchers forward nothing after an end."""
    if text:
        sys.stderr.write(text)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        with contextlib.suppress(OSError, ValueError):  # a stream that was replaced or closed has no file
            wait_until_read(stream.fileno())
    comm.Abort(code)


@contextlib.contextmanager
def ending_all(comm: MPI.Intracomm) -> Iterator[None]:
    """End all ranks if this one of several fails with an unexpected error: others would wait for ever."""
    try:
        yield
    except MlsimError:
        raise
    except Exception:
        if comm.size == 1:
            raise
        abort_with_words(comm, _last_words(comm, "an internal error", traceback.format_exc()), 1)


def end_run(comm: MPI.Intracomm, error: BaseException, title: str) -> None:
    """End all ranks after an exception in a loop's body: others wait for this one, and would for ever."""
    if comm.size == 1:
        return
    if isinstance(error, KeyboardInterrupt):
        sys.stdout.flush()
        comm.Abort(_INTERRUPTED)
    words, code = "", 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 1
    else:
        text = "".join(traceback.format_exception(error))
        words = _last_words(comm, f"an exception in {title}", text)
    abort_with_words(comm, words, code or 1)


def _last_words(comm: MPI.Intracomm, cause: str, text: str) -> str:
    place = f"rank {comm.rank} of {comm.size} on {MPI.Get_processor_name()}"
    return f"mlsim: {place}: {cause} ends the run\n{text}"


def wait_until_read(file: int) -> None:
    """Wait up to a second until the other end of a pipe has read everything; OSError without such a file."""
    if not stat.S_ISFIFO(os.fstat(file).st_mode):
        return
    end = time.perf_counter() + _LONGEST
    unread = array("i", [1])
    while unread[0] > 0 and time.perf_counter() < end:
        fcntl.ioctl(file, termios.FIONREAD, unread)
        if unread[0]:
            time.sleep(_BETWEEN)
