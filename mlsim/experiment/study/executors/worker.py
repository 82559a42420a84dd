"""A process that does tasks for another one, which sends them through a pipe."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection

__all__ = ["serve"]

_DEATH_OF_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""


def serve() -> None:
    """Do tasks as they come, some at a time, until the pipe is closed."""
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    _end_with(parent)
    for number in (signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
        signal.signal(number, signal.SIG_IGN)  # whoever started this process ends it
    from mlsim import _jit, _matplotlib

    _jit.quiet()
    _matplotlib.leave_out_documentation()
    from mlsim.experiment.study.executing import execute

    connection = Connection(descriptor)
    while True:
        try:
            tasks = connection.recv()
        except EOFError:
            return
        connection.send([execute(task) for task in tasks])


def _end_with(parent: int) -> None:
    """Have the system end this process when its parent ends, however that comes about; on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_OF_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
