"""The definitions of a trace."""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import _otf2
import numpy as np

from mlsim._jit import c_function, kernel
from mlsim._runtime.arrays import Ints
from mlsim.record.column_types import JobState
from mlsim.record.otf2 import trace_layout as refs
from mlsim.record.otf2.otf2_library import CallFailed, address, function
from mlsim.record.otf2.trace_content import Content, Metric, TraceOptions, metrics_of
from mlsim.record.otf2.trace_layout import Layout, Processes, fixed_strings, nested_regions
from mlsim.record.record_tables import Jobs, Records

TICKS_PER_SECOND = 1_000_000_000
SIZE_TYPES = {8: _otf2.TYPE_UINT8, 16: _otf2.TYPE_UINT16, 32: _otf2.TYPE_UINT32, 64: _otf2.TYPE_UINT64}
"""Types of the iterations of chunks, by bits: a trace has the smallest that holds them all."""

_u32, _u64, _u8 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint8
_write_string = function("GlobalDefWriter_WriteString", ctypes.c_void_p, _u32, ctypes.c_char_p)
_write_location = function("GlobalDefWriter_WriteLocation", ctypes.c_void_p, _u64, _u32, _u8, _u64, _u32)
_write_region = function(
    "GlobalDefWriter_WriteRegion", ctypes.c_void_p, _u32, _u32, _u32, _u32, _u8, _u8, _u32, _u32, _u32, _u32
)

_THREAD = _otf2.LOCATION_TYPE_CPU_THREAD
_REGIONS = _otf2.GROUP_TYPE_REGIONS, _otf2.PARADIGM_USER
# A member takes up to 5 bytes, and a definition has to fit in a buffer of 2^20.
_LARGEST_GROUP = 100_000

_ATTRIBUTES = (
    (refs.FIRST_ITERATION, "first iteration", "the chunk's first iteration, from 0", _otf2.TYPE_UINT64),
    (refs.STEP, "step", "scheduling step that sized the chunk", _otf2.TYPE_UINT64),
    (refs.JOB_ID, "job id", "the job's identifier in the workload", _otf2.TYPE_UINT64),
    (refs.TECHNIQUE, "technique", "loop self-scheduling technique of the job's loop", _otf2.TYPE_STRING),
    (refs.MESSAGE, "message", "kind of coordination message", _otf2.TYPE_STRING),
    (refs.REMAINING_ITERATIONS, "remaining iterations", "iterations not yet executed", _otf2.TYPE_INT64),
    (refs.REMAINING_WORK, "remaining work", "PE-seconds of work not yet executed", _otf2.TYPE_DOUBLE),
    (refs.NODES, "nodes", "how many nodes are asked for", _otf2.TYPE_UINT64),
    (refs.FOR_JOB, "for job", "identifier of the job that nodes are asked for", _otf2.TYPE_UINT64),
)
_OF_MERGED = (
    (refs.CHUNKS, "chunks", "chunks that begin in it", _otf2.TYPE_UINT64),
    (refs.PE_TIME, "PE time", "seconds of chunks in it, summed over PEs", _otf2.TYPE_DOUBLE),
)


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


class _Writer:
    """The writer of global definitions, with its table of strings."""

    def __init__(self, archive: Any, technique: str, several: Sequence[str]) -> None:
        self.handle = _otf2.Archive_GetGlobalDefWriter(archive)
        self.pointer = ctypes.cast(self.handle, ctypes.c_void_p)
        self._known: dict[str, int] = {}
        self._strings = self._groups = 0
        for text in fixed_strings(technique, several):
            self._known.setdefault(text, self.new_text(text))

    def new_text(self, text: str) -> int:
        """Define a string and get its reference."""
        reference = self._strings
        self._strings += 1
        _write_string(self.pointer, reference, text.encode("utf-8", "replace"))
        return reference

    def text(self, text: str) -> int:
        """Get the reference of a string that may have been defined before."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self.new_text(text)
        return known

    def texts(self, texts: list[str], more: int) -> tuple[Ints, int]:
        """Get the references of strings, and the first of so many ``more`` that others define."""
        found = np.array([self.text(text) for text in texts], np.int64)
        free, self._strings = self._strings, self._strings + more
        return found, free

    def location(self, location: int, name: str, events: int, group: int, kind: Any = _THREAD) -> None:
        """Define a location of a location group."""
        _write_location(self.pointer, location, self.text(name), kind.value, events, group)

    def group(self, name: str, kind: Any, paradigm: Any, members: Iterable[int]) -> int:
        """Define a group and return its number."""
        number, self._groups = self._groups, self._groups + 1
        label, flag = self.text(name), _otf2.GROUP_FLAG_NONE
        _otf2.GlobalDefWriter_WriteGroup(self.handle, number, label, kind, paradigm, flag, list(members))
        return number

    def region(self, region: int, name: int, canonical: int, about: int, role: int, source: int) -> None:
        """Define a region of the user's code; all but the role are references."""
        user, lines = _otf2.PARADIGM_USER.value, (0, 0)
        _write_region(self.pointer, region, name, canonical, about, role, user, 0, source, *lines)


