"""A Slurm of n nodes on one machine."""

import json
import os
import secrets
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from pwd import getpwuid
from typing import Any, NamedTuple, Self

from mlsim._files import is_file, read_bytes, read_json, read_text
from mlsim._runtime.processes import start as start_process
from mlsim.errors import InputError, MlsimError
from mlsim.slurm import slurm_programs

_STATE = "cluster.json"
_STEP = "slurmstepd"
_MOST_NODES = 64
_LONGEST_SOCKET, _MOST_LETTERS = "spool/{node}/{node}_4294967295.4294967295", 107
_UP_SECONDS, _DOWN_SECONDS = 30.0, 15.0
_PORTS = range(20000, 31000, 100)

_SLURM_CONF = """\
# Written by mlsim slurm cluster up, for a trial on one machine: it trusts every user of the machine.
ClusterName=mlsim
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
FirstJobId={first_job}
SlurmctldPidFile={place}/run/slurmctld.pid
SlurmdPidFile={place}/run/slurmd.%n.pid
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool/%n
SlurmctldLogFile={place}/log/slurmctld.log
SlurmdLogFile={place}/log/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={place}/log/jobcomp.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
MinJobAge=3600
SlurmdTimeout=0
PropagateResourceLimits=NONE
PluginDir={plugins}
{plugstack}NodeName=node[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 \
RealMemory=500 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP
"""

_RCA_CONF = """\
# Written by mlsim slurm cluster up.
Listen=127.0.0.1:{rca}
{auth}
Ask={ask}
AskInterval=200
ReleaseBatchHost=yes
Records={place}/log/rca.jsonl
"""


