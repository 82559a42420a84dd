"""Energy profiles cleaned and classified."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError

SHORTEST: Final = 12
"""Samples that a cleaned profile must have to be judged: two for each of six windows."""


class EnergyClass(StrEnum):
    """The form of an energy profile."""

    CONSTANT = "constant"
    PERIODIC = "periodic"
    APERIODIC = "aperiodic"
    NON_STATIONARY = "non-stationary"
    TOO_SHORT = "too-short"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class Tree:
    """Thresholds of the tests, on power scaled to [0, 1]; the source's by default (§7.4.4 to 7.4.6).

    Standard deviations are those of samples, by n - 1 (Eq. 7.1).
    """

    windows: int = 6
    """Parts of which the means are compared."""
    stationary: float = 0.1
    """Standard deviation of these means above which a profile is non-stationary."""
    constant: float = 0.1
    """Standard deviation of the samples below which it is constant."""
    periodic: float = 1.0
    """Highest spectral density |X_k|² / n above which it is periodic."""
    least: float | None = None
    """Power that counts as 0 [W]; None: the least of all jobs."""
    most: float | None = None
    """Power that counts as 1 [W]; None: the most of all jobs."""


@dataclass(frozen=True)
class Profile:
    """Result for one job."""

    kind: EnergyClass
    samples: int
    """Samples after cleaning."""
    mean: float
    """Mean power of these (W)."""
    deviation: float = np.nan
    """Standard deviation of scaled power; NaN where the test was not reached."""
    windows_deviation: float = np.nan
    """That of the means of windows; likewise."""
    density: float = np.nan
    """Highest spectral density; likewise."""
    period: float = np.nan
    """Samples (of twelve raw ones each) of a period; NaN unless it is periodic."""


@dataclass(frozen=True)
class Cleaning:
    """Preprocessing of samples before classification; the source's by default (§7.4.2)."""

    group: int = 12
    """Raw samples that become one mean; those left over at the end are dropped."""
    head: int = 5
    """Means that are cut from the beginning; the source states "a few minutes"."""
    tail: int = 5
    """Means that are cut from the end."""
    outliers: float = 3.0
    """Distance from the mean, in standard deviations, beyond which a mean is dropped."""

    def means(self, power: Floats) -> Floats:
        """Return the means of raw samples [W]."""
        whole = len(power) // self.group * self.group
        found: Floats = power[:whole].reshape(-1, self.group).mean(axis=1)
        return found

    def kept(self, means: Floats) -> Ints:
        """Return the places of the means that are left."""
        places = np.arange(self.head, max(len(means) - self.tail, self.head))
        kept = means[places]
        if not len(kept) or kept.std() == 0:
            return places
        found: Ints = places[np.abs(kept - kept.mean()) <= self.outliers * kept.std()]
        return found


def cleaned(power: Floats, cleaning: Cleaning | None = None) -> Floats:
    """Return the means of raw samples at equal distances (W), without head, tail and outliers."""
    cleaning = cleaning or Cleaning()
    means = cleaning.means(power)
    return means[cleaning.kept(means)]


def classify(
    profiles: Mapping[str, Floats], tree: Tree | None = None, incomplete: Collection[str] = ()
) -> dict[str, Profile]:
    """Return the class of each profile of a platform.

    Parameters
    ----------
    profiles
        Job to cleaned samples [W].
    tree
        Thresholds and scale; default: the source's.
    incomplete
        Jobs of which samples are missing; these are not judged, as in the source (§7.4.1), nor do they count
        for the scale.

    Raises
    ------
    InputError
        If the least and the most power of the tree, or one and that of the profiles, are no range.
    """
    tree = tree or Tree()
    samples = [values for job, values in profiles.items() if len(values) and job not in incomplete]
    if not samples:
        kinds = dict.fromkeys(incomplete, EnergyClass.INCOMPLETE)
        return {job: Profile(kinds.get(job, EnergyClass.TOO_SHORT), 0, np.nan) for job in profiles}
    every = np.concatenate(samples)
    low = float(every.min()) if tree.least is None else tree.least
    high = float(every.max()) if tree.most is None else tree.most
    if (tree.least is not None or tree.most is not None) and not low < high:
        raise InputError(
            f"least, most: power would be scaled from {low:g} to {high:g} W; needed: a range. Means of "
            f"samples are {every.min():g} to {every.max():g} W"
        )
    span = high - low or 1.0
    return {
        job: Profile(EnergyClass.INCOMPLETE, len(values), np.nan)
        if job in incomplete
        else _judged(values, (values - low) / span, tree)
        for job, values in profiles.items()
    }


def _judged(values: Floats, scaled: Floats, tree: Tree) -> Profile:
    n, mean = len(values), float(values.mean()) if len(values) else np.nan
    if n < max(SHORTEST, 2 * tree.windows):
        return Profile(EnergyClass.TOO_SHORT, n, mean)
    windows = float(np.std([part.mean() for part in np.array_split(scaled, tree.windows)], ddof=1))
    deviation = float(scaled.std(ddof=1))
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
