"""Workloads learned from a log: AccaSim's generator."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlsim._files import read_json
from mlsim._jit import inner_kernel, kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload.models.model_base import DRAWN, Drawing, drawn_jobs
from mlsim.workload.workload_jobs import JobBlock

SLOTS: Final = 48
SLOT: Final = 1800.0  # Seconds of a slot
DAY: Final = 86400.0
HOURS, WEEKDAYS, MONTHS = 0, 24, 31
"""Offsets of the counts and shares of hours, weekdays (Monday first) and months."""
N_COUNTS: Final = 43

_MOST_PROGRESS: Final = 2.0


@inner_kernel
def month_of(day: int) -> int:
    """Return the month, 0 to 11, of a day since 1970-01-01 (proleptic Gregorian calendar)."""
    shifted = day + 719468
    of_era = shifted - shifted // 146097 * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    return int(((5 * of_year + 2) // 153 + 2) % 12)


@inner_kernel
def _progress(time: float, jobs: int, counts: Ints, shares: Floats) -> float:
    """Return the excess of jobs so far in the hour, weekday and month of a time over their shares."""
    day = int(time // DAY)
    places = (HOURS + int(time % DAY // 3600.0), WEEKDAYS + (day + 3) % 7, MONTHS + month_of(day))
    progress = 1.0
    for place in places:
        if shares[place] > 0.0:
            progress *= counts[place] / (jobs * shares[place])
    return min(progress, _MOST_PROGRESS)


@inner_kernel
def _count(time: float, counts: Ints) -> None:
    day = int(time // DAY)
    counts[HOURS + int(time % DAY // 3600.0)] += 1
    counts[WEEKDAYS + (day + 3) % 7] += 1
    counts[MONTHS + month_of(day)] += 1


@inner_kernel
def _after(time: float, weight: float, weights: Floats) -> float:
    """Return the time at which an amount of weight has passed since a time."""
    begin = time - time % DAY
    passed = time - begin
    slot = int(passed // SLOT)
    within = (passed - slot * SLOT) / SLOT
    left = (1.0 - within) * weights[slot]
    while weight >= left and weight > 0.0:
        weight -= left
        slot, within = slot + 1, 0.0
        if slot == SLOTS:
            slot, begin = 0, begin + DAY
            if weight >= 1.0:
                begin += DAY * (weight // 1.0)
                weight -= weight // 1.0
        left = weights[slot]
    if weight <= 0.0 or weights[slot] <= 0.0:
        return float(begin + (slot + within) * SLOT)
    return float(begin + (slot + within + weight / weights[slot]) * SLOT)


@kernel
def weight_at(times: Floats, weights: Floats, found: Floats) -> None:
    """Find the weight that has passed from time 0 until each time (s)."""
    before = np.zeros(SLOTS + 1)
    for slot in range(SLOTS):
        before[slot + 1] = before[slot] + weights[slot]
    for k in range(len(times)):
        passed = times[k] % DAY
        slot = int(passed // SLOT)
        found[k] = times[k] // DAY + before[slot] + (passed / SLOT - slot) * weights[slot]


@kernel
def arrivals(
    drawn: Floats, most: float, weights: Floats, shares: Floats, counts: Ints, state: Floats, found: Floats
) -> None:
    """Draw the next submit times into ``found``.

    ``drawn``: weight between submissions per job, from 0 to ``most``, the largest one of the log (v_max).
    ``weights``: of the slots; ``shares``: of hours, weekdays, months, as ``counts`` of the jobs so far.
    ``state``: the last submit time (s, local time since 1970) and the jobs so far. ``counts`` and ``state``
    are updated.
    """
    least = 1.0 / SLOTS
    for k in range(len(drawn)):
        time, jobs = state[0], int(state[1])
        limit = most
        if jobs > 0 and most > least:
            limit = most - (most - least) * (1.0 - _progress(time, jobs, counts, shares))
        time = _after(time, drawn[k] * limit / most if most > 0.0 else 0.0, weights)
        _count(time, counts)
        state[0], state[1] = time, jobs + 1
        found[k] = time


VERSION: Final = 1
GIGA: Final = 1e9


@dataclass(frozen=True)
class LearnedModel:
    """A model learned from a log; quantiles are in equal steps."""

    of: str
    jobs: int
    start: float  # first submission [s since 1970 on the clocks of the log's time zone]
    processors: int
    gflops: float  # speed of a processor [GFLOP/s]
    slots: tuple[float, ...]  # share of the jobs in each half hour of the day
    shares: tuple[float, ...]  # of hours, weekdays (Monday first) and months: 24 + 7 + 12
    intervals: tuple[float, ...]  # quantiles of the weight between jobs
    flop: tuple[float, ...]  # quantiles of the work of jobs [FLOP]
    serial: float  # share of jobs of one processor
    sizes: tuple[int, ...]  # of the parallel jobs
    size_shares: tuple[float, ...]
    longest: float  # run time [s]

    def text(self) -> str:
        """Return the model as JSON."""
        return json.dumps({"mlsim_model": VERSION, "method": "slot weights", **asdict(self)}, indent=1) + "\n"


def is_model_file(name: str) -> bool:
    """Whether the name of a model is that of a file that ``mlsim workload fit`` writes."""
    return name.endswith(".json")


def read_model(path: str | Path) -> LearnedModel:
    """Read a model file; an InputError if it is none."""
    found = read_json(Path(path))
    try:
        if found["mlsim_model"] != VERSION:
            raise InputError(f"{path}: a model of version {found['mlsim_model']}; this mlsim reads {VERSION}")
        values: dict[str, Any] = {field.name: found[field.name] for field in fields(LearnedModel)}
        for name, value in values.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        model = LearnedModel(**values)
        _check(model)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is no model that mlsim workload fit has written ({error})") from error
    return model


def _check(model: LearnedModel) -> None:
    """Raise ValueError where a model makes no sense."""
    numbers = (*model.slots, *model.shares, *model.size_shares, *model.intervals, *model.flop)
    whole = np.array([*numbers, model.gflops, model.longest, model.start, model.serial], np.float64)
    if not np.all(np.isfinite(whole)) or np.any(np.array(numbers) < 0) or not 0 <= model.serial <= 1:
        raise ValueError("a number is below 0, or none")
    if len(model.slots) != SLOTS or len(model.shares) != N_COUNTS or not abs(sum(model.slots) - 1) < 1e-6:
        raise ValueError("shares do not add up to 1, or are too few")
    if len(model.sizes) != len(model.size_shares) or min(len(model.intervals), len(model.flop)) < 2:
        raise ValueError("columns of unequal length")
    if not (model.gflops > 0 and model.longest > 0 and model.processors >= 1):
        raise ValueError("gflops, longest and processors are above 0")


class Learned:
    """A workload like that of a log; sizes larger than the machine are left out."""

    def __init__(self, model: LearnedModel, options: Drawing) -> None:
        self._model, self._options = model, options
        sizes, shares = np.array(model.sizes, np.int64), np.array(model.size_shares)
        fit = sizes <= options.processors
        parallel = shares[fit] / max(shares[fit].sum(), 1e-300) * (1.0 - model.serial)
        self._sizes = np.concatenate([[1], sizes[fit]])
        until = np.cumsum(np.concatenate([[model.serial if len(parallel) else 1.0], parallel]))
        self._until = until / until[-1]
        midnight = str(int(model.start - model.start % DAY))
        self.header = options.header(f"what was learned of {model.of}: {options.words}")
        self.header["UnixStartTime"] = midnight

    @property
    def gflops(self) -> float:
        """Speed of a processor [GFLOP/s]."""
        return self._model.gflops

    def stream(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order without end; time 0 is midnight before the log's first job."""
        model = self._model
        weights, shares = np.array(model.slots), np.array(model.shares)
        intervals, works, sizes, walltimes = self._options.generators(4, 4)
        quantiles, most = np.array(model.intervals), model.intervals[-1]
        counts, state = np.zeros(N_COUNTS, np.int64), np.array([model.start, 0.0])
        midnight = model.start - model.start % DAY
        flop = np.array(model.flop)
        while True:
            times = np.empty(DRAWN)
            arrivals(_drawn(quantiles, intervals), most, weights, shares, counts, state, times)
            work = _drawn(flop, works) / (model.gflops * GIGA)  # processor-seconds
            needed = np.searchsorted(self._sizes, np.ceil(work / model.longest))
            low = np.where(needed > 0, self._until[np.minimum(needed, len(self._sizes) - 1) - 1], 0.0)
            drawn = low + sizes.random(DRAWN) * (1.0 - low)
            first = np.searchsorted(self._until, sizes.random(DRAWN), "right")
            again = np.searchsorted(self._until, drawn, "right")
            rows = np.minimum(np.where(first >= needed, first, again), len(self._sizes) - 1)
            run_time = np.maximum(np.ceil(work / self._sizes[rows]), 1.0)
            walltime = self._options.walltimes(run_time, walltimes)
            yield drawn_jobs(np.floor(times - midnight), run_time, walltime, self._sizes[rows])


def _drawn(quantiles: Floats, rng: np.random.Generator) -> Floats:
    """Draw from a distribution by its quantiles, in equal steps."""
    places = np.linspace(0.0, 1.0, len(quantiles))
    return np.interp(rng.random(DRAWN), places, quantiles)
