"""The whole ESP trial: the batch executed by jobs of a trial cluster, its records, and its simulated twin."""

import json
import os
import secrets
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mlsim import record
from mlsim._files import is_file, read_json, read_text
from mlsim.analysis import summarize
from mlsim.application.profiles.counted_costs import count_every_step
from mlsim.errors import InputError, MlsimError
from mlsim.experiment import Result
from mlsim.experiment.result_directories import complete_or_gone
from mlsim.experiment.run_directory import write_files
from mlsim.experiment.stored_runs import read_summary
from mlsim.mpi.loop_columns import RealLoop, read_loop
from mlsim.mpi.loop_options import LoopOptions
from mlsim.mpi.rca import wire
from mlsim.scenario import from_mapping
from mlsim.slurm import esp_plan, slurm_programs, trial_cluster
from mlsim.slurm.esp_plan import Job, Plan, Run, Work
from mlsim.slurm.trial_cluster import Cluster

_LOOK_EVERY = 0.3
_LOOK_FOR_OTHERS = 0.01
_REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Seen:
    """Observations of a job; times in s since 1970."""

    job: Job
    number: str  # in Slurm
    submitted: float  # begin of its submission
    started: float  # first line of its script
    ended: float  # last line of its script
    nodes: tuple[str, ...]  # names of those that it got
    columns: Path  # file with the records of its loop


