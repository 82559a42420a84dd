"""Word on standard error that kernels are being compiled, where it takes long, and the time that it took."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["PATIENCE", "Announcer", "announcer", "compile_seconds", "compiling", "quiet"]

PATIENCE = 2.0
"""Seconds of compiling, all in all, that nobody is told of."""


class Announcer:
    """Announces once per process that kernels are being compiled, if it takes long; sums up the time spent.

    A command that needs a kernel or two has it in less than a second, and nobody wants to know. Who waits
    for longer is told, while the compiler is still at work: by a timer, as nothing else can speak then.

    Parameters
    ----------
    clock
        Return the time in seconds.
    timer
        Make what calls a function after some seconds, unless it is cancelled.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self.seconds = 0.0
        self.quiet = False
        self._clock, self._timer = clock, timer
        self._depth = 0
        self._began = 0.0
        self._told = False
        self._warned = False
        self._waiting: threading.Timer | None = None

    def begin(self) -> None:
        """Note that the compiler begins with a kernel, or with one that a kernel calls."""
        if self._depth == 0:
            self._began = self._clock()
            if not self._told and not self.quiet:
                self._waiting = self._timer(max(PATIENCE - self.seconds, 0.0), self._tell)
                self._waiting.daemon = True
                self._waiting.start()
        self._depth += 1

    def end(self) -> None:
        """Note that it has ended."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += self._clock() - self._began
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting.join()  # it is no more when the command looks whether it may end
                self._waiting = None

    def _tell(self) -> None:
        if not self._told and not self.quiet:
            self._told = True
            print("Compiling kernels (once per machine, kept on disk) ...", file=sys.stderr, flush=True)

    def cannot_keep(self, reason: str) -> None:
        """Warn once that compiled kernels are not written to disk."""
        self._warn(f"Compiled kernels cannot be kept ({reason}); the next run compiles again")

    def cannot_use(self, path: Path, reason: str) -> None:
        """Warn once that a kept kernel, or a directory of them, is not used."""
        self._warn(f"{path}: {reason}; it is not used, and kernels are compiled anew where need be")

    def _warn(self, text: str) -> None:
        if not self._warned and not self.quiet:
            self._warned = True
            print(text, file=sys.stderr, flush=True)


announcer = Announcer()


@contextmanager
def compiling() -> Iterator[None]:
    """Count as compiling, in this block, what Numba compiles of a user's code on behalf of a run."""
    from numba.core import event

    with event.install_listener("numba:compile", _listener()):
        yield


@cache
def _listener() -> Any:
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:  # noqa: ARG002 - the listener's signature
            announcer.begin()

        def on_end(self, event: Any) -> None:  # noqa: ARG002 - the listener's signature
            announcer.end()

    return Listener()


def compile_seconds() -> float:
    """Return the wall-clock seconds that this process spent compiling kernels (0: all from the cache)."""
    return announcer.seconds


def quiet() -> None:
    """Do not announce compilation on standard error."""
    announcer.quiet = True
