"""Run other simulators of batch scheduling beside mlsim on the same log: time, memory, and their schedules.

Usage: python tools/bench/peers.py [LOG] [--units N] [--jobs N] [--schedulers FCFS,EASY] [--peers mlsim,PYSS]
           [--pyss DIR] [--python2 PYTHON] [--accasim PYTHON] [--cqsim DIR] [--alea DIR] [--longest SECONDS]

LOG, or a drawn workload of 2,000 jobs, is normalised, so that all peers understand it alike: jobs that
fit the machine and have positive run times, in order of submission, numbered anew, asking for
max(requested, actual) time. Peers are looked for where the options say, or MLSIM_PYSS, MLSIM_PYTHON2,
MLSIM_ACCASIM, MLSIM_CQSIM and MLSIM_ALEA: directories of PYSS and CQSim as they are published, a Python 2.7
for PYSS, a Python that can import accasim (3.9 or before), and the directory Alea of Alea with what javac
made of its src in build/classes. The others are listed as not installed. Each runs as a command of its own,
from its start to its results written, three times, in turn; mlsim once more before, for its compiler. One
that takes more CPU seconds than --longest is stopped, and not run again. The figures are the least of three.
The mean wait is compared with that of the exact schedule: by the slow simulator of tests/reference, which
handles all that happens at one time before it starts a job.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from calendar import timegm
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import strptime

import numpy as np
import synthetic
from children import Cost, FailedError, least, measure

from mlsim.workload import Field, read_swf
from mlsim.workload.workload_jobs import JobBlock

ROOT = Path(__file__).resolve().parents[2]
REPEATS = 3
SCHEDULERS = ("FCFS", "EASY")


def normalised(columns: Mapping[Field, np.ndarray], units: int) -> JobBlock:
    """Take the jobs that every peer understands alike; times are whole seconds from the first submission."""
    asked = columns[Field.REQUESTED_PROCESSORS]
    processors = np.where(asked > 0, asked, columns[Field.ALLOCATED_PROCESSORS])
    run = np.rint(columns[Field.RUN_TIME])
    taken = (processors >= 1) & (processors <= units) & (run >= 1)
    submit, run, processors = columns[Field.SUBMIT_TIME][taken], run[taken], processors[taken]
    walltime = np.maximum(np.ceil(columns[Field.REQUESTED_TIME][taken]), run)
    order = np.argsort(submit, kind="stable")
    submit = np.rint(submit - submit.min())
    return synthetic.block(submit[order], run[order], walltime[order], processors[order].astype(np.int64))


def exact_starts(jobs: JobBlock, units: int, scheduler: str) -> dict[int, float]:
    """Simulate with the reference; return the start of every job by its number."""
    sys.path.insert(0, str(ROOT))
    from tests.reference.batch import Job, ReferenceBatchSystem

    columns = (jobs.job_id, jobs.submit_time, jobs.run_time, jobs.walltime, jobs.processors)
    twins = [Job(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    ReferenceBatchSystem(units, scheduler == "EASY").run(twins)
    return {job.id: float(job.start or 0.0) for job in twins}


def mean_wait(starts: Mapping[int, float], jobs: JobBlock) -> float:
    """Return the mean wait [s]; every job must have started once."""
    numbers = jobs.job_id.tolist()
    if sorted(starts) != numbers:
        raise FailedError(f"{len(starts):,} jobs have a start, and not {len(numbers):,}")
    return float((np.array([starts[number] for number in numbers]) - jobs.submit_time).mean())


@dataclass(frozen=True)
class Task:
    """What a peer is to simulate, and where it may write."""

    log: Path
    units: int
    scheduler: str
    scratch: Path
    longest: float


class Peer(ABC):
    """A simulator that runs as a command and leaves the starts of jobs.

    Attributes
    ----------
    name
        What the table calls it.
    options
        Of Python, or Java, with which it is as fast as its authors mean it to be.
    warm_up
        Whether a first run does not count.
    """

    name: str
    options: tuple[str, ...] = ()
    warm_up = False

    def run(self, task: Task) -> Cost:
        """Simulate, and measure it."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return measure(self.command(task), environment, task.scratch, task.longest)

    @abstractmethod
    def command(self, task: Task) -> list[str]:
        """Return the command that simulates; write what it reads."""

    @abstractmethod
    def starts(self, task: Task) -> dict[int, float]:
        """Read when jobs started, by number [s]."""


class PythonPeer(Peer):
    """A simulator that is called from Python.

    Attributes
    ----------
    script
        What calls it; its arguments are of :meth:`arguments`.
    """

    script: str

    def __init__(self, python: str) -> None:
        self.python = python

    def command(self, task: Task) -> list[str]:
        """Write the script."""
        program = task.scratch / "program.py"
        program.write_text(self.script)
        return [self.python, *self.options, str(program), *self.arguments(task)]

    @abstractmethod
    def arguments(self, task: Task) -> list[str]:
        """Return the arguments of the script; write what else it reads."""