def write_definitions(
    archive: Any,
    options: TraceOptions,
    records: Records,
    layout: Layout,
    content: Content,
    events: Ints,
    span: tuple[int, int],
) -> None:
    """Write all definitions, after the events; ``span``: first time of the clock and last event [ns]."""
    level, ranks, technique, job_region = options.level, options.ranks, options.technique, content.jobs.region
    several = [name for _, name in sorted(records.names.of.get("technique", {}).items())]
    writer = _Writer(archive, technique, several)
    undefined = _otf2.UNDEFINED_TIMESTAMP.value
    _otf2.GlobalDefWriter_WriteClockProperties(
        writer.handle, TICKS_PER_SECOND, span[0], span[1] - span[0], undefined
    )
    if ranks is None:
        _write_machine(writer, layout.processes)
        _write_locations(writer, layout, events)
    else:
        _write_ranks(writer, layout, ranks.numbers, events)
    _write_nested_regions(writer, technique, nested_regions(level, merged=layout.merged))
    source = writer.text(options.workload_name)
    write_job_regions(address(writer.handle), records.jobs, job_region, source, writer.texts)
    if ranks is not None:
        members = (refs.FIRST_ROW + np.argsort(ranks.numbers)).tolist()
        _write_communicator(writer, "MPI_COMM_WORLD", "ranks", members)
    else:
        _write_metrics(writer, metrics_of(records))
        if level != "jobs":
            _write_communicator(writer, "coordination", "batch system and nodes", _coordination(layout))
    if level == "messages":
        _write_window(writer)
    if level != "jobs":
        _write_attributes(writer, content.size_bits, layout.merged)
    _write_job_groups(writer, records, job_region, technique)
    _otf2.Archive_CloseGlobalDefWriter(archive, writer.handle)


def _write_attributes(writer: _Writer, size_bits: int, merged: bool) -> None:
    """Write the attributes of events."""
    where = "chunks that begin in it" if merged else "chunk"
    iterations = (refs.ITERATIONS, "iterations", f"iterations in the {where}", SIZE_TYPES[size_bits])
    for attribute, name, about, kind in (iterations, *_ATTRIBUTES, *(_OF_MERGED if merged else ())):
        labels = writer.text(name), writer.text(about)
        _otf2.GlobalDefWriter_WriteAttribute(writer.handle, attribute, *labels, kind)


def _write_machine(writer: _Writer, processes: Processes) -> None:
    """Write the system tree, and a location group a process and for the batch system."""
    handle, text = writer.handle, writer.text
    process, no_creator = _otf2.LOCATION_GROUP_TYPE_PROCESS, _otf2.UNDEFINED_LOCATION_GROUP.value
    trees = _write_tree(writer, processes)
    _otf2.GlobalDefWriter_WriteLocationGroup(handle, 0, text("batch system"), process, 0, no_creator)
    for number, (name, tree) in enumerate(zip(processes.name, trees, strict=True)):
        _otf2.GlobalDefWriter_WriteLocationGroup(handle, 1 + number, text(name), process, tree, no_creator)


def _write_ranks(writer: _Writer, layout: Layout, numbers: Ints, events: Ints) -> None:
    """Write the system tree, and each rank: a process on its node, with one thread."""
    process, no_creator = _otf2.LOCATION_GROUP_TYPE_PROCESS, _otf2.UNDEFINED_LOCATION_GROUP.value
    trees = np.array(_write_tree(writer, layout.processes))[layout.row_process].tolist()
    for row, (rank, tree) in enumerate(zip(numbers.tolist(), trees, strict=True)):
        name = writer.text(f"MPI Rank {rank}")
        _otf2.GlobalDefWriter_WriteLocationGroup(writer.handle, row, name, process, tree, no_creator)
        writer.location(refs.FIRST_ROW + row, "Master thread", int(events[refs.FIRST_ROW + row]), row)


