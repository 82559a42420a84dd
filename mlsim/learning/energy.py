"""Energy profiles of jobs: cleaned, and classified as constant, periodic, aperiodic or non-stationary.

Zrigui 2021, §7.4. Samples of power become means of twelve; the head and the tail of a job are cut, as they
are initialising and finishing; samples more than three standard deviations from the mean are dropped; all
jobs are scaled by the least and the largest power of the platform. Then a tree of three tests decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np

from mlsim._arrays import Floats
from mlsim._files import open_file
from mlsim.errors import InputError

__all__ = ["EnergyClass", "Profile", "Tree", "classify", "cleaned", "read_profiles"]

SHORTEST: Final = 12
"""Samples that a cleaned profile must have to be judged: two for each of six windows."""


class EnergyClass(StrEnum):
    """The form of an energy profile."""

    CONSTANT = "constant"
    PERIODIC = "periodic"
    APERIODIC = "aperiodic"
    NON_STATIONARY = "non-stationary"
    TOO_SHORT = "too-short"


@dataclass(frozen=True)
class Tree:
    """Thresholds of the tests, on power scaled to [0, 1]; the source's by default (§7.4.4 to 7.4.6)."""

    windows: int = 6
    """Parts of which the means are compared."""
    stationary: float = 0.1
    """Standard deviation of these means above which a profile is non-stationary."""
    constant: float = 0.1
    """Standard deviation of the samples below which it is constant."""
    periodic: float = 1.0
    """Highest spectral density |X_k|² / n above which it is periodic."""


@dataclass(frozen=True)
class Profile:
    """What is known of one job.

    Attributes
    ----------
    kind
        Its class.
    samples
        How many are left after cleaning.
    mean
        Mean power of these [W].
    deviation, windows_deviation, density
        What the tests compare, of scaled power; NaN where a test was not reached.
    period
        Samples (of twelve raw ones each) of a period; NaN unless it is periodic.
    """

    kind: EnergyClass
    samples: int
    mean: float
    deviation: float = np.nan
    windows_deviation: float = np.nan
    density: float = np.nan
    period: float = np.nan


def cleaned(power: Floats, *, group: int = 12, head: int = 5, tail: int = 5, outliers: float = 3.0) -> Floats:
    """Return a profile as means of samples, without head, tail and outliers.

    Parameters
    ----------
    power
        Raw samples [W], at equal distances.
    group
        Raw samples that become one; those left over at the end are dropped.
    head, tail
        Means that are cut from the beginning and the end.
    outliers
        Distance from the mean, in standard deviations, beyond which a mean is dropped.
    """
    whole = len(power) // group * group
    means: Floats = power[:whole].reshape(-1, group).mean(axis=1)
    kept = means[head : max(len(means) - tail, head)]
    if not len(kept) or kept.std() == 0:
        return kept
    found: Floats = kept[np.abs(kept - kept.mean()) <= outliers * kept.std()]
    return found


def classify(profiles: Mapping[str, Floats], tree: Tree | None = None) -> dict[str, Profile]:
    """Return the class of each profile of a platform.

    Parameters
    ----------
    profiles
        Job to cleaned samples [W]; all are scaled by the least and the largest sample of all.
    tree
        Thresholds; default: the source's.
    """
    tree = tree or Tree()
    samples = [values for values in profiles.values() if len(values)]
    if not samples:
        return {job: Profile(EnergyClass.TOO_SHORT, 0, np.nan) for job in profiles}
    every = np.concatenate(samples)
    low, span = float(every.min()), float(every.max() - every.min()) or 1.0
    return {job: _judged(values, (values - low) / span, tree) for job, values in profiles.items()}


def _judged(values: Floats, scaled: Floats, tree: Tree) -> Profile:
    n, mean = len(values), float(values.mean()) if len(values) else np.nan
    if n < max(SHORTEST, 2 * tree.windows):
        return Profile(EnergyClass.TOO_SHORT, n, mean)
    windows = float(np.std([part.mean() for part in np.array_split(scaled, tree.windows)]))
    deviation = float(scaled.std())
    if windows > tree.stationary:
        return Profile(EnergyClass.NON_STATIONARY, n, mean, deviation, windows)
    if deviation < tree.constant:
        return Profile(EnergyClass.CONSTANT, n, mean, deviation, windows)
    densities = np.abs(np.fft.rfft(scaled - scaled.mean()))[1:] ** 2 / n
    place = int(np.argmax(densities))
    density = float(densities[place])
    if density > tree.periodic:
        return Profile(EnergyClass.PERIODIC, n, mean, deviation, windows, density, n / (place + 1))
    return Profile(EnergyClass.APERIODIC, n, mean, deviation, windows, density)


def read_profiles(path: str | Path) -> dict[str, Floats]:
    """Read samples of power from a CSV file with the columns ``job_id``, ``time`` (s) and ``power`` (W).

    Returns
    -------
    dict
        Job to its samples, in order of time; jobs in order of their first line.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, or a value is no number.
    """
    import polars as pl

    try:
        with open_file(Path(path)) as file:
            frame = pl.read_csv(file.read(), schema_overrides={"job_id": pl.String})
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path}: cannot be read as CSV: {error}") from error
    for name in ("job_id", "time", "power"):
        if name not in frame.columns:
            raise InputError(f"{path}: has no column {name}; needed: job_id, time (s), power (W)")
    numbers = frame.select(pl.col("time", "power").cast(pl.Float64, strict=False))
    wrong = numbers.select(pl.any_horizontal(pl.all().is_null() | ~pl.all().is_finite())).to_series()
    if wrong.any():
        raise InputError(f"{path}:{wrong.arg_true()[0] + 2}: time or power is no number; allowed: numbers")
    found: dict[str, Floats] = {}
    frame = frame.select("job_id").with_columns(numbers.get_columns())
    for (job,), rows in frame.group_by("job_id", maintain_order=True):
        found[str(job)] = rows.sort("time", maintain_order=True)["power"].to_numpy().astype(np.float64)
    return found