class Mlsim(PythonPeer):
    """The mlsim of this Python, with its tables written and its pictures left out."""

    name = "mlsim"
    warm_up = True
    script = "from mlsim.cli.main import main; main()\n"

    def arguments(self, task: Task) -> list[str]:
        """Write a scenario."""
        scenario = {
            "platform": {"nodes": [{"name": "n", "count": task.units, "cores": 1}]},
            "workload": {"path": str(task.log), "mapping": "node"},
            "batch": {"policy": "FCFS", "backfill": "easy" if task.scheduler == "EASY" else "none"},
            "output": {"pictures": "off"},
        }
        file = task.scratch / "scenario.yaml"
        file.write_text(json.dumps(scenario))
        return ["run", str(file), "--out", str(task.scratch / "run")]

    def starts(self, task: Task) -> dict[int, float]:
        """Read jobs.parquet."""
        import polars as pl

        table = pl.read_parquet(task.scratch / "run" / "jobs.parquet", columns=["job_id", "start_time"])
        return dict(table.iter_rows())


class Pyss(PythonPeer):
    """PYSS (Python Scheduler Simulator, Hebrew University): Python 2."""

    name = "PYSS"
    options = ("-O",)  # its source advises so: its assertions take most of the time
    script = """
import sys
sys.path.insert(0, sys.argv[1] + "/src")
from base.workload_parser import parse_lines
from base.prototype import _job_inputs_to_jobs
from schedulers.simulator import run_simulator
from schedulers.fcfs_scheduler import FcfsScheduler
from schedulers.easy_scheduler import EasyBackfillScheduler
units = int(sys.argv[3])
scheduler = {"FCFS": FcfsScheduler, "EASY": EasyBackfillScheduler}[sys.argv[4]](units)
done = run_simulator(units, _job_inputs_to_jobs(parse_lines(open(sys.argv[2])), units), scheduler)
with open(sys.argv[5], "w") as out:
    for job in done.terminated_jobs:
        out.write("%d %d\\n" % (job.id, job.start_to_run_at_time))
"""

    def __init__(self, python: str, directory: Path) -> None:
        super().__init__(python)
        self.directory = directory

    def arguments(self, task: Task) -> list[str]:
        """Name directory, log, units, scheduler and the file of starts."""
        out = task.scratch / "starts"
        return [str(self.directory), str(task.log), str(task.units), task.scheduler, str(out)]

    def starts(self, task: Task) -> dict[int, float]:
        """Read what the script wrote."""
        lines = (task.scratch / "starts").read_text().splitlines()
        return {int(number): float(start) for number, start in map(str.split, lines)}


class AccaSim(PythonPeer):
    """AccaSim (Galleguillos et al.): one node of one core for every unit, first-fit."""

    name = "AccaSim"
    script = """
import sys
from accasim.base.simulator_class import Simulator
from accasim.base.scheduler_class import FirstInFirstOut, EASYBackfilling
from accasim.base.allocator_class import FirstFit
log, system, scheduler, out = sys.argv[1:]
dispatcher = {"FCFS": FirstInFirstOut, "EASY": EASYBackfilling}[scheduler](FirstFit())
simulator = Simulator(log, system, dispatcher, RESULTS_FOLDER_PATH=out, show_statistics=False)
simulator.start_simulation()
"""

    def arguments(self, task: Task) -> list[str]:
        """Write the description of the machine; AccaSim reads walltimes from the log."""
        system = {
            "groups": {"g": {"core": 1}},
            "resources": {"g": task.units},
            "start_time": 0,
            "equivalence": {"processor": {"core": 1}},
        }
        file = task.scratch / "system.json"
        file.write_text(json.dumps(system))
        return [str(task.log), str(file), task.scheduler, str(task.scratch / "accasim")]

    def starts(self, task: Task) -> dict[int, float]:
        """Read the schedule: `number;user;submission__nodes__start;end;...`, times as dates since 1970."""
        found = {}
        for line in (task.scratch / "accasim" / f"sched-{task.log.name}").read_text().splitlines():
            start = line.split("__")[2].split(";")[0]
            found[int(line.split(";")[0])] = float(timegm(strptime(start, "%Y-%m-%d %H:%M:%S")))
        return found


