"""Models learned from logs."""

from pathlib import Path
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload.derived_logs import SourceLog
from mlsim.workload.log_fields import local_times
from mlsim.workload.models import accasim_generator as accasim
from mlsim.workload.models.accasim_generator import DAY, SLOT, SLOTS, LearnedModel

QUANTILES: Final = 2001  # Points at which distributions are kept
FEWEST_JOBS: Final = 100


def fit(
    log: str | Path, *, gflops: float = 1.0, processors: int | None = None, lenient: bool = False
) -> LearnedModel:
    """Learn a model of a log (Galleguillos et al. 2020, §7).

    Parameters
    ----------
    log
        The file, as of :func:`mlsim.workload.open_workload`. Hours and dates are those of its time zone;
        without ``UnixStartTime`` in its header, time 0 is midnight of a Thursday.
    gflops
        Speed of a processor [GFLOP/s]; work is run time x processors x speed.
    processors
        Of the machine, where the header lacks them or is wrong.
    lenient
        Whether broken lines are skipped.

    Returns
    -------
    LearnedModel
        ``mlsim.workload.generate`` takes the file of its ``text()``.

    Raises
    ------
    InputError
        If the log cannot be read, or has fewer than 100 jobs or none that lasts.
    """
    if not 0 < gflops < np.inf:
        raise InputError(f"gflops: {gflops:g}; allowed: a number above 0")
    source = SourceLog(log, lenient)
    jobs = source.jobs()
    if len(jobs) < FEWEST_JOBS:
        raise InputError(f"{log}: has {len(jobs)} jobs; a model is learned of {FEWEST_JOBS} or more")
    jobs = jobs.select(jobs.run_time > 0)
    if not len(jobs):
        raise InputError(f"{log}: no job lasts longer than 0 s")
    times = local_times(jobs.submit_time, source.start_header(), source.path)
    slots = np.bincount((times % DAY // SLOT).astype(np.int64), minlength=SLOTS) / len(jobs)
    passed = np.empty(len(jobs))
    accasim.weight_at(times, slots, passed)
    sizes, counts = np.unique(jobs.processors[jobs.processors > 1], return_counts=True)
    parallel = int(counts.sum())
    return LearnedModel(
        of=source.path.name,
        jobs=len(jobs),
        start=float(times[0]),
        processors=source.processors() if processors is None else processors,
        gflops=gflops,
        slots=tuple(slots.tolist()),
        shares=tuple((calendar_counts(times) / len(jobs)).tolist()),
        # Clocks that are put back make time go back for an hour.
        intervals=_quantiles(np.maximum(np.diff(passed), 0.0)),
        flop=_quantiles(jobs.run_time * jobs.processors * (gflops * accasim.GIGA)),
        serial=1.0 - parallel / len(jobs),
        sizes=tuple(sizes.tolist()),
        size_shares=tuple((counts / max(parallel, 1)).tolist()),
        longest=float(jobs.run_time.max()),
    )


def calendar_counts(times: Floats) -> Ints:
    """Count local times (s since 1970) by hour, weekday (Monday first) and month, one after the other."""
    days = (times // DAY).astype(np.int64)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
    places = (
        accasim.HOURS + (times % DAY // 3600).astype(np.int64),
        accasim.WEEKDAYS + (days + 3) % 7,
        accasim.MONTHS + months,
    )
    return np.bincount(np.concatenate(places), minlength=accasim.N_COUNTS).astype(np.int64)


def _quantiles(values: Floats) -> tuple[float, ...]:
    return tuple(np.quantile(values, np.linspace(0.0, 1.0, QUANTILES)).tolist())
