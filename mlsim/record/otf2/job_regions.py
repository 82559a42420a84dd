"""Regions of jobs: a trace may have very many of this one definition, so that a compiled pass makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import _otf2
import numpy as np

from mlsim._arrays import Ints
from mlsim._jit import c_function, kernel
from mlsim.record.codes import JobState
from mlsim.record.otf2.library import CallFailed, address
from mlsim.record.tables import Jobs

if TYPE_CHECKING:
    import polars as pl

__all__ = ["describe_jobs", "write_job_regions"]

_number, _byte = "uint32", "uint8"
# (writer, its number, where its text is)
_string = c_function("int32", "intp", _number, "intp")
# (writer, its number, name, canonical name, description, role, paradigm, flags, source file, its lines)
_region = c_function("int32", "intp", *[_number] * 4, *[_byte, _byte], *[_number] * 4)


class _Common(NamedTuple):
    """Addresses of the library's functions, the writer, and what the regions of all jobs are alike in."""

    string: int
    region: int
    writer: int
    role: int
    paradigm: int
    source: int


def describe_jobs(jobs: Jobs) -> pl.DataFrame:
    """Return what readers are told of each job: ``name``, ``number`` and ``about``."""
    import polars as pl

    ends = {state.value: state.name.lower() for state in JobState}
    asked = "job_id", "executable", "user", "processors", "state", "backfilled"
    nothing = pl.lit("")
    executable = pl.when(pl.col("executable") >= 0).then(pl.format(" executable {}", "executable"))
    user = pl.when(pl.col("user") >= 0).then(pl.format("user {}, ", "user"))
    return pl.DataFrame({name: getattr(jobs, name) for name in asked}).select(
        name=pl.format("J{}{}", "job_id", executable.otherwise(nothing)),
        number=pl.col("job_id").cast(pl.String),
        about=pl.format(
            "{}{} processors, {}{}",
            user.otherwise(nothing),
            "processors",
            pl.col("state").cast(pl.Int64).replace_strict(ends, return_dtype=pl.String),
            pl.when("backfilled").then(pl.lit(", backfilled")).otherwise(nothing),
        ),
    )


def write_job_regions(
    writer: int, jobs: Jobs, numbers: Ints, source: int, strings: Callable[[list[str], int], tuple[Ints, int]]
) -> None:
    """Define the region of every job that started, with its name and its canonical name.

    Parameters
    ----------
    writer
        Address of the writer of global definitions.
    jobs
        The jobs.
    numbers
        Number of each job's region, negative where there is none.
    source
        Number of the string of their source file.
    strings
        Defines texts that are not known yet, and keeps so many numbers of further strings free; returns the
        numbers of the texts, and the first that it kept free.

    Raises
    ------
    CallFailed
        Where the library could not.
    """
    import polars as pl

    started = np.flatnonzero(numbers >= 0)
    if not len(started):
        return
    told = describe_jobs(jobs)[started]
    kinds = told["about"].unique(maintain_order=True)
    about, free = strings(kinds.to_list(), 2 * len(started))
    place = told["about"].cast(pl.Enum(kinds)).to_physical().to_numpy()
    common = _Common(
        address("GlobalDefWriter_WriteString"),
        address("GlobalDefWriter_WriteRegion"),
        writer,
        _otf2.REGION_ROLE_FUNCTION.value,
        _otf2.PARADIGM_USER.value,
        source,
    )
    (names, kept), (ids, kept_too) = (_in_memory(told[column]) for column in ("name", "number"))
    failed = _define(common, numbers[started], free, names, ids, about[place])
    del kept, kept_too  # what the addresses are of
    if failed:
        raise CallFailed


def _in_memory(texts: pl.Series) -> tuple[Ints, bytes]:
    """Put texts into memory as C expects them; return their addresses, and what must be kept meanwhile."""
    content = "\0".join(texts.to_list()).encode() + b"\0"
    lengths = texts.str.len_bytes().to_numpy().astype(np.int64) + 1
    base = np.frombuffer(content, np.uint8).ctypes.data
    return base + np.cumsum(lengths) - lengths, content


@kernel(_nrt=False)
def _define(common: _Common, numbers: Ints, free: int, names: Ints, ids: Ints, about: Ints) -> int:
    """Define regions, each after its name and its canonical name; return 0, or the first failure."""
    for row in range(len(numbers)):
        name = free + 2 * row
        failed = _string(common.string, common.writer, name, names[row])
        failed |= _string(common.string, common.writer, name + 1, ids[row])
        alike = common.role, common.paradigm, 0, common.source, 0, 0
        failed |= _region(common.region, common.writer, numbers[row], name, name + 1, about[row], *alike)
        if failed != 0:
            return failed
    return 0