def _write_tree(writer: _Writer, processes: Processes) -> list[int]:
    """Write the system tree cluster -> group -> node, or nodes; return the numbers of these in it."""
    handle, text = writer.handle, writer.text
    undefined = _otf2.UNDEFINED_SYSTEM_TREE_NODE.value
    _otf2.GlobalDefWriter_WriteSystemTreeNode(handle, 0, text("cluster"), text("machine"), undefined)
    _otf2.GlobalDefWriter_WriteSystemTreeNodeDomain(handle, 0, _otf2.SYSTEM_TREE_DOMAIN_MACHINE)
    groups = {name: 1 + number for number, name in enumerate(dict.fromkeys(processes.group))}
    for name, number in groups.items():
        _otf2.GlobalDefWriter_WriteSystemTreeNode(handle, number, text(name), text("group"), 0)
    trees = []
    kind = "node" if processes.nodes == 1 else "nodes"
    for number, (name, group) in enumerate(zip(processes.name, processes.group, strict=True)):
        tree = 1 + len(groups) + number
        _otf2.GlobalDefWriter_WriteSystemTreeNode(handle, tree, text(name), text(kind), groups[group])
        if processes.nodes == 1:
            memory = _otf2.SYSTEM_TREE_DOMAIN_SHARED_MEMORY
            _otf2.GlobalDefWriter_WriteSystemTreeNodeDomain(handle, tree, memory)
        trees.append(tree)
    return trees


def _write_locations(writer: _Writer, layout: Layout, events: Ints) -> None:
    """Write the dispatcher's location, that of metrics, and every row's."""
    counts = events.tolist()
    writer.location(refs.BATCH_LOCATION, "dispatcher", counts[refs.BATCH_LOCATION], 0)
    metric = _otf2.LOCATION_TYPE_METRIC
    writer.location(refs.METRIC_LOCATION, "metrics", counts[refs.METRIC_LOCATION], 0, metric)
    rows = np.flatnonzero(layout.shown)
    cores = rows - layout.node_row[layout.row_node[rows]]
    columns = (column.tolist() for column in (rows, cores, layout.row_process[rows]))
    for row, core, process in zip(*columns, strict=True):
        name = "all cores" if layout.per_node or layout.merged else f"core {core}"
        writer.location(refs.FIRST_ROW + row, name, counts[refs.FIRST_ROW + row], 1 + process)


def _write_nested_regions(writer: _Writer, technique: str, names: Sequence[str]) -> None:
    """Write the regions that are nested in those of jobs, each in a group of its own."""
    by, of = (f", handed out by {technique}", f" of {technique}") if technique else ("", "")
    kinds = {
        "chunk": (f"iterations of a loop{by}", _otf2.REGION_ROLE_LOOP),
        "idle": ("held by a job that has no more work for it", _otf2.REGION_ROLE_ARTIFICIAL),
        "chunk calculation": (f"a chunk{of} is calculated, and assigned", _otf2.REGION_ROLE_FUNCTION),
        "request": ("a PE asks for a chunk until it begins it", _otf2.REGION_ROLE_POINT2POINT),
        "dispatcher": ("the batch system, from the first to the last event", _otf2.REGION_ROLE_FUNCTION),
        "wait": ("a request, or a thread, waits for others", _otf2.REGION_ROLE_ARTIFICIAL),
        "chunks": (f"some PE executes a chunk{by}", _otf2.REGION_ROLE_LOOP),
        refs.SEVERAL_JOBS: ("held by more than one job", _otf2.REGION_ROLE_ARTIFICIAL),
    }
    for region, name in enumerate(names):
        about, role = kinds[name]
        own = writer.text(name)
        writer.region(region, own, own, writer.text(about), role.value, writer.text(""))
        writer.group(f"chunks{of}" if name in ("chunk", "chunks") else name, *_REGIONS, [region])


