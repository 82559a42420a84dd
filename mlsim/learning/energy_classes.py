"""Energy profiles of jobs: samples of power measured or generated, cleaned, classified, and as steps."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from mlsim._files import open_file
from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.scenario.simulation_demand import Share, check_memory
from mlsim.workload.measured_power import read_table

SHORTEST: Final = 12  # Samples that a cleaned profile must have to be judged: two for each of six windows


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
    """Thresholds on power scaled to [0, 1], of the source by default (§7.4.4 to 7.4.6, Eq. 7.1)."""

    windows: int = 6  # Parts of which the means are compared
    stationary: float = 0.1  # Standard deviation of these means above which a profile is non-stationary
    constant: float = 0.1  # Standard deviation of the samples below which it is constant
    periodic: float = 1.0  # Highest spectral density |X_k|² / n above which it is periodic
    least: float | None = None  # Power that counts as 0 [W]; None: the least of all jobs
    most: float | None = None  # Power that counts as 1 [W]; None: the most of all jobs


@dataclass(frozen=True)
class Profile:
    """Result for one job."""

    kind: EnergyClass
    samples: int  # Samples after cleaning
    mean: float  # Mean power of these (W)
    deviation: float = np.nan  # Standard deviation of scaled power; NaN where the test was not reached
    windows_deviation: float = np.nan  # That of the means of windows; likewise
    density: float = np.nan  # Highest spectral density; likewise
    period: float = np.nan  # Samples (of twelve raw ones each) of a period; NaN unless it is periodic


@dataclass(frozen=True)
class Cleaning:
    """Preprocessing of samples before classification; the source's by default (§7.4.2)."""

    group: int = 12  # Raw samples that become one mean; those left over at the end are dropped
    head: int = 5  # Means that are cut from the beginning; the source states "a few minutes"
    tail: int = 5  # Means that are cut from the end
    outliers: float = 3.0  # Distance from the mean, in standard deviations, beyond which a mean is dropped

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
    """Return the class of each profile of a platform: job to cleaned samples [W].

    Incomplete jobs are not judged, as in the source (§7.4.1), nor do they count for the scale.
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


_NEEDED: Final = ("job_id", "time", "power")
_GAP: Final = 1.5  # Intervals between two samples from which on one is missing
_PARQUET: Final = b"PAR1"
_HDF5: Final = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Samples:
    """Power of one job."""

    time: Floats  # Of each sample (s), rising
    power: Floats  # Of a node (W)

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

    samples: Mapping[str, Samples]  # Of each job, in the order of the file
    known: Mapping[str, str] = field(default_factory=dict)  # The classes of jobs in the file, if it has any


def read_samples(path: str | Path) -> Measured:
    """Read samples of power from CSV, Parquet or HDF5 (columns, or a group per job)."""
    path = Path(path)
    with open_file(path, "table of power") as file:
        begins = file.read(len(_HDF5))
    if begins == _HDF5:
        return _jobs_of(path, _read_hdf5(path))
    return _jobs_of(path, read_table(path, "table of power", (*_NEEDED, "class")))


def write_samples(path: Path, measured: Measured) -> None:
    """Write samples as CSV."""
    parts = [
        pl.DataFrame({"time": samples.time, "power": samples.power.round(3)}).select(
            pl.lit(job).alias("job_id"),
            pl.lit(measured.known.get(job), pl.String).alias("class"),
            "time",
            "power",
        )
        for job, samples in measured.samples.items()
    ]
    pl.concat(parts).write_csv(path)


def _jobs_of(path: Path, frame: pl.DataFrame) -> Measured:
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
            parts = []
            for name, group in file.items():
                for column in ("time", "power"):
                    if not hasattr(group, "keys") or column not in group:
                        raise InputError(
                            f"{path}: {name}: has no dataset {column}; needed: time (s), power (W)"
                        )
                columns = {column: _plain(group[column][...]) for column in ("time", "power")}
                kind = group.attrs.get("class")
                word = pl.lit(None if kind is None else str(kind), pl.String)
                frame = pl.DataFrame(columns).with_columns(job_id=pl.lit(name))
                parts.append(frame.with_columns(word.alias("class")))
    except (OSError, RuntimeError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read as HDF5: {error}") from error
    if not parts:
        raise InputError(f"{path}: has no job; needed: datasets job_id, time, power, or a group for each job")
    return pl.concat(parts)


def _plain(values: Any) -> Any:
    """Return a dataset as a column; bytes as text."""
    if values.dtype.kind in "OS":
        return [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]
    return np.asarray(values)


_FREQUENCIES = 201  # Frequencies tried around that of the highest density


@dataclass(frozen=True)
class JobPower:
    """Power of one job over time."""

    time: Floats  # Seconds since the job's start, from 0 on
    power: Floats  # From then on, of a node (W)
    period: float = float("nan")  # Time after which the steps repeat (s); NaN: the last one holds


def power_steps(samples: Samples, profile: Profile, cleaning: Cleaning | None = None) -> JobPower | None:
    """Return the power over time of a classified job; None where samples are missing."""
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
    # The period of the highest density near the given one, which is that of a whole number of periods: those
    # are half a period wrong at the end, at worst, and folding would blur the sum.
    n = len(values)
    tried = np.linspace(n / period - 0.75, n / period + 0.75, _FREQUENCIES) / n
    densities = np.abs(np.exp(-2j * np.pi * np.outer(tried, places)) @ (values - values.mean()))
    period = float(1.0 / tried[int(np.argmax(densities))])
    parts = max(round(period), 2)
    part = (((places + 0.5) % period) / period * parts).astype(np.int64) % parts
    counts = np.bincount(part, minlength=parts)
    sums = np.bincount(part, values, parts)
    power = np.where(counts > 0, sums / np.maximum(counts, 1), values.mean())
    return JobPower(
        np.arange(parts, dtype=np.float64) * (period * distance / parts), power, period * distance
    )


def write_steps(path: Path, jobs: Mapping[str, JobPower], *, parquet: bool = False) -> None:
    """Write the power of jobs over time: a row per step, with job_id, time (s), power (W) and period (s)."""
    schema = {"job_id": pl.String, "time": pl.Float64, "power": pl.Float64, "period": pl.Float64}
    parts = [
        pl.DataFrame({"time": steps.time, "power": steps.power}).select(
            pl.lit(job).alias("job_id"),
            "time",
            "power",
            pl.lit(None if np.isnan(steps.period) else steps.period, pl.Float64).alias("period"),
        )
        for job, steps in jobs.items()
    ]
    frame = pl.concat([pl.DataFrame(schema=schema), *parts])
    (frame.write_parquet if parquet else frame.write_csv)(path)


# Classes that are generated.
KINDS = (EnergyClass.CONSTANT, EnergyClass.PERIODIC, EnergyClass.APERIODIC, EnergyClass.NON_STATIONARY)


@dataclass(frozen=True)
class GeneratedProfiles:
    """Options of generated profiles."""

    each: int = 100  # Jobs of each class
    shortest: float = 1800.0  # Least time that a job takes [s]; the source takes jobs of 30 minutes and more
    longest: float = 86_400.0  # Most of it [s]; times are drawn evenly from their logarithms
    interval: float = 5.0  # Time between samples [s]
    noise: float = 0.05  # Standard deviation of the noise of a sample, as a share of the range of power
    idle: float = 60.0  # Least power [W]
    busy: float = 220.0  # Most [W]
    seed: int = 0  # Of all draws


def generated_profiles(made: GeneratedProfiles) -> Measured:
    """Return profiles with their classes; jobs are numbered from 1."""
    jobs = made.each * len(KINDS)
    ratio = made.longest / made.shortest
    mean = made.shortest * ((ratio - 1.0) / np.log(ratio) if ratio > 1.0 else 1.0)
    count = jobs * max(mean / made.interval, 2.0)
    share = Share("--each", f"{jobs:,} jobs with about {count:,.0f} samples", count * _SAMPLE)
    check_memory("profiles", [share], "these jobs")
    rng = np.random.default_rng(made.seed)
    samples: dict[str, Samples] = {}
    known: dict[str, str] = {}
    for _ in range(made.each):
        for kind in KINDS:
            job = str(len(samples) + 1)
            duration = np.exp(rng.uniform(np.log(made.shortest), np.log(made.longest)))
            n = max(int(duration / made.interval), 2)
            shape = _shape(kind, n, made.interval, rng)
            # Phases of low power at the begin and the end.
            first, last = (min(int(end), n // 8) for end in rng.uniform(60.0, 240.0, 2) / made.interval)
            shape[:first] = rng.uniform(0.05, 0.2)
            shape[n - last :] = rng.uniform(0.05, 0.2)
            noisy = shape + rng.normal(0.0, made.noise, n)
            spikes = rng.random(n) < 1e-3
            noisy[spikes] = rng.choice([0.0, 1.0], int(spikes.sum()))
            power = made.idle + np.clip(noisy, 0.0, 1.0) * (made.busy - made.idle)
            samples[job], known[job] = (
                Samples(np.arange(n, dtype=np.float64) * made.interval, power),
                str(kind),
            )
    return Measured(samples, known)


_SAMPLE = 64  # Bytes of a sample until it is written


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
    return level + swing * away