def execute(
    cluster: Cluster, plan: Plan, jobs: list[Job], run: Run, limits: dict[str, int], place: Path
) -> list[Seen]:
    """Submit jobs as they arrive, and wait until all have ended; if one fails, cancel the others."""
    work = place / "jobs"
    work.mkdir(parents=True)
    environment = {
        wire.ADDRESS: cluster.address if run.rca else "",
        wire.SECRET: secrets.token_hex(32) if run.rca else "",
        "PYTHONPATH": os.pathsep.join([str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    numbers: dict[int, tuple[str, float]] = {}
    try:
        began = time.time()
        for job in jobs:
            time.sleep(max(began + job.submit - time.time(), 0.0))
            submitted = time.time()
            script = work / f"{job.number}.sh"
            script.write_text(_script(plan, job, run, limits[job.category], place))
            numbers[job.number] = _submit(cluster, job, script, environment), submitted
            _refuse_failures(jobs, work)
        while waiting := cluster.call("squeue", "--noheader", "--format", "%j: %r").splitlines():
            _refuse_failures(jobs, work)
            held = [line for line in waiting if "held" in line.casefold()]
            if held:
                raise MlsimError(
                    f"Slurm has put a job on hold, {held[0]}; its logs are in {cluster.place}/log"
                )
            time.sleep(_LOOK_EVERY)
        _refuse_failures(jobs, work)
    except BaseException:
        cluster.cancel_jobs()
        raise
    return list(_seen(cluster, jobs, numbers, work))


def _submit(cluster: Cluster, job: Job, script: Path, environment: dict[str, str]) -> str:
    options = [f"--nodes={job.nodes}", f"--time={round(job.estimate / 60.0)}", f"--job-name={job.category}"]
    out = script.with_suffix(".out")
    return cluster.call(
        "sbatch", "--parsable", f"--output={out}", *options, str(script), environment=environment
    ).strip()


def _script(plan: Plan, job: Job, run: Run, limit: int, place: Path) -> str:
    work = place / "jobs" / str(job.number)
    words = [sys.executable, "-m", *_application(plan, job, limit, place)]
    words += ["--technique", run.technique, "--model", plan.model, "--columns", f"{work}.npz"]
    words += ["--option", f"break_after={_pieces(plan, job)}"]
    return "\n".join(
        [
            "#!/bin/sh",
            f'echo "$(date +%s.%N) $SLURM_JOB_NODELIST" > {shlex.quote(f"{work}.start")}',
            f"srun --mpi=pmi2 {shlex.join(words)}",
            "code=$?",
            f'echo "$(date +%s.%N) $code" > {shlex.quote(f"{work}.end")}',
            "exit $code",
            "",
        ]
    )


def _pieces(plan: Plan, job: Job) -> int:
    """Return the iterations after which rank 0 looks for messages.

    Ranks on different nodes of Slurm share no memory: atomics wait until rank 0 calls MPI.
    """
    return max(round(_LOOK_FOR_OTHERS * plan.size**2 / (job.run_time * job.nodes)), 1)


def _application(plan: Plan, job: Job, limit: int, place: Path) -> list[str]:
    if plan.work is Work.SLEEP:
        return ["mlsim.mpi.apps.synthetic", "--costs", str(place / "costs" / f"{job.category}.npy")]
    image = ["--scenario", str(place / "loop.yaml"), "--size", str(plan.size)]
    return ["mlsim.mpi.apps.mandelbrot", *image, "--limit", str(limit), "--every-step"]


def _refuse_failures(jobs: list[Job], work: Path) -> None:
    for job in jobs:
        end = work / f"{job.number}.end"
        if is_file(end):
            words = read_text(end, "end of a job").split()
            if len(words) == 2 and words[1] != "0":
                raise _failure(job, work, f"exit code {words[1]}")


def _failure(job: Job, work: Path, what: str) -> MlsimError:
    out = work / f"{job.number}.out"
    said = read_text(out, "output of a job").strip().splitlines()[-8:] if is_file(out) else []
    return MlsimError("\n".join([f"job {job.number} (category {job.category}): {what}", *said]))


def _seen(
    cluster: Cluster, jobs: list[Job], numbers: dict[int, tuple[str, float]], work: Path
) -> Iterator[Seen]:
    names: dict[str, tuple[str, ...]] = {}
    for job in jobs:
        if not is_file(work / f"{job.number}.end"):
            raise _failure(job, work, "Slurm has ended it before its script was done")
        started, text = read_text(work / f"{job.number}.start", "start of a job").split()
        ended = read_text(work / f"{job.number}.end", "end of a job").split()[0]
        if text not in names:
            names[text] = tuple(cluster.call("scontrol", "show", "hostnames", text).split())
        number, submitted = numbers[job.number]
        columns = work / f"{job.number}.npz"
        yield Seen(job, number, submitted, float(started), float(ended), names[text], columns)


_ONE_PASS = 0.5
Table = TypeVar("Table", record.Chunks, record.Loops, record.PEs)


class Launch(NamedTuple):
    """Times of jobs besides their loops; medians in s."""

    before: float  # first line of the script to the loop's first request: processes, MPI, Python start
    after: float  # end of the loop to the last line of the script
    between: float  # last line of a script to the first of the next one on that node, if jobs waited

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.before + self.after + self.between


def records_of(seen: Sequence[Seen], said: Sequence[Mapping[str, Any]], nodes: int) -> record.Records:
    """Return the records of a run with jobs in order of arrival; ``said``: the plugin's since the first."""
    origin = seen[0].submitted
    loops = [read_loop(one.columns) for one in seen]
    by_start = sorted(range(len(seen)), key=lambda row: (loops[row].began, row))
    return record.Records(
        nodes=record.Nodes(
            [f"node{k + 1}" for k in range(nodes)], ["node"] * nodes, np.ones(nodes, np.int64), np.ones(nodes)
        ),
        jobs=_jobs(seen, origin),
        names=record.Names({"executable": dict(enumerate(_categories(seen), 1))}),
        occupancy=_occupancy(seen, said, origin),
        loops=_joined(record.Loops, loops, range(len(seen)), origin),
        chunks=_joined(record.Chunks, loops, by_start, origin),
        pes=_joined(record.PEs, loops, by_start, origin),
        messages=_messages(seen, said, origin),
    )


def launch_of(seen: Sequence[Seen], nodes: int) -> Launch:
    """Return what jobs take besides their loops."""
    loops = [read_loop(one.columns) for one in seen]
    began = np.array([loop.began for loop in loops])
    ended = began + [float(loop.pes.told.max()) for loop in loops]
    before = began - [one.started for one in seen]
    after = np.array([one.ended for one in seen]) - ended
    gaps = _gaps(seen, nodes)
    return Launch(float(np.median(before)), float(np.median(after)), float(np.median(gaps)) if gaps else 0.0)


def _gaps(seen: Sequence[Seen], nodes: int) -> list[float]:
    """Return the time between jobs of one node, where the second waited for nothing but such a node."""
    gaps = []
    for node in range(nodes):
        here = sorted((one for one in seen if f"node{node + 1}" in one.nodes), key=lambda one: one.started)
        for one, following in pairwise(here):
            waited = following.submitted < one.ended < following.started
            if waited and len(following.nodes) == 1:
                gaps.append(following.started - one.ended)
    return gaps


def _occupancy(seen: Sequence[Seen], said: Sequence[Mapping[str, Any]], origin: float) -> record.Occupancy:
    """Return the stays of jobs on nodes, each until the node was released."""
    released = {
        (str(row["job"]), row["node"]): float(row["time"]) for row in said if row["event"] == "released"
    }
    stays = []
    for row, one in enumerate(seen):
        for name in one.nodes:
            at = released.get((one.number, name))
            early = at is not None and at < one.ended
            end = at if at is not None and early else one.ended
            stays.append((one.started - origin, row, _node(name), end - origin, early))
    start, job, node, ends, is_released = map(np.array, zip(*sorted(stays), strict=True))
    ones = np.ones(len(stays), np.int64)
    return record.Occupancy(
        job=job, node=node, count=ones, cores=ones.copy(), start=start, end=ends, released=is_released
    )


def _node(name: str) -> int:
    return int(name.removeprefix("node")) - 1


def _jobs(seen: Sequence[Seen], origin: float) -> record.Jobs:
    jobs = [one.job for one in seen]
    unknown = np.full(len(jobs), -1, np.int64)
    nodes = np.array([len(one.nodes) for one in seen], np.int64)
    start = np.array([one.started - origin for one in seen])
    latest_before = np.maximum.accumulate(np.concatenate([[-np.inf], start[:-1]]))
    estimate = np.array([job.estimate for job in jobs])
    return record.Jobs(
        job_id=np.array([job.number for job in jobs]),
        submit_time=np.array([one.submitted - origin for one in seen]),
        start_time=start,
        end_time=np.array([one.ended - origin for one in seen]),
        walltime=estimate,
        prediction=estimate.copy(),
        log_run_time=np.array([job.run_time for job in jobs]),
        processors=np.array([job.nodes for job in jobs]),
        cores=nodes,
        working=nodes.copy(),
        state=np.full(len(jobs), record.JobState.COMPLETED, np.int8),
        # Jobs that started while one before them waited; scripts of one pass do not begin in its order.
        backfilled=latest_before > start + _ONE_PASS,
        user=unknown,
        group=unknown.copy(),
        executable=np.array([_categories(seen).index(job.category) + 1 for job in jobs]),
        queue=unknown.copy(),
        partition=unknown.copy(),
    )


def _categories(seen: Sequence[Seen]) -> list[str]:
    return list(dict.fromkeys(one.job.category for one in seen))


_TIMES = {record.Chunks: ("requested", "start", "end"), record.PEs: ("finish", "told"), record.Loops: ()}
"""Columns that are times of day; the others are numbers, or lengths of time."""


def _joined(table: type[Table], loops: Sequence[RealLoop], order: Sequence[int], origin: float) -> Table:
    """Concatenate the tables of loops, in the given order."""
    parts = [getattr(loops[row], table.__name__.lower()) for row in order]
    lengths = [len(part.job) for part in parts]
    shifts = np.repeat([loops[row].began - origin for row in order], lengths)
    columns = {
        column.name: np.concatenate([getattr(part, column.name) for part in parts])
        for column in fields(table)
        if column.default is MISSING
    }
    columns["job"] = np.repeat(np.array(order, np.int64), lengths)
    for name in _TIMES[table]:
        columns[name] = columns[name] + shifts
    return table(**columns)


def _messages(seen: Sequence[Seen], said: Sequence[Mapping[str, Any]], origin: float) -> record.Messages:
    """Return the messages about idle nodes that the controller took, in order of sending."""
    row_of = {one.number: row for row, one in enumerate(seen)}
    rows = sorted(
        (float(entry["sent"]) - origin, float(entry["time"]) - origin, row_of[number], _node(entry["node"]))
        for entry in said
        if entry["event"] == "released" and (number := str(entry["job"])) in row_of
    )
    sent, received, job, node = np.array(rows, np.float64).reshape(-1, 4).T
    count = len(rows)
    return record.Messages(
        kind=np.full(count, record.MessageKind.NODE_IDLE, np.int8),
        job=job.astype(np.int64),
        node=node.astype(np.int64),
        sent=sent,
        received=received,
        nodes=np.ones(count, np.int64),
        for_job=np.full(count, -1, np.int64),
        remaining_iterations=np.zeros(count, np.int64),
        remaining_work=np.zeros(count),
    )


_IDLE_SECONDS = 60.0
_SIMULATED = ("simulated", "simulated-with-launches")


@dataclass(frozen=True)
class Trial:
    """Results: a row per technique, without and with RCA, and the median launch time without RCA."""

    rows: list[esp_plan.Row]
    launch: Launch


def run_trial(plan: Plan, out: Path, say: slurm_programs.Say = lambda _: None) -> Trial:
    """Execute the batch on a trial cluster, and simulate it; existing runs of the same plan are kept.

    ``out`` receives a directory per run (``TECHNIQUE-off-1``), simulated ones, and ``comparison.csv``.
    """
    plan = plan.checked()
    for technique in plan.techniques:
        LoopOptions(n=plan.size**2, technique=str(technique), model=plan.model).checked()
    if plan.work is Work.COMPUTE:
        plan = replace(plan, step=_step_seconds())
    plan = _kept_plan(plan, out)
    limits = esp_plan.write_costs(plan, out / "costs")
    esp_plan.write_loop(plan, out / "loop.yaml")
    runs = [
        Run(technique, rca, number)
        for number in range(1, plan.repetitions + 1)
        for technique in plan.techniques
        for rca in (False, True)
    ]
    missing = [run for run in runs if not is_file(out / run.name / "summary.json")]
    if missing:
        with _cluster(plan.nodes, say) as cluster:
            say("one job on all nodes, by which kernels are compiled")
            _warm_up(cluster, plan, out)
            for done, run in enumerate(missing, 1):
                say(f"run {done} of {len(missing)}: {run.name}")
                _execute(cluster, plan, limits, out, run)
    launch_keys = tuple(f"slurm.launch.{name}" for name in Launch._fields)
    found = {
        run: read_summary(out / run.name / "summary.json", ("makespan", *(() if run.rca else launch_keys)))
        for run in runs
    }
    launches = [Launch(**one["slurm"]["launch"]) for run, one in found.items() if not run.rca]
    launch = Launch(*map(statistics.median, zip(*launches, strict=True)))
    for name in _SIMULATED:  # of earlier calls, which may have seen fewer runs
        shutil.rmtree(out / name, ignore_errors=True)
    rows = []
    for technique, rca in product(plan.techniques, (False, True)):
        say(f"simulating {technique}, RCA {'on' if rca else 'off'}")
        twin = Run(technique, rca)
        bare, launched = (
            float(esp_plan.simulate(plan, twin, limits, after, out / name).summary["makespan"])
            for after, name in zip((0.0, launch.seconds), _SIMULATED, strict=True)
        )
        real = [summary for run, summary in found.items() if run[:2] == (technique, rca)]
        makespans = tuple(float(summary["makespan"]) for summary in real)
        releases = [float((summary.get("coordination") or {}).get("releases") or 0) for summary in real]
        rows.append(esp_plan.Row(str(technique), rca, makespans, bare, launched, statistics.mean(releases)))
    (out / "comparison.csv").write_text(esp_plan.as_csv(rows))
    return Trial(rows, launch)


def _kept_plan(plan: Plan, out: Path) -> Plan:
    """Note the plan in the directory; it must be that of the trial that was begun there."""
    path = out / "plan.json"
    if is_file(path):
        before = read_json(path, "plan of a trial")
        same = {key: value for key, value in before.items() if key != "step"}
        if {key: value for key, value in plan.facts().items() if key != "step"} != same:
            raise InputError(
                f"{out}: holds a trial of another plan (plan.json); give --out another directory"
            )
        return replace(plan, step=float(before["step"]))
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: is there, and holds no trial; give --out another directory")
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plan.facts(), indent=2) + "\n")
    return plan


@contextmanager
def _cluster(nodes: int, say: slurm_programs.Say) -> Iterator[Cluster]:
    """Start a cluster for the block; its directory, with the logs, stays if something went wrong."""
    place = Path(tempfile.mkdtemp(prefix="mlsim-esp-"))  # a short name, as names of sockets have to be
    try:
        cluster = trial_cluster.start(place, nodes, say=say)
    except InputError:  # nothing has been started, and there are no logs
        shutil.rmtree(place)
        raise
    try:
        yield cluster
    finally:
        cluster.down()
    shutil.rmtree(place)


def _warm_up(cluster: Cluster, plan: Plan, out: Path) -> None:
    """Execute a short loop on all nodes: what is compiled then need not be in the batch."""
    np.save(out / "costs" / "warm-up.npy", np.full(plan.size**2, 1e-6))
    job = Job(0, "warm-up", 0.0, 1e-6 * plan.size**2 / plan.nodes, 600.0, plan.nodes)
    shutil.rmtree(out / "jobs", ignore_errors=True)
    execute(cluster, plan, [job], Run(plan.techniques[0], False), {"warm-up": 10}, out)
    shutil.rmtree(out / "jobs")


def _execute(cluster: Cluster, plan: Plan, limits: dict[str, int], out: Path, run: Run) -> None:
    """Execute the batch once, and write a run directory."""
    until = time.monotonic() + _IDLE_SECONDS
    while cluster.idle_nodes() < cluster.nodes:
        if time.monotonic() > until:
            raise MlsimError(f"the nodes of the trial cluster are not idle after {_IDLE_SECONDS:g} s")
        time.sleep(0.1)
    scenario = from_mapping(esp_plan.scenario_of(plan, run), run.name)
    shutil.rmtree(out / "jobs", ignore_errors=True)
    seen = execute(cluster, plan, esp_plan.jobs_of(plan), run, limits, out)
    records = records_of(seen, cluster.said(), plan.nodes)
    summary = summarize(records, scenario=run.name, seed=plan.seed, technique=str(run.technique))
    version = cluster.call("scontrol", "--version").strip()
    launch = launch_of(seen, plan.nodes)
    summary["slurm"] = {"real": True, "version": version, "launch": launch._asdict()}
    with complete_or_gone(out / run.name, done=True) as place:
        write_files(place, place.partial, Result(scenario, summary, records))
        esp_plan.write_workload(plan, limits, 0.0, place.partial)  # that which scenario.yaml names
    shutil.rmtree(out / "jobs")


def _step_seconds() -> float:
    """Measure a step of a pixel [s]: the least of three."""
    limit, counts = 200_000, np.zeros(8, np.int64)
    inside = np.zeros(8)
    count_every_step(0.1, inside, 4, 10, counts)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        count_every_step(0.1, inside, 4, limit, counts)
        times.append(time.perf_counter() - begin)
    return min(times) / float(counts.sum())