class CqSim(PythonPeer):
    """CQSim (Illinois Institute of Technology, University of Illinois Chicago), without its window."""

    name = "CQSim"
    script = """
import sys
directory, log, scheduler, out = sys.argv[1:]
sys.path.insert(0, directory + "/src")
import cqsim_main
folder, name = log.rsplit("/", 1)
cqsim_main.cqsim_main({
    "path_in": folder + "/", "job_trace": name, "node_struc": name,
    "path_fmt": out + "/formatted/", "path_out": out + "/results/", "path_debug": out + "/debug/",
    "job_save": "jobs", "node_save": "nodes", "output": "out", "debug": "debug",
    "ext_fmt_j": ".csv", "ext_fmt_j_c": ".con", "ext_fmt_n": ".csv", "ext_fmt_n_c": ".con",
    "ext_si": ".ult", "ext_ai": ".adp", "ext_jr": ".rst", "ext_debug": ".log", "debug_lvl": 0,
    "log_freq": 1, "read_input_freq": 1000, "monitor": 500,
    "start": -1.0, "read_num": -1, "anchor": 0, "cluster_fraction": 1.0,
    "backfill": {"FCFS": 0, "EASY": 1}[scheduler], "bf_para": [],
    "win": 0, "win_para": ["5", "0", "0"], "ad_win_para": [],
    "alg": ["w", "+", "2"], "alg_sign": [1, 0, 1], "ad_alg_para": [],
})
"""

    def __init__(self, python: str, directory: Path) -> None:
        super().__init__(python)
        self.directory = directory

    def arguments(self, task: Task) -> list[str]:
        """Name directory, log, scheduler and where to write."""
        return [str(self.directory), str(task.log), task.scheduler, str(task.scratch / "cqsim")]

    def starts(self, task: Task) -> dict[int, float]:
        """Read the results: `id;proc;proc;walltime;run;wait;submit;start;end`."""
        lines = (task.scratch / "cqsim" / "results" / "out.rst").read_text().splitlines()
        return {int(words[0]): float(words[7]) for words in (line.split(";") for line in lines)}


class Alea(Peer):
    """Alea 4 (Klusáček et al., CESNET), of Java: one machine with as many CPUs as there are units, no memory.

    With RAM, or with a machine for every unit, it ends in an exception amid the log and waits for ever.
    """

    name = "Alea"
    options = ("-Djava.awt.headless=true",)

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def command(self, task: Task) -> list[str]:
        """Write the machine and the configuration, of which all but what is given here stays as published."""
        (task.scratch / f"{task.log.name}.machines").write_text(f"0\tcluster\t1\t{task.units}\t1\t1048576\n")
        (task.scratch / task.log.name).symlink_to(task.log)
        jobs = sum(not line.startswith(";") for line in task.log.read_text().splitlines())
        changed = {
            "data_sets": task.log.name,
            "data_set_dir": str(task.scratch),
            "total_gridlet": str(jobs),
            "first_arrival": "0",
            "algorithms": {"FCFS": "0", "EASY": "2"}[task.scheduler],
            "estimate": "true",
            "use_RAM": "false",
        }
        published = (self.directory / "configuration.properties").read_text().splitlines()
        lines = [
            f"{key}={changed[key]}" if (key := line.split("=")[0].strip()) in changed else line
            for line in published
        ]
        (task.scratch / "configuration.properties").write_text("\n".join(lines))
        path = [self.directory / "build" / "classes", *sorted((self.directory / "lib").glob("*.jar"))]
        program = "xklusac.environment.ExperimentSetup"
        return ["java", *self.options, "-cp", os.pathsep.join(map(str, path)), program]

    def starts(self, task: Task) -> dict[int, float]:
        """Read its results, of which the wait is that of our log; its clock begins some seconds later."""
        (results,) = task.scratch.glob("results/*/*/*/jobs_*_estim_bez.csv")
        heads, *rows = (
            [word.strip().replace(",", ".") for word in line.split("\t")]
            for line in results.read_text().splitlines()
        )
        number, wait = heads.index("job_ID"), heads.index("wait")
        log = read_swf(task.log)[1].columns
        submitted = dict(zip(log[Field.JOB_ID].tolist(), log[Field.SUBMIT_TIME].tolist(), strict=True))
        return {int(row[number]): submitted[int(row[number])] + float(row[wait]) for row in rows}


def installed(given: argparse.Namespace) -> dict[str, Peer | None]:
    """Make the peers that are there; None for those that are not."""
    python2 = (
        given.python2
        if given.python2 and _runs(given.python2, "import sys; 1 / (sys.version_info < (3,))")
        else None
    )
    pyss = given.pyss and Path(given.pyss, "src", "run_simulator.py").is_file() and python2
    cqsim = given.cqsim and Path(given.cqsim, "src", "cqsim_main.py").is_file()
    accasim = given.accasim or sys.executable
    alea = given.alea and Path(given.alea, "build", "classes", "xklusac").is_dir() and shutil.which("java")
    return {
        "mlsim": Mlsim(sys.executable),
        "PYSS": Pyss(python2, Path(given.pyss).resolve()) if pyss else None,
        "AccaSim": AccaSim(accasim) if _runs(accasim, "import accasim.base.simulator_class") else None,
        "CQSim": CqSim(sys.executable, Path(given.cqsim).resolve()) if cqsim else None,
        "Alea": Alea(Path(given.alea).resolve()) if alea else None,
    }


