"""The whole ESP trial: real and simulated makespans side by side."""

import csv
import io
import json
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from tempfile import mkdtemp

import numpy as np

from mlsim._files import is_file, read_json
from mlsim.errors import InputError, MlsimError
from mlsim.experiment import Result
from mlsim.experiment.result_directories import complete_or_gone
from mlsim.experiment.run_directory import write_files
from mlsim.experiment.stored_runs import read_summary
from mlsim.mpi.loop_options import LoopOptions
from mlsim.scenario import from_mapping
from mlsim.slurm import esp_plan
from mlsim.slurm.esp_batch import Launch, execute, launch_of, records_of
from mlsim.slurm.esp_plan import Job, Plan, Run, Work
from mlsim.slurm.slurm_programs import Say
from mlsim.slurm.trial_cluster import Cluster, start

COLUMNS = (
    *("technique", "rca", "real makespan (s)", "least (s)", "largest (s)", "on/off"),
    *("simulated (s)", "simulated/real", "on/off simulated"),
    *("with launches (s)", "with launches/real", "on/off with launches", "nodes given back"),
)


@dataclass(frozen=True)
class Row:
    """A technique, without or with RCA; makespans in s."""

    technique: str
    rca: bool
    real: tuple[float, ...]  # of every repetition
    simulated: float  # where jobs take what their loops take
    launched: float  # where every job takes the measured launch time besides
    given_back: float  # nodes released in a real run, on average


def cells_of(rows: Sequence[Row]) -> list[Mapping[str, str | float | None]]:
    """Return the rows of the table, by :data:`COLUMNS`; on/off is that of means, None without RCA."""
    off = {row.technique: row for row in rows if not row.rca}
    table: list[Mapping[str, str | float | None]] = []
    for row in rows:
        real, without = mean(row.real), off.get(row.technique) if row.rca else None
        ratios: list[float | None] = [None, None, None]
        if without is not None:
            ratios = [
                *(real / mean(without.real), row.simulated / without.simulated),
                row.launched / without.launched,
            ]
        values: tuple[str | float | None, ...] = (
            *(row.technique, "on" if row.rca else "off", real, min(row.real), max(row.real), ratios[0]),
            *(row.simulated, row.simulated / real, ratios[1]),
            *(row.launched, row.launched / real, ratios[2], row.given_back),
        )
        table.append(dict(zip(COLUMNS, values, strict=True)))
    return table


def as_csv(rows: Sequence[Row]) -> str:
    """Return the table as text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for cells in cells_of(rows):
        writer.writerow(
            {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in cells.items()}
        )
    return text.getvalue()


_IDLE_SECONDS = 60.0
_SIMULATED = ("simulated", "simulated-with-launches")


@dataclass(frozen=True)
class Trial:
    """Results: a row per technique, without and with RCA, and the median launch time without RCA."""

    rows: list[Row]
    launch: Launch


def run_trial(plan: Plan, out: Path, say: Say = lambda _: None) -> Trial:
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
        bare, launched = (
            float(esp_plan.simulate(plan, Run(technique, rca), limits, after, out / name).summary["makespan"])
            for after, name in zip((0.0, launch.seconds), _SIMULATED, strict=True)
        )
        real = [summary for run, summary in found.items() if run[:2] == (technique, rca)]
        makespans = tuple(float(summary["makespan"]) for summary in real)
        released = mean(float((summary.get("coordination") or {}).get("releases") or 0) for summary in real)
        rows.append(Row(str(technique), rca, makespans, bare, launched, released))
    (out / "comparison.csv").write_text(as_csv(rows))
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
def _cluster(nodes: int, say: Say) -> Iterator[Cluster]:
    """Start a cluster for the block; its directory, with the logs, stays if something went wrong."""
    place = Path(mkdtemp(prefix="mlsim-esp-"))  # a short name, as names of sockets have to be
    try:
        cluster = start(place, nodes, say=say)
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
    from mlsim.analysis import summarize

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
    from mlsim.application.profiles.counted_costs import count_every_step

    limit, counts = 200_000, np.zeros(8, np.int64)
    inside = np.zeros(8)
    count_every_step(0.1, inside, 4, 10, counts)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        count_every_step(0.1, inside, 4, limit, counts)
        times.append(time.perf_counter() - begin)
    return min(times) / float(counts.sum())