def _write_job_groups(writer: _Writer, records: Records, job_region: Ints, technique: str) -> None:
    """Write groups of jobs' regions: of those whose loops a technique schedules, and of each user."""
    jobs = records.jobs
    looping = np.unique(records.loops.job)
    if technique and jobs.technique is None and len(looping):
        regions = job_region[looping]
        _write_job_group(writer, f"jobs under {technique}", regions[regions >= 0])
    of_code = ("technique", "jobs under", jobs.technique), ("application", "application", jobs.application)
    for column, title, codes in (*of_code, ("user", "user", jobs.user)):
        names = records.names.of.get(column, {})
        shown = (
            np.flatnonzero((job_region >= 0) & (codes >= 0)) if codes is not None else np.empty(0, np.int64)
        )
        if codes is None or not len(shown):
            continue
        shown = shown[np.argsort(codes[shown], kind="stable")]
        groups, first = np.unique(codes[shown], return_index=True)
        for code, rows in zip(groups.tolist(), np.split(shown, first[1:]), strict=False):
            _write_job_group(writer, f"{title} {names.get(code, code)}", job_region[rows])


def _write_job_group(writer: _Writer, name: str, regions: Ints) -> None:
    """Write a group of jobs' regions, in parts where a definition of all would not fit in one buffer."""
    parts = -(-len(regions) // _LARGEST_GROUP)
    for part in range(parts):
        members = regions[part * _LARGEST_GROUP : (part + 1) * _LARGEST_GROUP].tolist()
        writer.group(f"{name}, part {part + 1}" if parts > 1 else name, *_REGIONS, members)


def metric_type(metric: Metric) -> Any:
    """Return the type of a metric's values."""
    return _otf2.TYPE_UINT64 if metric.whole else _otf2.TYPE_DOUBLE


def _write_metrics(writer: _Writer, metrics: Sequence[Metric]) -> None:
    """Write the metric class, which the location of metrics records."""
    handle, text = writer.handle, writer.text
    for member, metric in enumerate(metrics):
        words = member, text(metric.name), text(metric.about)
        kinds = _otf2.METRIC_TYPE_USER, _otf2.METRIC_ABSOLUTE_LAST, metric_type(metric), _otf2.BASE_DECIMAL
        _otf2.GlobalDefWriter_WriteMetricMember(handle, *words, *kinds, 0, text(metric.unit))
    occurrence, recorder = _otf2.METRIC_ASYNCHRONOUS, _otf2.RECORDER_KIND_ABSTRACT
    _otf2.GlobalDefWriter_WriteMetricClass(
        handle, refs.METRIC_CLASS, range(len(metrics)), occurrence, recorder
    )
    _otf2.GlobalDefWriter_WriteMetricClassRecorder(handle, refs.METRIC_CLASS, refs.METRIC_LOCATION)


def _coordination(layout: Layout) -> list[int]:
    """Return the locations of the ranks of a simulated run: the batch system, then processes of nodes."""
    _, first = np.unique(layout.processes.of_node, return_index=True)
    first = first[layout.processes.of_node[first] >= 0]  # the first node of each process
    return [refs.BATCH_LOCATION, *(refs.FIRST_ROW + layout.node_row[first]).tolist()]


def _write_window(writer: _Writer) -> None:
    """Write the window of loops, of which each rank has a part."""
    name, flag = writer.text("chunk window"), _otf2.RMA_WIN_FLAG_NONE
    _otf2.GlobalDefWriter_WriteRmaWin(writer.handle, refs.CHUNK_WINDOW, name, refs.COMMUNICATOR, flag)


def _write_communicator(writer: _Writer, label: str, name: str, members: list[int]) -> None:
    """Write the communicator of locations, and its members as places in the list of all."""
    handle, text = writer.handle, writer.text
    mpi = _otf2.PARADIGM_MPI
    _otf2.GlobalDefWriter_WriteParadigm(handle, mpi, text("MPI"), _otf2.PARADIGM_CLASS_PROCESS)
    writer.group(label, _otf2.GROUP_TYPE_COMM_LOCATIONS, mpi, members)
    group = writer.group(name, _otf2.GROUP_TYPE_COMM_GROUP, mpi, range(len(members)))
    undefined, flag = _otf2.UNDEFINED_COMM.value, _otf2.COMM_FLAG_NONE
    _otf2.GlobalDefWriter_WriteComm(handle, refs.COMMUNICATOR, text(label), group, undefined, flag)
