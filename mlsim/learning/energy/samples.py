"""Samples of the power of jobs: read from CSV, Parquet or HDF5, and written as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from mlsim._arrays import Floats
from mlsim._files import open_file
from mlsim.errors import InputError
from mlsim.learning.energy.tree import EnergyClass
from mlsim.workload.table_file import read_table

__all__ = ["Measured", "Samples", "read_samples", "write_samples"]

_NEEDED: Final = ("job_id", "time", "power")
_GAP: Final = 1.5
"""Intervals between two samples from which on one is missing."""
_PARQUET: Final = b"PAR1"
_HDF5: Final = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Samples:
    """Power of one job.

    Attributes
    ----------
    time
        Of each sample [s], rising.
    power
        Of a node [W].
    """

    time: Floats
    power: Floats

    @property
    def interval(self) -> float:
        """Time between samples [s]: the median; NaN for less than two."""
        return float(np.median(np.diff(self.time))) if len(self.time) > 1 else float("nan")

    @property
    def complete(self) -> bool:
        """Whether none is missing between the first and the last."""
        return len(self.time) < 2 or bool(np.diff(self.time).max() < _GAP * self.interval)


@dataclass(frozen=True)
class Measured:
    """What a file holds.

    Attributes
    ----------
    samples
        Of each job, in the order of the file.
    known
        The classes that the file says jobs have; empty where it says nothing.
    """

    samples: Mapping[str, Samples]
    known: Mapping[str, str] = field(default_factory=dict)


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
    """Take a table of samples apart, by jobs."""
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
    """Refuse a table if a row is wrong, and name the first: in a file of lines by its line."""
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
