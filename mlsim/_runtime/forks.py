"""Detection of forked processes that lack the threads of Polars, and the error for them.

Polars keeps its threads after first use. A fork copies the process without its threads, so waiting for
them in the child never ends.
"""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from mlsim.errors import InputError

_THREAD = re.compile(r"polars-\d+")
_threads = [False, False]
"""Whether Polars had threads in the process that was forked last, and whether this one lacks them."""


def check_fork() -> None:
    """Refuse to work in a process that lacks Polars' threads."""
    if _threads[1]:
        raise InputError(
            f"this process ({os.getpid()}) was forked from one that has used Polars already, such as by "
            "mlsim.run; its threads were not copied, and whatever needs them waits for ever. Start processes "
            'by spawn or forkserver: multiprocessing.get_context("spawn").Pool(), or '
            'ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
        )


def _before() -> None:
    _threads[0] = "polars" in sys.modules and _has_threads()


def _in_child() -> None:
    _threads[1] = _threads[1] or _threads[0]


def _has_threads() -> bool:
    """Whether Polars has started its threads; true where the system does not report threads."""
    names = []
    for file in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # a thread that has ended meanwhile
            names.append(file.read_text(errors="replace").strip())
    return not names or any(_THREAD.fullmatch(name) for name in names)


if hasattr(os, "register_at_fork"):  # not on Windows, which knows no fork
    os.register_at_fork(before=_before, after_in_child=_in_child)
