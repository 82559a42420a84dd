"""Power over time of a job, as a run takes it (``workload.power``): as few steps as its class needs.

A constant job is its mean. Of a periodic one the period is folded: it begins again until the job ends,
however long the job runs. Of the others there are all means, head and tail as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from mlsim._arrays import Floats, Ints
from mlsim.learning.energy.samples import Samples
from mlsim.learning.energy.tree import Cleaning, EnergyClass, Profile

__all__ = ["JobPower", "power_steps", "write_steps"]

_FREQUENCIES = 201
"""Frequencies tried around that of the highest density."""


@dataclass(frozen=True)
class JobPower:
    """Power of one job over time.

    Attributes
    ----------
    time
        Since the job's start [s], from 0 on.
    power
        From then on, of a node [W].
    period
        After which the steps begin again [s]; NaN: the last one holds.
    """

    time: Floats
    power: Floats
    period: float = float("nan")


def power_steps(samples: Samples, profile: Profile, cleaning: Cleaning | None = None) -> JobPower | None:
    """Return the power over time of a job; None where samples are missing, or there is none.

    Parameters
    ----------
    samples
        Of the job.
    profile
        What it was classified as.
    cleaning
        With which.
    """
    cleaning = cleaning or Cleaning()
    if profile.kind is EnergyClass.INCOMPLETE or not len(samples.power):
        return None
    means = cleaning.means(samples.power)
    kept = cleaning.kept(means)
    if profile.kind is EnergyClass.TOO_SHORT:
        return JobPower(np.zeros(1), np.array([samples.power.mean()]))
    if profile.kind is EnergyClass.CONSTANT:
        return JobPower(np.zeros(1), np.array([means[kept].mean()]))
    distance = cleaning.group * samples.interval
    if profile.kind is EnergyClass.PERIODIC:
        return _folded(means[kept], kept, distance, profile.period)
    return JobPower(np.arange(len(means), dtype=np.float64) * distance, means)


def _folded(values: Floats, places: Ints, distance: float, period: float) -> JobPower:
    """Return one period as steps, each the mean of what was measured in that part of the period."""
    period = _refined(values, places, period)
    parts = max(round(period), 2)
    part = (((places + 0.5) % period) / period * parts).astype(np.int64) % parts
    counts = np.bincount(part, minlength=parts)
    sums = np.bincount(part, values, parts)
    power = np.where(counts > 0, sums / np.maximum(counts, 1), values.mean())
    return JobPower(
        np.arange(parts, dtype=np.float64) * (period * distance / parts), power, period * distance
    )


def _refined(values: Floats, places: Ints, period: float) -> float:
    """Return the period of the highest density near one, which is that of a whole number of periods.

    Whole numbers are half a period wrong at the end, at worst, and folding would blur what it adds up.
    """
    n = len(values)
    tried = np.linspace(n / period - 0.75, n / period + 0.75, _FREQUENCIES) / n
    waves = np.exp(-2j * np.pi * np.outer(tried, places))
    densities = np.abs(waves @ (values - values.mean()))
    return float(1.0 / tried[int(np.argmax(densities))])


def write_steps(path: Path, jobs: Mapping[str, JobPower], *, parquet: bool = False) -> None:
    """Write the power of jobs over time: a row a step, with job_id, time (s), power (W) and period (s)."""
    parts = [
        pl.DataFrame(
            {
                "job_id": [job] * len(steps.time),
                "time": steps.time,
                "power": steps.power,
                "period": [None if np.isnan(steps.period) else steps.period] * len(steps.time),
            },
            schema_overrides={"period": pl.Float64},
        )
        for job, steps in jobs.items()
    ]
    schema = {"job_id": pl.String, "time": pl.Float64, "power": pl.Float64, "period": pl.Float64}
    frame = pl.concat([pl.DataFrame(schema=schema), *parts])
    if parquet:
        frame.write_parquet(path)
    else:
        frame.write_csv(path)
