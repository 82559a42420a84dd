"""Numbers under which events refer to definitions, and regions of jobs."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import _otf2
import numpy as np

from mlsim._jit import c_function, kernel
from mlsim._runtime.arrays import Ints
from mlsim.record.column_types import JobState, MessageKind
from mlsim.record.otf2.otf2_library import CallFailed, address
from mlsim.record.record_tables import Jobs

# Locations: the dispatcher, the metrics of the batch system, then the rows of the nodes in order. Readers
# expect that metrics which stand alone are on a location that is for nothing else.
BATCH_LOCATION = 0
METRIC_LOCATION = 1
FIRST_ROW = 2

Level = Literal["jobs", "nodes", "chunks", "messages"]
Rows = Literal["auto", "cores", "nodes"]

# Regions: those that a level nests in jobs, and that of the batch system, then one for each job that started.
# Numbers have no gaps, which readers would complain of.
NESTED_REGIONS: dict[Level, tuple[str, ...]] = {
    "jobs": (),
    "nodes": ("idle",),
    "chunks": ("chunk", "idle"),
    "messages": ("chunk", "idle", "chunk calculation", "request", "wait", "dispatcher"),
}
CHUNK_REGION = NESTED_REGIONS["chunks"].index("chunk")
CALCULATION_REGION = NESTED_REGIONS["messages"].index("chunk calculation")
REQUEST_REGION = NESTED_REGIONS["messages"].index("request")
DISPATCHER_REGION = NESTED_REGIONS["messages"].index("dispatcher")
WAIT_REGION = NESTED_REGIONS["messages"].index("wait")


def nested_regions(level: Level, *, merged: bool) -> tuple[str, ...]:
    """Return the names of the regions before those of jobs, by number."""
    if not merged:
        return NESTED_REGIONS[level]
    return (*("chunks" if name == "chunk" else name for name in NESTED_REGIONS[level]), SEVERAL_JOBS)


SEVERAL_JOBS = "several jobs"  # the last of them where a row shows several cores

METRIC_CLASS = 0
COMMUNICATOR = 0
CHUNK_WINDOW = 0
# What atomics do, in OTF2's numbers.
FETCH_AND_ADD = 5
FETCH_AND_INCREMENT = 6

# Attributes of events.
ITERATIONS = 0
FIRST_ITERATION = 1
STEP = 2
JOB_ID = 3
TECHNIQUE = 4
MESSAGE = 5
REMAINING_ITERATIONS = 6
REMAINING_WORK = 7
NODES = 8
FOR_JOB = 9
# Of merged rows alone.
CHUNKS = 10
PE_TIME = 11

# Strings that events refer to; string 0 is empty, as the format advises.
TECHNIQUE_STRING = 1
KIND_STRING = 2
# Messages inside of loops come after the kinds of coordination messages.
CHUNK_REQUEST = len(MessageKind)
CHUNK_REPLY = CHUNK_REQUEST + 1
_KINDS = (*(kind.name.lower().replace("_", " ") for kind in MessageKind), "chunk request", "chunk reply")


def fixed_strings(technique: str) -> list[str]:
    """List the strings that have fixed numbers, from 0 on.

    >>> fixed_strings("GSS")[:4]
    ['', 'GSS', 'node idle', 'job completed']
    """
    return ["", technique, *_KINDS]


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
    """Texts on jobs for trace readers."""

    names: list[str]  # of each job
    ids: list[str]  # its number, as text
    kinds: list[str]  # distinct further descriptions; many jobs share one
    kind_of: Ints  # index of each job's description in kinds


def describe_jobs(jobs: Jobs, rows: Ints) -> JobTexts:
    """Return the texts on the jobs in these rows for trace readers."""
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
    """Define the region of every started job; raise CallFailed if the library fails.

    ``writer`` is the address of the writer of global definitions, ``numbers`` the region of each job
    (negative: none), ``source`` the string of their source file. ``strings`` defines new texts and reserves
    numbers for further ones: it returns the numbers of the texts and the first reserved one.
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
    """Store ASCII texts as C strings; return their addresses, and the buffer to keep alive."""
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
