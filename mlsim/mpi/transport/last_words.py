"""What a rank says before it ends all others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import sys
import termios
import time
import traceback
from collections.abc import Iterator

from mpi4py import MPI

from mlsim.errors import MlsimError

__all__ = ["abort_with_words", "ending_all", "wait_until_read"]

_LONGEST = 1.0
_BETWEEN = 1e-3


def abort_with_words(comm: MPI.Intracomm, text: str, code: int) -> None:
    """Print a text on the error stream, and end all ranks with an exit code once somebody has read it.

    A launcher that hears of the end stops forwarding what ranks have printed, and would lose the reason.
    """
    if text:
        sys.stderr.write(text)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        with contextlib.suppress(OSError, ValueError):  # a stream that was replaced or closed has no file
            wait_until_read(stream.fileno())
    comm.Abort(code)


@contextlib.contextmanager
def ending_all(comm: MPI.Intracomm) -> Iterator[None]:
    """End all ranks where this one fails in a way that nobody has foreseen: others would wait for ever.

    Errors for people are passed on, as is everything on a rank alone.
    """
    try:
        yield
    except MlsimError:
        raise
    except Exception:
        if comm.size == 1:
            raise
        place = f"rank {comm.rank} of {comm.size} on {MPI.Get_processor_name()}"
        abort_with_words(comm, f"mlsim: {place}: an internal error ends the run\n{traceback.format_exc()}", 1)


def wait_until_read(file: int) -> None:
    """Wait until the other end of a pipe has read all that was written, for a second at most.

    Raises
    ------
    OSError
        If there is no such file.
    """
    if not stat.S_ISFIFO(os.fstat(file).st_mode):
        return
    end = time.perf_counter() + _LONGEST
    while _unread(file) > 0 and time.perf_counter() < end:
        time.sleep(_BETWEEN)


def _unread(file: int) -> int:
    """Return how many bytes of a pipe nobody has read."""
    answer = fcntl.ioctl(file, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])
