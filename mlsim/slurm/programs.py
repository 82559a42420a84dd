"""The programs of Slurm: where they are, which version, and how they are called."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlsim._processes import call
from mlsim.errors import InputError, MlsimError

__all__ = ["called", "find_program", "installed_version", "plugin_directory"]

_PACKAGES = "Debian and its kin: apt-get install slurmctld slurmd slurm-client"
_SYSTEM_PLACES = "/usr/sbin:/sbin:/usr/local/sbin"
_SECONDS = 60.0


def find_program(name: str) -> str:
    """Return the path of a program.

    Raises
    ------
    InputError
        If it is not installed.
    """
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM_PLACES)
    if found is None:
        raise InputError(f"{name}: not found; {_PACKAGES}")
    return found


def installed_version() -> str:
    """Return the version of the installed controller, such as ``22.05.8``."""
    text = called([find_program("slurmctld"), "-V"])
    found = re.search(r"(\d+\.\d+\.\d+)", text)
    if found is None:
        raise MlsimError(f"slurmctld -V: no version in {text.strip()!r}")
    return found.group(1)


def plugin_directory() -> Path:
    """Return the directory of Slurm's own plugins; the controller's library lies there."""
    text = called(["ldd", find_program("slurmctld")])
    found = re.search(r"libslurmfull\.so\S* => (\S+)", text)
    if found is None:
        raise MlsimError("ldd slurmctld: no libslurmfull.so; the plugins of this Slurm cannot be found")
    return Path(found.group(1)).parent


def called(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    seconds: float = _SECONDS,
    text: str | None = None,
) -> str:
    """Call a program; return what it printed.

    Raises
    ------
    MlsimError
        If it fails or takes too long; with the end of what it said.
    """
    try:
        content = None if text is None else text.encode()
        done = call(command, seconds, environment=environment, directory=directory, content=content)
    except TimeoutError as error:
        raise MlsimError(f"{' '.join(command)}: {error}") from error
    except OSError as error:
        raise MlsimError(f"{command[0]}: cannot be started: {error.strerror}") from error
    if done.code:
        said = (done.err or done.out).strip().splitlines()[-8:]
        raise MlsimError(f"{' '.join(command)}: exit code {done.code}\n" + "\n".join(said))
    return done.out
