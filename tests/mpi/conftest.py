"""Starts programs on several ranks, under every MPI that is here."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from mlsim.mpi.launch import Launcher, environment_to_start, find_launchers

PROGRAMS = Path(__file__).parent / "programs"
REPOSITORY = Path(__file__).resolve().parent.parent.parent
HARD_LIMIT = 150.0
collect_ignore_glob = ["programs/*"]  # they are started with mpiexec


@dataclass(frozen=True)
class Done:
    """What a program left: exit code, output, seconds until its end, counted from a line ``now <time>``."""

    code: int
    out: str
    err: str
    seconds: float


Run = Callable[..., Done]


def find(name: str) -> Launcher:
    """Give a launcher, or skip the test with the reason."""
    if find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed: pip install 'mlsim[mpich]'")
    launchers = find_launchers()
    if name == "any" and launchers:
        return next(iter(launchers.values()))
    if name not in launchers:
        pytest.skip(f"no mpiexec of {name} here (found: {', '.join(launchers) or 'none'})")
    return launchers[name]


def execute(launcher: Launcher, ranks: int, program: str, *words: str, **environment: str) -> Done:
    """Run a program of this directory; fail if it takes too long."""
    command = [*launcher.with_ranks(ranks).words, sys.executable, str(PROGRAMS / program), *words]
    with environment_to_start(launcher) as inherited:
        # Open MPI gives ranks a terminal, on which Numba ends a process with an escape sequence for colours.
        inherited |= {"NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}
        inherited |= {"PYTHONPATH": str(REPOSITORY), **environment}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=inherited
        )
        try:
            out, err = process.communicate(timeout=HARD_LIMIT)
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate(timeout=20)
            pytest.fail(f"{program} {words} on {ranks} ranks hangs:\n{out}\n{err}")
    ended = time.time()
    stamps = [float(line.split()[1]) for line in out.splitlines() if line.startswith("now ")]
    return Done(process.returncode, out, err, ended - stamps[0] if stamps else 0.0)


@pytest.fixture(params=["mpich", "openmpi"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    """Every MPI that is here."""
    return find(request.param)


@pytest.fixture
def any_launcher() -> Launcher:
    """One MPI, whichever."""
    return find("any")
