"""Word on standard error that kernels are being compiled, and the time that it took."""

from __future__ import annotations

import sys
import time

__all__ = ["announcer", "compile_seconds", "quiet"]


class _Announcer:
    """Announces once per process that kernels are being compiled, and sums up the time spent."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.quiet = False
        self._depth = 0
        self._began = 0.0
        self._told = False
        self._warned = False

    def begin(self) -> None:
        """Note that the compiler begins with a kernel, or with one that a kernel calls."""
        if self._depth == 0:
            self._began = time.perf_counter()
            if not self._told and not self.quiet:
                self._told = True
                print("Compiling kernels (once per machine, kept on disk) ...", file=sys.stderr, flush=True)
        self._depth += 1

    def end(self) -> None:
        """Note that it has ended."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began

    def cannot_keep(self, error: OSError) -> None:
        """Warn once that compiled kernels cannot be written to disk."""
        if not self._warned and not self.quiet:
            self._warned = True
            print(
                f"Compiled kernels cannot be kept ({error.strerror}); the next run compiles again",
                file=sys.stderr,
            )


announcer = _Announcer()


def compile_seconds() -> float:
    """Return the wall-clock seconds that this process spent compiling kernels (0: all from the cache)."""
    return announcer.seconds


def quiet() -> None:
    """Do not announce compilation on standard error."""
    announcer.quiet = True
