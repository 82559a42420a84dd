"""What a command takes: CPU seconds, wall-clock seconds and peak memory, with the processes it waited for.

A process begins with the peak memory of the one that made it, so a small one stands between: this file.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What a command took, or the least of several times."""

    cpu: float
    """User and system time [s]."""
    wall: float
    """Wall-clock time [s]."""
    peak: float
    """Largest resident set of any of its processes [MB]."""


class FailedError(Exception):
    """A command ended with another exit code than 0; the text is the end of what it said."""


def least(costs: Sequence[Cost]) -> Cost:
    """Return the least of each."""
    return Cost(
        min(cost.cpu for cost in costs), min(cost.wall for cost in costs), min(cost.peak for cost in costs)
    )


def measure(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, longest: float = math.inf
) -> Cost:
    """Run a command in a directory and return what it took; raise FailedError if it fails.

    It fails as well if one of its processes takes more CPU seconds than ``longest``.
    """

    def limit() -> None:
        if longest < math.inf:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(longest), resource.RLIM_INFINITY))

    with tempfile.TemporaryDirectory() as scratch:
        report, said = Path(scratch, "report"), Path(scratch, "said")
        between = [sys.executable, "-I", "-S", __file__, str(report), str(said), *command]
        subprocess.run(between, env=environment, cwd=directory, check=True, preexec_fn=limit)
        code, *found = json.loads(report.read_text())
        if code == -signal.SIGXCPU:
            raise FailedError(f"more than {longest:,.0f} CPU s")
        if code:
            raise FailedError("\n".join(said.read_text(errors="replace").splitlines()[-12:]))
    return Cost(*found)


def _between(report: str, said: str, *command: str) -> None:
    with open(said, "wb") as file:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    found = [child.returncode, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024]
    Path(report).write_text(json.dumps(found))


if __name__ == "__main__":
    _between(*sys.argv[1:])
