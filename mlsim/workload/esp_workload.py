"""The ESP workload: 230 jobs of 14 categories."""

from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload.models.model_base import read_rows
from mlsim.workload.workload_jobs import JobBlock, NamedJobs, numbered_by_appearance

TABLE_NODES = 256
PIXELS = 512 * 512
FIXED_G_LIMIT = 10_000_000
FULL_SIZE = "Z"


class EspApplication(StrEnum):
    """The loop that the jobs execute."""

    PSIA = "psia"
    MANDELBROT = "mandelbrot"


class EspCalibration(StrEnum):
    """The source of the run times."""

    TARGET = "target"
    NONE = "none"


class Category(NamedTuple):
    """A category of jobs: a row of ``data/esp.csv``, which names the sources."""

    code: str
    nodes: int  # Nodes of 256
    jobs: int
    images: int  # Spin images of a PSIA job's loop
    limit: int  # Most steps of a pixel of a Mandelbrot job's loop
    target: float  # Run time [s]


CATEGORIES = tuple(
    Category(
        row["code"],
        *(int(row["nodes"]), int(row["jobs"]), int(row["images"]), int(row["limit"])),
        float(row["target"]),
    )
    for row in read_rows("esp.csv", Category._fields)
)


def esp(
    application: EspApplication,
    nodes: int = TABLE_NODES,
    *,
    seed: int = 0,
    initial: int = 50,
    interval: float = 30.0,
    fixed_g: bool = False,
    calibrate: EspCalibration = EspCalibration.TARGET,
    estimate_factor: tuple[float, float] = (1.0, 1.0),
) -> NamedJobs:
    """Make an ESP workload: jobs 1, 2, ... in arrival order; a processor is a node.

    The jobs of all categories but Z arrive in one random order: ``initial`` of them at time 0, then one every
    ``interval`` seconds; the two of category Z at one and two thirds of the last one's time. ``fixed_g``:
    Mandelbrot's limit of category G is 10 M, which fits its neighbours, in place of the printed 1 M.
    ``calibrate``: run times are ESP's, or (``none``) follow from the table's images or limits, with the same
    work in all. ``estimate_factor``: least and largest of walltime / run time, drawn uniformly for each job.
    """
    _check(nodes, initial, interval, estimate_factor)
    row, submit = _arrivals(seed, initial, interval)
    psia = application is EspApplication.PSIA
    limits = np.array([FIXED_G_LIMIT if fixed_g and c.code == "G" else c.limit for c in CATEGORIES])
    iterations = np.array([category.images if psia else PIXELS for category in CATEGORIES])
    run_times = np.array([category.target for category in CATEGORIES])
    if calibrate is EspCalibration.NONE:
        of_machine = np.array([category.nodes for category in CATEGORIES])
        amounts, jobs_of = iterations if psia else limits, np.array([c.jobs for c in CATEGORIES])
        cost = np.sum(jobs_of * of_machine * run_times) / np.sum(jobs_of * amounts)
        run_times = amounts / of_machine * cost
    run_time = run_times[row]
    codes, order = numbered_by_appearance(row)
    factors = np.random.default_rng((seed, 1)).uniform(*estimate_factor, row.size)
    jobs = JobBlock(
        job_id=np.arange(1, row.size + 1),
        submit_time=submit,
        run_time=run_time,
        walltime=run_time * factors,
        processors=np.array([nodes_of(category, nodes) for category in CATEGORIES])[row],
        executable=codes,
        loop_iterations=iterations[row],
        loop_limit=np.full(row.size, -1) if psia else limits[row],
    )
    return NamedJobs(jobs, {"executable_names": [CATEGORIES[k].code for k in order.tolist()]})


def nodes_of(category: Category, nodes: int) -> int:
    """Return the nodes of a category's jobs: its share of 256, rounded, halves up, and at least 1.

    Examples
    --------
    >>> [nodes_of(category, 15) for category in CATEGORIES]
    [1, 1, 8, 4, 8, 1, 2, 2, 1, 1, 1, 2, 4, 15]
    """
    return max(1, int(Fraction(category.nodes * nodes, TABLE_NODES) + Fraction(1, 2)))


def _check(nodes: int, initial: int, interval: float, estimate_factor: tuple[float, float]) -> None:
    low, high = estimate_factor
    for name, value, makes_sense, allowed in (
        ("nodes", nodes, nodes >= 1, "1 or more"),
        ("initial", initial, initial >= 0, "0 jobs or more"),
        ("interval", interval, 0 <= interval < np.inf, "0 s or more"),
        ("estimate factor", f"{low:g}:{high:g}", 0 < low <= high < np.inf, "FACTOR or LOW:HIGH, above 0"),
    ):
        if not makes_sense:
            raise InputError(f"{name}: {value}; allowed: {allowed}")


def _arrivals(seed: int, initial: int, interval: float) -> tuple[Ints, Floats]:
    """Draw each job's category (its row) and submit time [s], in arrival order."""
    codes = [category.code for category in CATEGORIES]
    counts = np.array([category.jobs for category in CATEGORIES])
    full = codes.index(FULL_SIZE)
    others = np.repeat(np.arange(len(codes)), np.where(np.arange(len(codes)) == full, 0, counts))
    order = np.random.default_rng((seed, 0)).permutation(others)
    submit = np.maximum(np.arange(order.size) - (initial - 1), 0) * interval
    # The full-size jobs cut the timeline, from 0 to the last arrival, into equal parts.
    parts = counts[full] + 1
    cuts = submit[-1] * np.arange(1, parts) / parts
    row = np.append(order, np.full(cuts.size, full))
    submit = np.append(submit, cuts)
    arrival = np.argsort(submit, kind="stable")
    return row[arrival], submit[arrival]
