"""Samples of the power of jobs: measured, generated, as steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from mlsim._files import open_file
from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.learning.energy_classes import Cleaning, EnergyClass, Profile
from mlsim.scenario.simulation_demand import Share, check_memory
from mlsim.workload.measured_power import read_table

_NEEDED: Final = ("job_id", "time", "power")
_GAP: Final = 1.5
"""Intervals between two samples from which on one is missing."""
_PARQUET: Final = b"PAR1"
_HDF5: Final = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Samples:
    """Power of one job."""

    time: Floats
    """Of each sample (s), rising."""
    power: Floats
    """Of a node (W)."""

    @property
    def interval(self) -> float:
        """Time between samples [s]: the median; NaN for less than two."""
        return float(np.median(np.diff(self.time))) if len(self.time) > 1 else float("nan")

    @property
    def complete(self) -> bool:
        """Whether no sample is missing between the first and the last."""
        return len(self.time) < 2 or bool(np.diff(self.time).max() < _GAP * self.interval)


@dataclass(frozen=True)
class Measured:
    """Content of a file of power."""

    samples: Mapping[str, Samples]
    """Of each job, in the order of the file."""
    known: Mapping[str, str] = field(default_factory=dict)
    """The classes of jobs in the file, if it has any."""


def read_samples(path: str | Path) -> Measured:
    """Read samples of power.

    Parameters
    ----------
    path
        A CSV or Parquet file with the columns ``job_id``, ``time`` (s) and ``power`` (W of a node), and
        ``class`` where it is known. Or an HDF5 file: with these as datasets of one length, or with a group a
        job, called as the job, with the datasets ``time`` and ``power`` (and the attribute ``class``).

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, there are no samples, or a value makes no sense; the
        message names its place.
    """
    path = Path(path)
    with open_file(path, "table of power") as file:
        begins = file.read(len(_HDF5))
    if begins == _HDF5:
        return _jobs_of(path, _read_hdf5(path))
    return _jobs_of(path, read_table(path, "table of power", (*_NEEDED, "class")))


def write_samples(path: Path, measured: Measured) -> None:
    """Write samples as CSV."""
    parts = [
        pl.DataFrame(
            {
                "job_id": [job] * len(samples.time),
                "class": [measured.known.get(job)] * len(samples.time),
                "time": samples.time,
                "power": samples.power.round(3),
            },
            schema_overrides={"class": pl.String},
        )
        for job, samples in measured.samples.items()
    ]
    pl.concat(parts).write_csv(path)


def _jobs_of(path: Path, frame: pl.DataFrame) -> Measured:
    """Split a table of samples by jobs."""
    for name in _NEEDED:
        if name not in frame.columns:
            raise InputError(f"{path}: has no column {name}; needed: job_id, time (s), power (W)")
    numbers = frame.select(pl.col("time", "power").cast(pl.Float64, strict=False))
    wrong = numbers.select(pl.any_horizontal(pl.all().is_null() | ~pl.all().is_finite())).to_series()
    _complain(path, wrong, "time or power is no number; allowed: numbers")
    _complain(path, numbers["power"] < 0, "power is below 0; allowed: 0 W or more")
    if "class" not in frame.columns:
        frame = frame.with_columns(pl.lit(None, pl.String).alias("class"))
    frame = frame.select(pl.col("job_id", "class").cast(pl.String)).with_columns(numbers.get_columns())
    _complain(path, frame["job_id"].is_null(), "has no job_id")
    allowed = ", ".join(EnergyClass)
    unknown = frame["class"].is_not_null() & ~frame["class"].is_in(list(EnergyClass))
    _complain(path, unknown, f"class is none of {allowed}; write one of them, or nothing")
    again = frame.select(~pl.struct("job_id", "time").is_first_distinct()).to_series()
    _complain(path, again, "a second sample of the job at this time")
    first = pl.col("class").first().over("job_id")
    others = frame.select(pl.col("class").ne_missing(first)).to_series()
    _complain(path, others, "the job has another class before")
    if not len(frame):
        raise InputError(f"{path}: has no samples; needed: rows of job_id, time (s), power (W)")
    samples, known = {}, {}
    for (job,), rows in frame.group_by("job_id", maintain_order=True):
        ordered = rows.sort("time", maintain_order=True)
        samples[str(job)] = Samples(ordered["time"].to_numpy(), ordered["power"].to_numpy())
        if ordered["class"][0] is not None:
            known[str(job)] = str(ordered["class"][0])
    return Measured(samples, known)


def _complain(path: Path, wrong: pl.Series, message: str) -> None:
    """Refuse a table if a row is wrong, and name the first: in a text file by its line."""
    if wrong.any():
        row = int(wrong.arg_true()[0])
        with open_file(path, "table of power") as file:
            binary = file.read(len(_HDF5)).startswith((_HDF5, _PARQUET))
        raise InputError(f"{path}: row {row + 1}: {message}" if binary else f"{path}:{row + 2}: {message}")


def _read_hdf5(path: Path) -> pl.DataFrame:
    """Read a table of samples from HDF5."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            f"{path}: is an HDF5 file, which needs the package h5py; pip install 'mlsim[energy]'"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            if "job_id" in file:
                names = [name for name in (*_NEEDED, "class") if name in file]
                return pl.DataFrame({name: _plain(file[name][...]) for name in names})
            parts = [_group(path, name, file[name]) for name in file]
    except (OSError, RuntimeError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read as HDF5: {error}") from error
    if not parts:
        raise InputError(f"{path}: has no job; needed: datasets job_id, time, power, or a group for each job")
    return pl.concat(parts)


def _group(path: Path, name: str, group: Any) -> pl.DataFrame:
    """Read the samples of one job."""
    for column in ("time", "power"):
        if not hasattr(group, "keys") or column not in group:
            raise InputError(f"{path}: {name}: has no dataset {column}; needed: time (s), power (W)")
    columns = {column: _plain(group[column][...]) for column in ("time", "power")}
    kind = group.attrs.get("class")
    frame = pl.DataFrame(columns).with_columns(job_id=pl.lit(name))
    return frame.with_columns(pl.lit(None if kind is None else str(kind), pl.String).alias("class"))


def _plain(values: Any) -> Any:
    """Return a dataset as a column; bytes as text."""
    if values.dtype.kind in "OS":
        return [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]
    return np.asarray(values)


_FREQUENCIES = 201
"""Frequencies tried around that of the highest density."""


@dataclass(frozen=True)
class JobPower:
    """Power of one job over time."""

    time: Floats
    """Seconds since the job's start, from 0 on."""
    power: Floats
    """From then on, of a node (W)."""
    period: float = float("nan")
    """Time after which the steps repeat (s); NaN: the last one holds."""


def power_steps(samples: Samples, profile: Profile, cleaning: Cleaning | None = None) -> JobPower | None:
    """Return the power over time of a job; None where samples are missing, or there are none.

    The profile is the job's classification, with the same cleaning.
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
    """Return one period as steps, each the mean of the samples in that part of the period."""
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

    Whole numbers are half a period wrong at the end, at worst, and folding would blur the sum.
    """
    n = len(values)
    tried = np.linspace(n / period - 0.75, n / period + 0.75, _FREQUENCIES) / n
    waves = np.exp(-2j * np.pi * np.outer(tried, places))
    densities = np.abs(waves @ (values - values.mean()))
    return float(1.0 / tried[int(np.argmax(densities))])


def write_steps(path: Path, jobs: Mapping[str, JobPower], *, parquet: bool = False) -> None:
    """Write the power of jobs over time: a row per step, with job_id, time (s), power (W) and period (s)."""
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


KINDS = (EnergyClass.CONSTANT, EnergyClass.PERIODIC, EnergyClass.APERIODIC, EnergyClass.NON_STATIONARY)
"""Classes that are made."""


@dataclass(frozen=True)
class GeneratedProfiles:
    """Options of generated profiles."""

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


def generated_profiles(made: GeneratedProfiles) -> Measured:
    """Return profiles with their classes; jobs are numbered from 1.

    Raises InputError if memory does not hold them.
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


def _check_size(made: GeneratedProfiles) -> None:
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
    """Return a shape with phases of low power at its begin and end."""
    found = shape.copy()
    ends = rng.uniform(60.0, 240.0, 2) / interval
    first, last = (min(int(end), len(shape) // 8) for end in ends)
    found[:first] = rng.uniform(0.05, 0.2)
    found[len(shape) - last :] = rng.uniform(0.05, 0.2)
    return found
