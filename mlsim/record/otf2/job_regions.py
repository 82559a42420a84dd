"""Regions of jobs: a trace may have very many of this one definition, so that a compiled pass makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import _otf2
import numpy as np

from mlsim._arrays import Ints
from mlsim._jit import c_function, kernel
from mlsim.record.codes import JobState
from mlsim.record.otf2.library import CallFailed, address
from mlsim.record.tables import Jobs

__all__ = ["JobTexts", "describe_jobs", "write_job_regions"]

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


class JobTexts(NamedTuple):
    """What readers are told of jobs."""

    names: list[str]
    """Of each job."""
    ids: list[str]
    """The number of each job."""
    kinds: list[str]
    """What else there is to say of jobs; many are alike in it."""
    kind_of: Ints
    """Which of the kinds each job is of."""


def describe_jobs(jobs: Jobs, rows: Ints) -> JobTexts:
    """Return what readers are told of the jobs in these rows."""
    ids, executables = jobs.job_id[rows].tolist(), jobs.executable[rows].tolist()
    names = [
        f"J{job}" if executable < 0 else f"J{job} executable {executable}"
        for job, executable in zip(ids, executables, strict=True)
    ]
    users = np.maximum(jobs.user[rows], -1).tolist()  # whatever is below 0 is unknown
    told = (column[rows].tolist() for column in (jobs.processors, jobs.state, jobs.backfilled))
    place: dict[tuple[int, int, int, bool], int] = {}
    kind_of = [place.setdefault(kind, len(place)) for kind in zip(users, *told, strict=True)]
    return JobTexts(names, list(map(str, ids)), [_kind(*kind) for kind in place], np.array(kind_of, np.int64))


def _kind(user: int, processors: int, state: int, backfilled: bool) -> str:
    who = f"user {user}, " if user >= 0 else ""
    return f"{who}{processors} processors, {_ENDS[state]}{', backfilled' if backfilled else ''}"


_ENDS = {state.value: state.name.lower() for state in JobState}


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
    started = np.flatnonzero(numbers >= 0)
    if not len(started):
        return
    told = describe_jobs(jobs, started)
    about, free = strings(told.kinds, 2 * len(started))
    common = _Common(
        address("GlobalDefWriter_WriteString"),
        address("GlobalDefWriter_WriteRegion"),
        writer,
        _otf2.REGION_ROLE_FUNCTION.value,
        _otf2.PARADIGM_USER.value,
        source,
    )
    (names, kept), (ids, kept_too) = map(_in_memory, (told.names, told.ids))
    failed = _define(common, numbers[started], free, names, ids, about[told.kind_of])
    del kept, kept_too  # what the addresses are of
    if failed:
        raise CallFailed


def _in_memory(texts: list[str]) -> tuple[Ints, bytes]:
    """Put plain texts into memory as C expects them; return their addresses, and what must be kept."""
    content = "\0".join(texts).encode("ascii") + b"\0"
    lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + 1
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
