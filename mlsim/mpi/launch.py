"""Launch of MPI programs from the command line, on a laptop or by a cluster's own launcher."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Self

from mlsim._runtime.processes import PIPE, Process, TimeoutExpired, call, end, has_children, has_ended, start
from mlsim.errors import InputError, MlsimError

_VARIABLE = "MLSIM_MPIEXEC"
_OPEN_MPI_SESSIONS = "OMPI_MCA_orte_tmpdir_base"
_OPEN_MPI = {"MPI4PY_MPIABI": "openmpi"}
_SECONDS_TO_END_ALONE, _SECONDS_TO_END = 1.0, 5.0
_BETWEEN_LOOKS, _MOST_LOOKS = 1.0, 3
"""Seconds between looks at a launcher; looks in a row at one that has started nothing."""
_SLURM_JOB = ("SLURM_JOB_ID", "SLURM_JOBID")
_HOW_HYDRA_STARTS = ("HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER")


@dataclass(frozen=True)
class Launcher:
    """Command and environment that start ranks."""

    name: str  # ``mpich`` or ``openmpi``; ``given`` if the user gave the words
    words: tuple[str, ...]  # the command, before the program
    environment: dict[str, str] = field(default_factory=dict)  # makes mpi4py load the MPI that belongs to it
    hydra: bool = False  # MPICH's, which starts ranks by other programs, such as srun within a job of Slurm's

    def with_ranks(self, ranks: int) -> Self:
        """Return the launcher that starts this number of ranks."""
        return replace(self, words=(*self.words, "-n", str(ranks)))


@cache
def find_launchers() -> dict[str, Launcher]:
    """Find the MPIs of this machine, by name: the wheel's, and those on the path."""
    found: dict[str, Launcher] = {}
    beside = Path(sys.executable).parent
    places = [os.environ.get(_VARIABLE), str(beside / "mpiexec"), "/usr/bin/mpiexec", shutil.which("mpiexec")]
    for place in places:
        if place and (path := shutil.which(place)):
            launcher = _recognized(path)
            if launcher is not None:
                found.setdefault(launcher.name, launcher)
    return found


def _recognized(path: str) -> Launcher | None:
    try:
        printed = call([path, "--version"], 20.0)
    except OSError:
        return None
    text = printed.out + printed.err
    if "HYDRA" in text or "MPICH" in text:
        environment = {}
        library = Path(path).parent.parent / "lib" / "libmpi.so.12"
        if library.exists():  # else it is where the system looks
            environment["MPI4PY_LIBMPI"] = str(library)
        return Launcher("mpich", (path,), environment, hydra=True)
    if "OpenRTE" in text or "Open MPI" in text:
        root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        return Launcher("openmpi", (path, *root, "--oversubscribe"), _OPEN_MPI)
    return None


def launcher_of(words: Sequence[str], ranks: int) -> Launcher:
    """Return the launcher that the user names, such as ``srun -N 4``, or else the first one found.

    ``ranks`` is their number unless the user's words set it. Raises InputError without a launcher or mpi4py.
    """
    from importlib.util import find_spec

    if find_spec("mpi4py") is None:
        raise InputError("mpi4py is missing; install it with: pip install 'mlsim[mpi]'")
    if words:
        if shutil.which(words[0]) is None:
            raise InputError(f"{words[0]}: no such command; give a launcher such as mpiexec -n 8, or srun")
        known = _recognized(words[0]) if "mpi" in Path(words[0]).name else None
        return replace(known or Launcher("given", ()), name="given", words=tuple(words))
    for launcher in find_launchers().values():
        return launcher.with_ranks(ranks)
    raise InputError(
        "no mpiexec found; install one with: pip install 'mlsim[mpich]', or give the site's launcher after "
        "--, such as -- srun"
    )


@contextmanager
def environment_to_start(launcher: Launcher) -> Iterator[dict[str, str]]:
    """Yield the variables to start a launcher with, as long as it runs.

    Under Open MPI each launch has a directory of its own for its sessions, unless the user has named one: of
    two launchers of version 4 that start at once, one may find that the other has just made the common
    directory, and fail with "mkdir: File exists" (open-mpi/ompi, issue 8510).
    """
    environment = {**os.environ, **launcher.environment}
    if _OPEN_MPI.items() <= launcher.environment.items() and _OPEN_MPI_SESSIONS not in environment:
        with tempfile.TemporaryDirectory(prefix="mlsim-", ignore_cleanup_errors=True) as sessions:
            yield environment | {_OPEN_MPI_SESSIONS: sessions}
    else:
        yield environment


def launch(
    launcher: Launcher, program: Sequence[str], timeout: float | None = None, quiet: bool = False
) -> str:
    """Run a Python program on all ranks; ``program`` is what follows ``python``.

    ``timeout`` ends it [s; None: never]. With ``quiet`` standard output is returned; standard error is always
    shown. Raises MlsimError if the program fails, after it has printed the reason, or starts no ranks.
    """
    command = [*launcher.words, sys.executable, "-P", *program]  # -P: no modules of the current directory
    words = " ".join(launcher.words)
    with environment_to_start(launcher) as environment:
        try:
            process = start(command, environment=environment, out=PIPE if quiet else None)
        except OSError as error:
            raise MlsimError(f"{words}: cannot be started: {error.strerror}") from error
        with process:
            try:
                printed = _printed(process, launcher, timeout)
            except BaseException:
                # It ends its ranks and clears up if given time; a Ctrl-C has reached it as well.
                if not has_ended(process, _SECONDS_TO_END_ALONE):
                    end(process, _SECONDS_TO_END)
                raise
    if process.returncode != 0:
        raise MlsimError(f"{words}: the run ended with exit code {process.returncode}")
    return printed


def _printed(process: Process[bytes], launcher: Launcher, timeout: float | None) -> str:
    """Wait until a launcher has ended; return what was printed where that is captured."""
    until = float("inf") if timeout is None else time.monotonic() + timeout
    looks = 0
    while True:
        try:
            printed, _ = process.communicate(timeout=max(min(_BETWEEN_LOOKS, until - time.monotonic()), 0.0))
            return printed.decode(errors="replace") if printed else ""
        except TimeoutExpired as error:
            words = " ".join(launcher.words)
            if time.monotonic() >= until:
                raise MlsimError(f"{words}: not done after {timeout} s, and ended") from error
            looks = looks + 1 if _by_srun(launcher) and not has_children(process.pid) else 0
            if looks >= _MOST_LOOKS:
                process.kill()
                raise MlsimError(f"{words}: no rank was started: {_SRUN_FAILED}") from error


_SRUN_FAILED = (
    "srun has failed, by which mpiexec starts ranks where SLURM_JOB_ID is set. To start them on this "
    "machine, set HYDRA_BOOTSTRAP=fork in the environment, or end the command with "
    "`-- mpiexec -launcher fork -n 2`"
)


def _by_srun(launcher: Launcher) -> bool:
    """Whether a launcher starts ranks by Slurm's command, and waits for them if that has failed."""
    told = {"-launcher", "--launcher", "-bootstrap", "--bootstrap"} & set(launcher.words)
    in_job = any(name in os.environ for name in _SLURM_JOB)
    return (
        launcher.hydra and in_job and not told and not any(name in os.environ for name in _HOW_HYDRA_STARTS)
    )
