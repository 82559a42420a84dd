"""Profiles of known classes, on which tests and thresholds are tried: no measured ones are published.

Each has the look that the source describes (Zrigui 2021, §7.4.3): a level with noise; a level with a wave,
square or sine; a level that leaves its mean at random, and comes back; a level that changes once, or drifts.
All begin with a phase of initialising and end with one of finishing, and have a few outliers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats
from mlsim.learning.energy.samples import Measured, Samples
from mlsim.learning.energy.tree import EnergyClass
from mlsim.scenario.whole.demand import Share, check_memory

__all__ = ["KINDS", "MadeProfiles", "made_profiles"]

KINDS = (EnergyClass.CONSTANT, EnergyClass.PERIODIC, EnergyClass.APERIODIC, EnergyClass.NON_STATIONARY)
"""Classes that are made."""


@dataclass(frozen=True)
class MadeProfiles:
    """How profiles are made."""

    each: int = 100
    """Jobs of each class."""
    shortest: float = 1800.0
    """Least time that a job takes [s]; the source takes jobs of 30 minutes and more."""
    longest: float = 86_400.0
    """Most of it [s]; times are drawn evenly from their logarithms."""
    interval: float = 5.0
    """Time between samples [s]."""
    noise: float = 0.05
    """Standard deviation of the noise of a sample, as a share of the range of power."""
    idle: float = 60.0
    """Least power [W]."""
    busy: float = 220.0
    """Most [W]."""
    seed: int = 0
    """Of all draws."""


def made_profiles(made: MadeProfiles) -> Measured:
    """Return profiles with their classes; jobs are numbered from 1.

    Raises
    ------
    InputError
        If memory does not hold them.
    """
    _check_size(made)
    rng = np.random.default_rng(made.seed)
    samples: dict[str, Samples] = {}
    known: dict[str, str] = {}
    for _ in range(made.each):
        for kind in KINDS:
            job = str(len(samples) + 1)
            duration = np.exp(rng.uniform(np.log(made.shortest), np.log(made.longest)))
            n = max(int(duration / made.interval), 2)
            shape = _shape(kind, n, made.interval, rng)
            noisy = _with_ends(shape, made.interval, rng) + rng.normal(0.0, made.noise, n)
            spikes = rng.random(n) < 1e-3
            noisy[spikes] = rng.choice([0.0, 1.0], int(spikes.sum()))
            power = made.idle + np.clip(noisy, 0.0, 1.0) * (made.busy - made.idle)
            samples[job], known[job] = (
                Samples(np.arange(n, dtype=np.float64) * made.interval, power),
                str(kind),
            )
    return Measured(samples, known)


def _check_size(made: MadeProfiles) -> None:
    jobs = made.each * len(KINDS)
    ratio = made.longest / made.shortest
    mean = made.shortest * ((ratio - 1.0) / np.log(ratio) if ratio > 1.0 else 1.0)
    samples = jobs * max(mean / made.interval, 2.0)
    share = Share("--each", f"{jobs:,} jobs with about {samples:,.0f} samples", samples * _SAMPLE)
    check_memory("profiles", [share], "these jobs")


_SAMPLE = 64
"""Bytes of a sample until it is written."""


def _shape(kind: EnergyClass, n: int, interval: float, rng: np.random.Generator) -> Floats:
    """Return power between 0 and 1, without noise."""
    level, swing = np.full(n, rng.uniform(0.35, 0.65)), rng.uniform(0.18, 0.3)
    away = np.zeros(n)
    if kind is EnergyClass.PERIODIC:
        most = min(n * interval / 8.0, 3600.0)
        period = np.exp(rng.uniform(np.log(180.0), np.log(max(most, 181.0)))) / interval
        wave = np.sin(2.0 * np.pi * (np.arange(n) / period + rng.random()))
        away = np.sign(wave) if rng.random() < 0.5 else 1.2 * wave
    elif kind is EnergyClass.APERIODIC:
        stays = np.cumsum(rng.exponential(90.0 / interval, n + 1)).searchsorted(np.arange(n))
        away = rng.uniform(-1.7, 1.7, int(stays.max()) + 1)[stays]
    elif kind is EnergyClass.NON_STATIONARY:
        place = np.arange(n) / n
        if rng.random() < 0.5:
            away = np.where(place < rng.uniform(0.25, 0.75), -1.0, 1.0)
        else:
            away = rng.choice([-1.0, 1.0]) * 1.2 * (2.0 * place - 1.0)
    found: Floats = level + swing * away
    return found


def _with_ends(shape: Floats, interval: float, rng: np.random.Generator) -> Floats:
    """Return a shape with a phase of initialising and one of finishing, of low power."""
    found = shape.copy()
    ends = rng.uniform(60.0, 240.0, 2) / interval
    first, last = (min(int(end), len(shape) // 8) for end in ends)
    found[:first] = rng.uniform(0.05, 0.2)
    found[len(shape) - last :] = rng.uniform(0.05, 0.2)
    return found
