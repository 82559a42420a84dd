"""The programs of Slurm: their versions, calls, accounting, and job shrinking."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from mlsim._runtime.processes import call
from mlsim.errors import InputError, MlsimError

_PACKAGES = "Debian and its kin: apt-get install slurmctld slurmd slurm-client"
_SYSTEM_PLACES = "/usr/sbin:/sbin:/usr/local/sbin"
_SECONDS = 60.0


def find_program(name: str) -> str:
    """Return the path of a program; InputError if it is not installed."""
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
    """Call a program; return its output. MlsimError, with the end of it, on failure or timeout."""
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


_NOTHING: Mapping[str, int] = MappingProxyType({})
_UNKNOWN = ("", "(null)", "N/A", "Unknown")


def _name(text: str) -> str:
    return text.partition("(")[0]


_COLUMNS: dict[str, tuple[str, Callable[[str], str]]] = {
    "JobIDRaw": ("JobId", str),
    "Submit": ("SubmitTime", str),
    "Start": ("StartTime", str),
    "End": ("EndTime", str),
    "Elapsed": ("RunTime", str),
    "Timelimit": ("TimeLimit", str),
    "ReqCPUS": ("NumCPUs", str),
    "State": ("JobState", str),
    "User": ("UserId", _name),
    "Group": ("GroupId", _name),
    "Account": ("Account", str),
    "Partition": ("Partition", str),
    "QOS": ("QOS", str),
    "JobName": ("JobName", str),
    "NodeList": ("NodeList", str),
}
"""Columns of sacct, each with the field of scontrol and what is kept of it."""


def as_sacct(shown: str, released: Mapping[str, int] = _NOTHING) -> str:
    """Convert the output of ``scontrol --oneliner show job`` to the form of ``sacct --parsable2``.

    The controller knows the CPUs that jobs kept; ``released`` ones are added.

    Examples
    --------
    >>> print(as_sacct("JobId=7 JobName=a UserId=ada(1000) JobState=RUNNING RunTime=00:00:02"))
    JobIDRaw|Submit|Start|End|Elapsed|Timelimit|ReqCPUS|State|User|Group|Account|Partition|QOS|JobName|NodeList
    7||||00:00:02|||RUNNING|ada|||||a|
    <BLANKLINE>
    """
    lines = ["|".join(_COLUMNS)]
    for line in shown.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        if "JobId" in fields:
            given = released.get(fields["JobId"], 0)
            if given:
                fields["NumCPUs"] = str(int(fields["NumCPUs"]) + given)
            lines.append("|".join(_cell(fields, *column) for column in _COLUMNS.values()))
    return "\n".join(lines) + "\n"


def _cell(fields: dict[str, str], field: str, kept: Callable[[str], str]) -> str:
    text = fields.get(field, "")
    return "" if text in _UNKNOWN else kept(text).replace("|", "_")


_JOB, _NODE = re.compile(r"[0-9]+(_[0-9]+)?"), re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def give_back(job: str, node: str) -> str:
    """Release a node of a job; return a report. InputError, with the reason, if that is not possible."""
    if not _JOB.fullmatch(job) or not _NODE.fullmatch(node):
        raise InputError(
            f"job {job!r}, node {node!r}: not of Slurm; allowed: a job id and the name of a node"
        )
    scontrol = find_program("scontrol")
    try:
        told = called([scontrol, "--oneliner", "show", "job", job])
    except MlsimError as error:
        raise InputError(f"job {job}: {error}") from error
    known = dict(word.partition("=")[::2] for word in told.split())
    nodes = called([scontrol, "show", "hostnames", known.get("NodeList", "")]).split()
    if known.get("JobState") != "RUNNING" or node not in nodes:
        raise InputError(f"job {job}: does not run on {node} (state {known.get('JobState')}, nodes {nodes})")
    if len(nodes) < 2:
        raise InputError(f"job {job}: {node} is its last node")
    if node == known.get("BatchHost"):
        raise InputError(f"job {job}: its batch script runs on {node}; only the plugin can give it back")
    kept = ",".join(other for other in nodes if other != node)
    try:
        called([scontrol, "update", f"JobId={job}", f"NodeList={kept}"])
    except MlsimError as error:
        raise InputError(f"job {job}: {node} cannot be given back: {error}") from error
    return f"node {node} is free for other jobs, job {job} keeps {len(nodes) - 1}"