@dataclass(frozen=True)
class Cluster:
    """A trial cluster."""

    place: Path  # its directory
    nodes: int
    address: str  # `HOST:PORT` of the plugin, empty without it
    processes: dict[int, str]  # number and start time of each daemon, which together identify it

    @classmethod
    def at(cls, place: Path) -> Self:
        """Return the cluster of a directory; InputError if there is none."""
        try:
            kept = read_json(place / _STATE, "trial cluster")
            processes = {int(pid): begun for pid, begun in kept["processes"].items()}
            return cls(place.resolve(), kept["nodes"], kept["address"], processes)
        except (InputError, AttributeError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{place}: no trial cluster there; start one: mlsim slurm cluster up --dir {place}"
            ) from error

    @property
    def conf(self) -> Path:
        """Its slurm.conf."""
        return self.place / "slurm.conf"

    @property
    def records(self) -> Path:
        """Log of the plugin's actions, requests and refusals; one JSON object per line."""
        return self.place / "log" / "rca.jsonl"

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which Slurm's commands talk to it."""
        return {"SLURM_CONF": str(self.conf)}

    def call(self, program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """Call one of Slurm's commands; return what it printed."""
        return slurm_programs.called(
            [slurm_programs.find_program(program), *arguments], {**self.environment, **(environment or {})}
        )

    @property
    def running(self) -> list[int]:
        """Daemons that still run."""
        return [pid for pid, begun in self.processes.items() if begun and _begun(pid) == begun]

    def idle_nodes(self) -> int:
        """Return how many nodes are idle; 0 while the controller does not answer."""
        try:
            text = self.call("sinfo", "-h", "-t", "idle", "-o", "%D").strip()
        except MlsimError:
            return 0
        return int(text or 0)

    def cancel_jobs(self) -> None:
        """Cancel all jobs of this user."""
        self.call("scancel", "--user", _user())

    def said(self) -> list[dict[str, Any]]:
        """Return what the plugin has recorded, in order."""
        if not is_file(self.records):  # without the plugin, or before its first line
            return []
        return [json.loads(line) for line in read_text(self.records, "records of nodes").splitlines()]

    def released(self) -> dict[str, int]:
        """Return the number of nodes, of one CPU each, that every job has released."""
        return dict(Counter(str(row["job"]) for row in self.said() if row["event"] == "released"))

    def down(self) -> None:
        """Cancel all jobs, and end the daemons and their descendants, but no other process of the user."""
        ours = self._of_jobs()
        if self.running:
            try:
                self.cancel_jobs()
                _wait(lambda: not self._of_jobs(), 5.0)
            except MlsimError:
                pass  # the controller does not answer: its processes are ended below all the same
        ours |= self._of_jobs()
        self._end({pid: begun for pid, begun in self.processes.items() if begun})
        self._end(ours | self._of_jobs())  # steps outlive their daemon
        (self.place / _STATE).unlink(missing_ok=True)

    def _end(self, processes: Mapping[int, str]) -> None:
        """End processes, given by number and start time: another one may have the number by now."""

        def left() -> list[int]:
            return [pid for pid, begun in processes.items() if _begun(pid) == begun]

        for number, seconds in ((signal.SIGTERM, _DOWN_SECONDS), (signal.SIGKILL, 5.0)):
            for pid in left():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue  # it has ended meanwhile
            _wait(lambda: not left(), seconds)

    def _of_jobs(self) -> dict[int, str]:
        """Return the steps that our daemons have started, and what runs in them: number and start time."""
        numbers = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
        found = {pid: process for pid in numbers if (process := _process(pid)) is not None}
        steps = [pid for pid, process in found.items() if process.name == _STEP and self._is_ours(pid)]
        children: dict[int, list[int]] = {}
        for process in found.values():
            children.setdefault(process.parent, []).append(process.pid)
        ours: dict[int, str] = {}
        while steps:
            pid = steps.pop()
            ours[pid] = found[pid].begun
            steps += children.get(pid, ())
        return ours

    def _is_ours(self, pid: int) -> bool:
        """Whether a step was started by a daemon with our slurm.conf, which it inherits."""
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            return False
        return f"SLURM_CONF={self.conf}".encode() in variables


def start(
    place: Path,
    nodes: int,
    plugin: bool = True,
    ask: bool = False,
    munge: Path | None = None,
    say: slurm_programs.Say = lambda _: None,
) -> Cluster:
    """Start a cluster of ``nodes`` nodes with one CPU each, and wait until all are idle.

    ``place``: new directory for configuration, state and logs. ``plugin``, ``ask``: whether the controller
    has the RCA plugin, and whether it requests nodes of running applications. ``munge``: socket of a munge
    daemon by which the plugin identifies senders; None: by the jobs' secrets. ``say`` receives each long
    step.
    """
    if not 1 <= nodes <= _MOST_NODES:
        raise InputError(f"--nodes {nodes}; allowed: 1 to {_MOST_NODES}")
    place = place.resolve()
    if (place / _STATE).exists():
        if Cluster.at(place).running:
            raise InputError(f"{place}: a cluster runs there; mlsim slurm cluster down --dir {place}")
        (place / _STATE).unlink()
    programs = {
        name: slurm_programs.find_program(name)
        for name in ("slurmctld", "slurmd", "srun", "sbatch", "scontrol")
    }
    slurm_programs.installed_version()
    longest = len(str(place / _LONGEST_SOCKET.format(node=f"node{nodes}")))
    if longest > _MOST_LETTERS:
        raise InputError(
            f"--dir {place}: {longest - _MOST_LETTERS} letters too long: slurmd makes sockets in it, whose "
            f"names may have {_MOST_LETTERS} letters in all; choose a directory nearer to the root"
        )
    library = slurm_programs.build_plugin(say=say) if plugin else None
    port = _free_ports(nodes + 2)
    _write_files(place, nodes, port, library, ask, munge)
    cluster = Cluster(place, nodes, f"127.0.0.1:{port + nodes + 1}" if plugin else "", {})
    say(f"starting {nodes} nodes")
    try:
        _start_daemons(cluster, programs)
    except BaseException:
        cluster.down()
        raise
    return cluster


def _write_files(
    place: Path, nodes: int, port: int, library: Path | None, ask: bool, munge: Path | None
) -> None:
    for name in ("run", "state", "log", "plugins", *(f"spool/node{i + 1}" for i in range(nodes))):
        (place / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    own = slurm_programs.plugin_directory()
    plugins = f"{own}:{place}/plugins" if library else str(own)
    if library:
        shutil.copyfile(library, place / "plugins" / slurm_programs.NAME)
    values = {
        "place": place,
        "user": _user(),
        "nodes": nodes,
        "port": port,
        "first": port + 1,
        "last": port + nodes,
        "rca": port + nodes + 1,
        # MPI libraries name files in shared memory by the job; of a killed job they stay.
        "first_job": 10_000 + secrets.randbelow(50_000_000),
        "plugins": plugins,
        "plugstack": "SlurmctldPlugstack=rca\n" if library else "",
        "ask": "head-of-queue" if ask else "never",
        "auth": f"Auth=munge\nMungeSocket={munge}" if munge else "Auth=secret",
    }
    (place / "slurm.conf").write_text(_SLURM_CONF.format(**values))
    (place / "rca.conf").write_text(_RCA_CONF.format(**values))


def _start_daemons(cluster: Cluster, programs: Mapping[str, str]) -> None:
    names = [f"node{i + 1}" for i in range(cluster.nodes)]
    commands = {"slurmctld": [programs["slurmctld"], "-D", "-c", "-f", str(cluster.conf)]}
    commands |= {name: [programs["slurmd"], "-D", "-N", name, "-f", str(cluster.conf)] for name in names}
    for name, command in commands.items():
        with (cluster.place / "log" / f"{name}.out").open("wb") as out:
            process = start_process(
                command,
                environment=cluster.environment,
                directory=cluster.place,
                out=out,
                err=out,
                session=True,
            )
        cluster.processes[process.pid] = _begun(process.pid)
    (cluster.place / _STATE).write_text(json.dumps({**asdict(cluster), "place": str(cluster.place)}))
    _wait(lambda: cluster.idle_nodes() == cluster.nodes or len(cluster.running) < len(commands), _UP_SECONDS)
    if cluster.idle_nodes() != cluster.nodes:
        said = []
        for file in sorted((cluster.place / "log").glob("*")):
            lines = read_bytes(file, "log").decode(errors="replace").splitlines()
            faults = [line for line in lines if "error" in line or "fatal" in line]
            said += [f"{file.name}: {line}" for line in faults[-3:]]
        raise MlsimError("the trial cluster did not come up\n" + "\n".join(said))


def _wait(done: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        time.sleep(0.05)


class _Process(NamedTuple):
    """System information on a process; ``begun`` is its start time in the system's own count."""

    pid: int
    name: str
    parent: int
    begun: str


def _process(pid: int) -> _Process | None:
    """Return the system information on a process; None if there is none, or a zombie."""
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    return None if fields[0] in "ZX" else _Process(pid, head.partition("(")[2], int(fields[1]), fields[19])


def _begun(pid: int) -> str:
    """Return when a process was started; empty if there is none, or a zombie."""
    process = _process(pid)
    return "" if process is None else process.begun


def _user() -> str:
    """Return the name of this process' user, which Slurm wants."""
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError as error:
        raise InputError(
            f"user {os.getuid()} has no name on this system, and Slurm wants one; add one to /etc/passwd"
        ) from error


def _free_ports(count: int) -> int:
    """Return the first of some consecutive free ports."""
    first = secrets.randbelow(len(_PORTS))
    for shift in range(len(_PORTS)):
        port = _PORTS[(first + shift) % len(_PORTS)]
        try:
            for i in range(count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + i))
        except OSError:
            continue
        return port
    raise MlsimError(f"no {count} free ports in a row between {_PORTS[0]} and {_PORTS[-1]}")
