"""The jobs of ESP, made smaller, their simulated twin, and the table of real and simulated makespans."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple, Self

import numpy as np

import mlsim
from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.profiles.counted_costs import MandelbrotImage, escape_counts
from mlsim.errors import InputError
from mlsim.scenario.words import ExecutionModel, Technique
from mlsim.workload.csv_log import write_csv
from mlsim.workload.esp_workload import EspApplication, esp
from mlsim.workload.log_fields import Header
from mlsim.workload.workload_jobs import JobBlock

_STEP = 5e-9
"""Seconds of one step of a pixel where iterations sleep: any would do, as the limits follow from it."""
_MOST_STEPS = 100_000_000
_LEAST_SECONDS = 0.05
_SLACK = 60.0


class Work(StrEnum):
    """Activity of the iterations of a job."""

    SLEEP = "sleep"
    COMPUTE = "compute"


@dataclass(frozen=True)
class Plan:
    """A trial."""

    nodes: int  # of the cluster; the sizes of the jobs follow
    scale: float  # factor of ESP's run times and times of arrival
    jobs: int  # number of the 230 that are submitted: the first, in order of arrival
    techniques: tuple[Technique, ...]  # of the loops; a run of the batch has one
    model: ExecutionModel = ExecutionModel.DCA
    repetitions: int = 1  # runs of each technique, without and with RCA
    size: int = 128  # width and height of the image, whose pixels are the iterations of a loop
    work: Work = Work.SLEEP  # whether iterations sleep, so that many nodes fit on few cores
    seed: int = 0  # of the order of arrivals
    half_width: float = 0.68  # of the shown window; the wider, the less balanced are equal chunks
    step: float = _STEP  # s, of one step of a pixel

    def checked(self) -> Self:
        """Return the plan; InputError for a wrong value."""
        most = len(esp(EspApplication.MANDELBROT).jobs)
        for option, value, makes_sense, allowed in (
            ("--nodes", self.nodes, self.nodes >= 2, "2 or more"),
            ("--scale", self.scale, 0.0 < self.scale < float("inf"), "more than 0"),
            ("--jobs", self.jobs, 1 <= self.jobs <= most, f"1 to {most}"),
            ("--repetitions", self.repetitions, self.repetitions >= 1, "1 or more"),
            ("--size", self.size, 8 <= self.size <= 1024, "8 to 1024"),
            ("--half-width", self.half_width, 0.1 <= self.half_width <= 2.0, "0.1 to 2"),
            ("--techniques", "none", bool(self.techniques), "one or more"),
        ):
            if not makes_sense:
                raise InputError(f"{option} {value}; allowed: {allowed}")
        shortest = min(job.run_time for job in jobs_of(self))
        if shortest < _LEAST_SECONDS:
            raise InputError(
                f"--scale {self.scale:g}: the shortest job would take {shortest:.2g} s, less than any job of "
                f"Slurm; allowed: {self.scale * _LEAST_SECONDS / shortest:.2g} or more"
            )
        return self

    def facts(self) -> dict[str, Any]:
        """Return the plan as values of JSON."""
        return {**asdict(self), "techniques": [str(technique) for technique in self.techniques]}


class Run(NamedTuple):
    """A run of the batch."""

    technique: Technique
    rca: bool
    number: int = 0  # repetition, from 1; 0 where it is simulated

    @property
    def name(self) -> str:
        """Name of its directory."""
        return f"{self.technique}-{'on' if self.rca else 'off'}" + (f"-{self.number}" if self.number else "")


@dataclass(frozen=True)
class Job:
    """A job of the batch; times in s, from the first submission."""

    number: int  # in the batch, from 1
    category: str  # ESP's letter
    submit: float
    run_time: float  # of its loop if it is perfectly balanced
    estimate: float  # its time limit in Slurm, whole minutes: twice the run time and a minute more
    nodes: int  # that it asks for


def jobs_of(plan: Plan) -> list[Job]:
    """Return the jobs of a batch in order of arrival."""
    block, header = esp(EspApplication.MANDELBROT, plan.nodes, seed=plan.seed)
    names = header["executable_names"]
    jobs = []
    for row in range(plan.jobs):
        run_time = float(block.run_time[row]) * plan.scale
        minutes = -(-(2.0 * run_time + _SLACK) // 60.0)
        category = names[int(block.executable[row]) - 1]
        submit, nodes = float(block.submit_time[row]) * plan.scale, int(block.processors[row])
        jobs.append(Job(row + 1, category, submit, run_time, 60.0 * minutes, nodes))
    return jobs


def costs_of(plan: Plan) -> dict[str, tuple[int, Floats]]:
    """Return, for each category of the batch, the limit of steps and the cost of every pixel [s]."""
    image = image_of(plan)
    work = {job.category: job.run_time * job.nodes for job in jobs_of(plan)}
    most = 2 * int(max(work.values()) / plan.step / image.size**2) + 2
    if most > _MOST_STEPS:
        raise InputError(
            f"--size {plan.size}: a pixel would have {most:,} steps; allowed: {_MOST_STEPS:,}; "
            "choose a larger one"
        )
    counts = escape_counts(image, most)
    limits = {category: _limit(counts, seconds / plan.step) for category, seconds in work.items()}
    found = {}
    for category, limit in limits.items():
        steps = np.minimum(counts, limit)
        found[category] = limit, steps.astype(np.float64) * (work[category] / float(steps.sum()))
    return found


def _limit(counts: Ints, steps: float) -> int:
    """Return the limit with which all pixels together have about this number of steps."""
    low, high = 1, int(counts.max())
    while low < high:
        middle = (low + high) // 2
        if float(np.minimum(counts, middle).sum()) < steps:
            low = middle + 1
        else:
            high = middle
    return low


def image_of(plan: Plan) -> MandelbrotImage:
    """Return the image whose pixels are the iterations."""
    width = plan.half_width
    return MandelbrotImage(plan.size, 4, -width, width, -width, width)


def loop_costs(plan: Plan) -> dict[str, Any]:
    """Return the section of a scenario with the costs of the iterations, except for their limit."""
    width = plan.half_width
    window = {f"{axis}_{end}": edge for axis in "xy" for end, edge in (("min", -width), ("max", width))}
    return {"profile": "mandelbrot", "parameters": {"size": plan.size, "window": window}}


def write_loop(plan: Plan, path: Path) -> None:
    """Write the scenario of the loop that jobs compute."""
    platform = {"nodes": [{"name": "node", "count": plan.nodes, "cores": 1}]}
    application = {"costs": {**loop_costs(plan), "unit_cost": plan.step}}
    path.write_text(
        json.dumps({"name": "esp", "platform": platform, "application": application}, indent=2) + "\n"
    )


def job_table(plan: Plan, limits: dict[str, int], launch: float = 0.0) -> tuple[JobBlock, Header]:
    """Return the batch as jobs of a workload, and the names of their categories.

    ``limits``: limit of steps per category; ``launch``: time that a job takes besides its iterations [s].
    """
    jobs = jobs_of(plan)
    names = list(dict.fromkeys(job.category for job in jobs))
    return JobBlock(
        job_id=np.array([job.number for job in jobs]),
        submit_time=np.array([job.submit for job in jobs]),
        run_time=np.array([job.run_time + launch for job in jobs]),
        walltime=np.array([job.estimate for job in jobs]),
        processors=np.array([job.nodes for job in jobs]),
        executable=np.array([names.index(job.category) + 1 for job in jobs]),
        loop_iterations=np.full(len(jobs), plan.size**2),
        loop_limit=np.array([limits[job.category] for job in jobs]),
    ), {"executable_names": names}


def write_costs(plan: Plan, directory: Path) -> dict[str, int]:
    """Write a file of costs for each category; return the limits of steps."""
    directory.mkdir(parents=True, exist_ok=True)
    limits = {}
    for category, (limit, costs) in costs_of(plan).items():
        np.save(directory / f"{category}.npy", costs)
        limits[category] = limit
    return limits


_WORKLOAD = "workload.csv"


def scenario_of(plan: Plan, run: Run) -> dict[str, Any]:
    """Return the scenario of a run: FCFS, jobs behind the head backfilled every second, as on the cluster."""
    return {
        "name": run.name,
        "platform": {"nodes": [{"name": "node", "count": plan.nodes, "cores": 1}]},
        "workload": {"path": _WORKLOAD, "mapping": "node"},
        "batch": {"policy": "FCFS", "backfill": "easy", "backfill_interval": "1 s", "on_overrun": "extend"},
        "application": {
            "model": "loop",
            "technique": str(run.technique),
            "costs": {**loop_costs(plan), "calibrate": "run-time"},
            "execution": {"model": str(plan.model)},
        },
        "coordination": {"rca": run.rca},
        "output": {"trace": "chunks"},
    }


def write_workload(plan: Plan, limits: dict[str, int], launch: float, directory: Path) -> Path:
    """Write the jobs that scenarios name, anew if they are there; see :func:`job_table`."""
    workload = directory / _WORKLOAD
    workload.unlink(missing_ok=True)
    write_csv(workload, *job_table(plan, limits, launch))
    return workload


def simulate(plan: Plan, run: Run, limits: dict[str, int], launch: float, out: Path) -> mlsim.Result:
    """Simulate the batch with a fixed overhead of ``launch`` seconds per job; write the run."""
    out.mkdir(parents=True, exist_ok=True)
    workload = write_workload(plan, limits, launch, out)
    content = scenario_of(plan, run)
    content["workload"]["path"] = str(workload)
    return mlsim.run(content, out=out / run.name)


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
