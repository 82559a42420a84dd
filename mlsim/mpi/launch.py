"""Starting MPI programs from the command line, on a laptop or by a cluster's own launcher."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from mlsim.errors import InputError, MlsimError

__all__ = ["Launcher", "environment_to_start", "find_launchers", "launch", "launcher_of"]

_VARIABLE = "MLSIM_MPIEXEC"
_OPEN_MPI_SESSIONS = "OMPI_MCA_orte_tmpdir_base"
_OPEN_MPI = {"MPI4PY_MPIABI": "openmpi"}
_SECONDS_TO_END_ALONE, _SECONDS_TO_END = 1.0, 5.0


@dataclass(frozen=True)
class Launcher:
    """How to start ranks."""

    name: str
    """``mpich`` or ``openmpi``; ``given`` if the user gave the words."""
    words: tuple[str, ...]
    """The command, before the program."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that make mpi4py load the MPI that belongs to it."""

    def with_ranks(self, ranks: int) -> Launcher:
        """Return the launcher that starts this number of ranks."""
        return Launcher(self.name, (*self.words, "-n", str(ranks)), self.environment)


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
        printed = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = printed.stdout + printed.stderr
    if "HYDRA" in text or "MPICH" in text:
        environment = {}
        library = Path(path).parent.parent / "lib" / "libmpi.so.12"
        if library.exists():  # else it is where the system looks
            environment["MPI4PY_LIBMPI"] = str(library)
        return Launcher("mpich", (path,), environment)
    if "OpenRTE" in text or "Open MPI" in text:
        root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        return Launcher("openmpi", (path, *root, "--oversubscribe"), _OPEN_MPI)
    return None


def launcher_of(words: Sequence[str], ranks: int) -> Launcher:
    """Return the launcher that the user names, or the first one found, with this number of ranks.

    Parameters
    ----------
    words
        The user's, such as ``srun -N 4``; empty to choose.
    ranks
        Number of ranks where the user names no launcher.

    Raises
    ------
    InputError
        If there is none, or mpi4py is missing.
    """
    from importlib.util import find_spec

    if find_spec("mpi4py") is None:
        raise InputError("mpi4py is missing; install it with: pip install 'mlsim[mpi]'")
    if words:
        if shutil.which(words[0]) is None:
            raise InputError(f"{words[0]}: no such command; give a launcher such as mpiexec -n 8, or srun")
        known = _recognized(words[0]) if "mpi" in Path(words[0]).name else None
        return Launcher("given", tuple(words), {} if known is None else known.environment)
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
    """Run a Python program on all ranks.

    Parameters
    ----------
    launcher
        How.
    program
        What follows ``python``.
    timeout
        Seconds after which it is ended; None: never.
    quiet
        Whether to capture and return standard output; standard error is always shown.

    Raises
    ------
    MlsimError
        If it fails; it has said why.
    """
    command = [*launcher.words, sys.executable, *program]
    output = subprocess.PIPE if quiet else None
    with (
        environment_to_start(launcher) as environment,
        subprocess.Popen(command, env=environment, stdout=output, text=True) as process,
    ):
        try:
            printed, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            _end(process)
            if isinstance(error, subprocess.TimeoutExpired):
                words = " ".join(launcher.words)
                raise MlsimError(f"{words}: not done after {timeout} s, and ended") from error
            raise
    if process.returncode != 0:
        raise MlsimError(f"{' '.join(launcher.words)}: the run ended with exit code {process.returncode}")
    return printed or ""


def _end(process: subprocess.Popen[str]) -> None:
    """End a launcher, which ends its ranks and clears up after them, if it is given the time.

    A Ctrl-C in a terminal has reached it as well.
    """
    for seconds, end in ((_SECONDS_TO_END_ALONE, process.terminate), (_SECONDS_TO_END, process.kill)):
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            end()
    process.communicate()
