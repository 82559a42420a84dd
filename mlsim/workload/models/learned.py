"""Workloads learned from a log: AccaSim's generator (Galleguillos et al. 2020, §7, Figs. 14 to 17).

Submit times come by the Slot Weight Method (:mod:`mlsim.workload.models.slots`). A job is serial or has one
of the sizes of the log's parallel jobs, by their shares. It has an amount of work in FLOP, drawn from those
of the log (run time x processors x a processor's speed), and lasts as long as its processors take for that.

Readings, where the source leaves room: the weight between two jobs is drawn from the log's own weights
between jobs, and scaled as v_max is adapted. A progress ratio is the share of the jobs so far that the hour,
the weekday or the month has, over its share in the log; their product counts up to 2. Sizes have the log's
shares, and no range with equal shares. In the source work and size are independent, so that serial jobs may
run for years: here a job whose size would make it run longer than the longest of the log draws its size again
among those which do not; where there is none, it has the largest. Walltimes and users are not modelled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlsim._arrays import Floats
from mlsim._files import read_json
from mlsim.errors import InputError
from mlsim.workload.jobs import JobBlock
from mlsim.workload.models.drawing import (
    DRAWN,
    base_header,
    check_factor,
    check_seed,
    factor_words,
    factored,
)
from mlsim.workload.models.slots import DAY, N_COUNTS, SLOTS, arrivals

__all__ = ["Learned", "LearnedModel", "is_model_file", "read_model"]

VERSION: Final = 1
GIGA: Final = 1e9


@dataclass(frozen=True)
class LearnedModel:
    """What was learned of a log.

    Attributes
    ----------
    of
        Name of the log.
    jobs
        How many it has.
    start
        When the first job was submitted: seconds since 1970 on the clocks of the log's time zone.
    processors
        Of the machine.
    gflops
        Speed of a processor [GFLOP/s].
    slots
        Share of the jobs in each half hour of the day.
    shares
        Share of the jobs by hour, weekday (Monday first) and month: 24 + 7 + 12 numbers.
    intervals, flop
        Quantiles of the weight between jobs, and of the work of jobs [FLOP], in equal steps from the least
        to the largest.
    serial
        Share of jobs of one processor.
    sizes, size_shares
        Sizes of the parallel jobs, and their shares among them.
    longest
        Run time of the longest job [s].
    """

    of: str
    jobs: int
    start: float
    processors: int
    gflops: float
    slots: tuple[float, ...]
    shares: tuple[float, ...]
    intervals: tuple[float, ...]
    flop: tuple[float, ...]
    serial: float
    sizes: tuple[int, ...]
    size_shares: tuple[float, ...]
    longest: float

    def text(self) -> str:
        """Return the model as JSON."""
        return json.dumps({"mlsim_model": VERSION, "method": "slot weights", **asdict(self)}, indent=1) + "\n"


def is_model_file(name: str) -> bool:
    """Whether the name of a model is that of a file that ``mlsim workload fit`` writes."""
    return name.endswith(".json")


def read_model(path: str | Path) -> LearnedModel:
    """Read a model.

    Raises
    ------
    InputError
        If it cannot be read, or is none.
    """
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
    """A workload as that of a log.

    Parameters
    ----------
    model
        What was learned.
    processors
        Of the machine; larger sizes are left out.
    seed
        Of all random numbers.
    estimate_factor
        Least and largest of walltime / run time, drawn uniformly for each job.

    Attributes
    ----------
    header : dict
        What a log says of how it was made.

    Raises
    ------
    InputError
        An argument makes no sense.
    """

    def __init__(
        self,
        model: LearnedModel,
        *,
        processors: int,
        seed: int = 0,
        estimate_factor: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        check_factor(estimate_factor)
        check_seed(seed)
        self._model, self._seed, self._factor = model, seed, estimate_factor
        sizes, shares = np.array(model.sizes, np.int64), np.array(model.size_shares)
        fit = sizes <= processors
        parallel = shares[fit] / max(shares[fit].sum(), 1e-300) * (1.0 - model.serial)
        self._sizes = np.concatenate([[1], sizes[fit]])
        until = np.cumsum(np.concatenate([[model.serial if len(parallel) else 1.0], parallel]))
        self._until = until / until[-1]
        note = f"what was learned of {model.of}: seed {seed}, {factor_words(estimate_factor)}"
        midnight = model.start - model.start % DAY
        self.header = base_header(note, processors) | {"UnixStartTime": str(int(midnight))}

    def stream(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order without end; time 0 is midnight before the log's first job."""
        model = self._model
        weights, shares = np.array(model.slots), np.array(model.shares)
        intervals, works, sizes, walltimes = (np.random.default_rng((self._seed, 4, k)) for k in range(4))
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
            yield JobBlock(
                job_id=np.full(DRAWN, -1, np.int64),
                submit_time=np.floor(times - midnight),
                run_time=run_time,
                walltime=factored(run_time, self._factor, walltimes),
                processors=self._sizes[rows],
                status=np.ones(DRAWN, np.int64),
            )


def _drawn(quantiles: Floats, rng: np.random.Generator) -> Floats:
    """Draw from a distribution by its quantiles, in equal steps."""
    places = np.linspace(0.0, 1.0, len(quantiles))
    drawn: Floats = np.interp(rng.random(DRAWN), places, quantiles)
    return drawn