def _runs(python: str, code: str) -> bool:
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def compare(peers: Mapping[str, Peer], jobs: JobBlock, units: int, scheduler: str, longest: float) -> None:
    """Run the peers in turn; print a row of each."""
    exact = mean_wait(exact_starts(jobs, units, scheduler), jobs)
    print(f"\n{scheduler}, {len(jobs.job_id):,} jobs, {units:,} units; exact mean wait {exact:,.2f} s")
    print(
        f"{'':10} {'CPU s':>9} {'wall s':>9} {'peak MB':>8} {'mean wait s':>14} {'difference s':>13}",
        flush=True,
    )
    costs: dict[str, list[Cost]] = {name: [] for name in peers}
    waits: dict[str, float] = {}
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="mlsim-peers-") as directory:
        log = Path(directory, "log.swf")
        synthetic.write(jobs, units, log)
        for repeat in range(-1, REPEATS):
            for name, peer in peers.items():
                if name in failures or (repeat < 0 and not peer.warm_up):
                    continue
                with tempfile.TemporaryDirectory(dir=directory) as scratch:
                    task = Task(log, units, scheduler, Path(scratch), longest)
                    try:
                        cost = peer.run(task)
                        waits[name] = mean_wait(peer.starts(task), jobs)
                    except FailedError as error:
                        failures[name] = str(error).splitlines()[-1]
                        continue
                if repeat >= 0:
                    costs[name].append(cost)
    for name in peers:
        print(
            f"{name:10} failed: {failures[name]}"
            if name in failures
            else row(name, costs[name], waits[name], exact)
        )


def row(name: str, costs: list[Cost], wait: float, exact: float) -> str:
    """Make a row of the table."""
    cost = least(costs)
    difference = wait - exact
    told = "none" if abs(difference) < 0.005 else f"{difference:+,.2f}"
    return f"{name:10} {cost.cpu:9.2f} {cost.wall:9.2f} {cost.peak:8.0f} {wait:14,.2f} {told:>13}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, nargs="?", metavar="LOG")
    parser.add_argument("--units", type=int, metavar="N", help="default: MaxProcs, else MaxNodes, of LOG")
    parser.add_argument("--jobs", type=int, metavar="N", help="only the first so many")
    parser.add_argument("--schedulers", default=",".join(SCHEDULERS), metavar="WORDS")
    parser.add_argument("--peers", metavar="NAMES", help="only these")
    python, directory = ("python2", "accasim"), ("pyss", "cqsim", "alea")
    for option, what in [(one, "PYTHON") for one in python] + [(one, "DIR") for one in directory]:
        parser.add_argument(f"--{option}", metavar=what, default=os.environ.get(f"MLSIM_{option.upper()}"))
    parser.add_argument("--longest", type=float, default=600.0, metavar="SECONDS", help="CPU s of a run")
    given = parser.parse_args()
    if unknown := set(given.schedulers.split(",")) - set(SCHEDULERS):
        parser.error(f"unknown scheduler {unknown.pop()}; there are {', '.join(SCHEDULERS)}")
    return given


def _jobs(given: argparse.Namespace) -> tuple[JobBlock, int]:
    if given.log is None:
        units = given.units or 256
        return synthetic.workload(given.jobs or 2_000, units, 0.9), units
    header, whole = read_swf(given.log, lenient=True)
    units = given.units or int(str(header.get("MaxProcs") or header.get("MaxNodes") or 0))
    if not units:
        sys.exit(f"{given.log} does not say how large the machine is: give --units")
    columns = {field: whole.columns[field][: given.jobs] for field in Field}
    return normalised(columns, units), units


def main() -> None:
    given = _arguments()
    jobs, units = _jobs(given)
    found = installed(given)
    wanted = given.peers.split(",") if given.peers else list(found)
    if unknown := [name for name in wanted if name not in found]:
        sys.exit(f"unknown peer {unknown[0]}; there are {', '.join(found)}")
    for name in wanted:
        if found[name] is None:
            print(f"{name}: not installed")
    peers = {name: peer for name in wanted if (peer := found[name])}
    for scheduler in given.schedulers.split(","):
        compare(peers, jobs, units, scheduler, given.longest)


if __name__ == "__main__":
    main()
