"""One run's records as an OTF2 trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import _otf2
import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Ints
from mlsim.errors import MlsimError, OutputError
from mlsim.record.column_types import empty
from mlsim.record.growing_arrays import let_go
from mlsim.record.otf2.event_pass import write_batch, write_metrics, write_rows
from mlsim.record.otf2.merged_rows import Work, work_space, write_merged_rows
from mlsim.record.otf2.otf2_library import (
    ROWS_AN_ARCHIVE,
    TRACE_NAME,
    CallFailed,
    address,
    apart,
    failures,
    find_api,
    fix_trace_id,
    open_archive,
    write_local_definitions,
)
from mlsim.record.otf2.row_events import TIES_STAY
from mlsim.record.otf2.trace_content import (
    CHUNK_FIELDS,
    ChunkColumns,
    Content,
    Intervals,
    JobColumns,
    NoRequests,
    Part,
    Requests,
    Selection,
    chunks_by_interval,
    nth_chunk,
    part_of,
    row_ranges,
    select_messages,
    select_samples,
)
from mlsim.record.otf2.trace_definitions import SIZE_TYPES, Names, metric_type, write_definitions
from mlsim.record.otf2.trace_layout import (
    MOST_ROWS,
    Layout,
    PePlaces,
    lay_out,
    merge_rows,
    nanoseconds,
    place_pes,
    told_times,
    without_rows,
)
from mlsim.record.otf2.trace_messages import (
    BATCH_RANK,
    MessageEvents,
    Samples,
    application_nodes,
    deliver,
    metrics_of,
    sample_metrics,
)
from mlsim.record.otf2.trace_references import (
    BATCH_LOCATION,
    FIRST_ROW,
    METRIC_LOCATION,
    Level,
    Rows,
    nested_regions,
)
from mlsim.record.otf2.trace_requests import Service, rank_messages, requests_of
from mlsim.record.record_tables import Chunks, Jobs, Messages, PEs, Ranks, Records
from mlsim.record.table_blocks import n_rows, size_range

_EVERYTHING = Selection()
_AT_ONCE = Service()


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """The size of a trace: events, locations, and bytes of all its files.

    ``nodes_per_row`` is 0 where rows are as the level has them, else how many nodes a row shows at most.
    """

    events: int
    locations: int
    bytes: int
    nodes_per_row: int = 0


def write_otf2(
    directory: Path | str,
    records: Records,
    level: Level,
    *,
    scenario_name: str,
    technique: str,
    workload_name: str,
    exclusive_nodes: bool,
    pes_per_node: int | None = None,
    details: bool = False,
    ranks: Ranks | None = None,
    selection: Selection = _EVERYTHING,
    service: Service = _AT_ONCE,
    apart: bool = False,
    rows: Rows = "auto",
) -> TraceInfo:
    """Write ``directory/traces.otf2`` and the files that belong to it; the same records give the same bytes.

    Parameters
    ----------
    directory, records
        The directory is created if it is missing, and must not contain a trace.
    level
        ``jobs``: jobs on their cores, and the batch system's metrics. ``nodes``: also the idle time of
        cores whose job has no more work for them, and coordination messages. ``chunks``: also every
        chunk. ``messages``: also requests to masters and replies, or atomics on windows, and the
        calculation of sizes.
    scenario_name, technique, workload_name
        Names in the trace; the workload appears as the jobs' source file.
    exclusive_nodes
        Whether a job does not share its nodes. Levels ``jobs`` and ``nodes`` then show a row per node, not
        per core.
    pes_per_node
        Cores per node on which a job executes PEs; None: all that it holds.
    details
        Whether chunks have their first iteration and their step, which follow from the sizes before.
    ranks
        Of a real run, with a row per rank and no batch system; None: a simulated run.
    selection
        The part of the run to show: regions open at the ends of its span are entered and left there.
    service
        Masters or windows that PEs ask, their times, and lengths of messages; for ``messages``.
    apart
        Whether events of a location at the same time are moved apart, by 1 ns each.
    rows
        ``cores``: as the level has them; ``nodes``: one per node; ``auto``: as the level has them up to
        :data:`~mlsim.record.otf2.trace_layout.MOST_ROWS` rows, else one per node, or per several nodes.

    Raises
    ------
    MlsimError
        If files cannot be written, the part has no events, or the records contradict each other.
    """
    directory = Path(directory)
    if (directory / f"{TRACE_NAME}.otf2").exists():
        raise OutputError(f"{directory} has a trace in it already; remove it or name another directory")
    part = part_of(selection, records.jobs)
    per_node = exclusive_nodes and not _shows_chunks(level)
    layout = lay_out(records.nodes, records.jobs, records.occupancy, per_node=per_node)
    if ranks is None:
        layout = _fitted(layout, records, level, part, rows)
    if layout.merged and level == "messages":
        level = "chunks"
    shown = _at_level(records, level)
    has_pes = n_rows(shown.pes) or n_rows(shown.chunks)
    places = place_pes(shown, layout, pes_per_node) if has_pes else None
    messages = deliver(shown, layout) if ranks is None else rank_messages(shown, layout, ranks)
    content = _content(
        shown, layout, level, places, messages, details, part, service, _ranks_of_rows(layout, ranks)
    )
    samples = sample_metrics(records) if ranks is None else None
    end = _end(content, samples)
    _check_not_empty(directory, selection, part, end)
    content = content._replace(messages=select_messages(messages, part, records.jobs))
    samples = None if samples is None else select_samples(samples, part)
    names = Names(scenario_name, technique, workload_name)
    arranged = _Arranged(names, records, shown, level, layout, places, content, samples, min(part.last, end))
    events = _write_archive(directory, arranged, apart, ranks)
    return _info(directory, layout, events, ranks)


def _info(directory: Path, layout: Layout, events: Ints, ranks: Ranks | None) -> TraceInfo:
    locations = int(layout.shown.sum()) + (FIRST_ROW if ranks is None else 0)
    nodes_per_row = layout.processes.nodes if layout.merged else 0
    return TraceInfo(int(events.sum()), locations, _size(directory), nodes_per_row)


class _Arranged(NamedTuple):
    """A trace before it is written: records, and what is shown of them, until ``last`` [ns]."""

    names: Names
    records: Records
    shown: Records
    level: Level
    layout: Layout
    places: PePlaces | None
    content: Content
    samples: Samples | None
    last: int


def _check_not_empty(directory: Path, selection: Selection, part: Part, end: int) -> None:
    if end < part.first:
        raise OutputError(
            f"{directory}: the trace would be empty: its part begins at {selection.begin:.9g} s, and all has "
            f"happened by {end / 1e9:.9g} s"
        )


def _write_archive(directory: Path, trace: _Arranged, apart: bool, ranks: Ranks | None) -> Ints:
    """Write all files; return the number of events of each location."""
    records, layout, content, part = trace.records, trace.layout, trace.content, trace.content.part
    # The largest definition lists a location for every node.
    largest = 10 * len(records.nodes.name) + 100
    opened = open_archive(directory, trace.names.scenario, largest_definition=largest)
    with failures(directory), opened as archive:
        # As a part of some jobs has it, which `mlsim trace cut` takes from the whole: theirs alone.
        shows_dispatcher = trace.level == "messages" and part.shown.all()
        span = (part.first, trace.last if shows_dispatcher else -1)
        clock = np.array([-1 if apart else TIES_STAY, 0])
        work = None
        if layout.merged:
            several = len(nested_regions(trace.level, merged=True)) - 1
            work = work_space(layout, records.nodes, len(records.jobs.job_id), several)
        events = _write_events(
            archive, directory, trace.shown, content, trace.samples, trace.places, span, clock, work
        )
        write_definitions(
            archive,
            trace.names,
            records,
            layout=layout,
            job_region=content.jobs.region,
            events=events,
            span=(part.first, max(trace.last, int(clock[1]))),
            level=trace.level,
            size_bits=content.size_bits,
            ranks=ranks,
        )
    with failures(directory):
        fix_trace_id(directory)
    return events


def _fitted(layout: Layout, records: Records, level: Level, part: Part, rows: Rows) -> Layout:
    """Leave out rows on which nothing happens, of wide traces and of some jobs; merge them if asked to."""
    is_wide = len(layout.row_node) > MOST_ROWS
    every = np.ones(len(layout.row_node), np.bool_)
    if rows == "nodes":
        return merge_rows(layout, every, len(records.nodes.name))
    if not is_wide and part.shown.all():
        return layout
    occurring = _occurring(layout, records, level, part)
    if level != "jobs":  # messages of a node are on its first row, and all ranks have one
        of_nodes = layout.node_row if not is_wide else layout.node_row[layout.row_node[occurring]]
        occurring[of_nodes] = True
    if rows == "cores" or int(occurring.sum()) <= MOST_ROWS:
        return without_rows(layout, occurring)
    return merge_rows(layout, occurring, MOST_ROWS)


def _occurring(layout: Layout, records: Records, level: Level, part: Part) -> NDArray[np.bool_]:
    """Return which rows have something of the part that is shown."""
    held, messages = records.occupancy, records.messages
    seen = part.shown[held.job]
    seen &= (nanoseconds(held.end) >= part.first) & (nanoseconds(held.start) <= part.last)
    if level == "messages":  # the PEs of a job ask each other
        seen = np.isin(held.job, held.job[seen])
    found = np.zeros(len(layout.row_node), np.bool_)
    found[np.repeat(np.arange(len(found)), np.diff(layout.first))[seen[layout.occupancy_row]]] = True
    if level != "jobs" and n_rows(messages):
        sent = part.shown[messages.job]
        sent &= (nanoseconds(messages.received) >= part.first) & (nanoseconds(messages.sent) <= part.last)
        found[layout.node_row[application_nodes(records)[sent]]] = True
    return found


def _ranks_of_rows(layout: Layout, ranks: Ranks | None) -> Ints:
    """Return the rank of each row: that of the run, or of the row's node behind the batch system."""
    if ranks is not None:
        return ranks.numbers
    return BATCH_RANK + 1 + layout.row_process


def _shows_chunks(level: Level) -> bool:
    return level in ("chunks", "messages")


def _at_level(records: Records, level: Level) -> Records:
    """Keep the tables that the level shows."""
    if _shows_chunks(level):
        return records
    kept = replace(records, chunks=empty(Chunks))
    return kept if level == "nodes" else replace(kept, pes=empty(PEs), messages=empty(Messages))


def _content(
    records: Records,
    layout: Layout,
    level: Level,
    places: PePlaces | None,
    messages: MessageEvents,
    details: bool,
    part: Part,
    service: Service,
    ranks: Ints,
) -> Content:
    """Arrange the records by location and time."""
    told, chunks, requests = _inside_jobs(records, layout, level, places, part, service, ranks)
    largest = (size_range(records.chunks) or (0, 0))[1]
    held, nested = records.occupancy, nested_regions(level, merged=layout.merged)
    return Content(
        Intervals(layout.shown, layout.first, layout.occupancy_row, told, held.job, held.start, held.end),
        _job_columns(records, first_region=len(nested)),
        _shows_chunks(level),
        details,
        max(SIZE_TYPES) if layout.merged else min(bits for bits in SIZE_TYPES if largest < 1 << bits),
        part,
        nested.index("idle") if "idle" in nested else -1,
        chunks,
        messages,
        requests,
    )


def _end(content: Content, samples: Samples | None) -> int:
    """Find the time of the last event of the run, in ns; raise MlsimError where one is before the start."""
    ends = nanoseconds(np.concatenate([content.intervals.start[:1], content.intervals.end]))
    sampled = np.empty(0, np.int64) if samples is None else samples.times
    times = np.concatenate([ends, content.messages.time, sampled])
    if times.min() < 0:
        raise MlsimError(
            f"internal error: something is recorded {-times.min()} ns before the scenario's start"
        )
    return int(times.max())


def _inside_jobs(
    records: Records,
    layout: Layout,
    level: Level,
    places: PePlaces | None,
    part: Part,
    service: Service,
    ranks: Ints,
) -> tuple[NDArray[np.float64], ChunkColumns, Requests | NoRequests]:
    """Return the events inside of jobs: notices of PEs to stop, chunks, and requests for them."""
    chunks = ChunkColumns(np.zeros(1, np.int64), np.empty((0, len(CHUNK_FIELDS)), np.int64))
    requests: Requests | NoRequests = NoRequests()
    asked = level == "messages"
    if places is None:
        return np.empty(0, np.float64), chunks, requests
    if n_rows(records.chunks):
        chunks = chunks_by_interval(records, places, part, len(layout.entry), asked=asked)
    if asked:
        requests = requests_of(records, layout, places, part, chunks, service, ranks)
    return told_times(records, layout, places), chunks, requests


def _job_columns(records: Records, *, first_region: int) -> JobColumns:
    """Return, for each job, its region (-1: never started) and the attributes of its enter events."""
    started = np.isfinite(records.jobs.start_time)
    region = np.where(started, first_region - 1 + np.cumsum(started), -1)
    has_loop = np.zeros(len(started), np.bool_)
    has_loop[records.loops.job] = True
    return JobColumns(region, records.jobs.job_id, has_loop)


def _write_events(
    archive: Any,
    directory: Path,
    records: Records,
    content: Content,
    samples: Samples | None,
    places: PePlaces | None,
    span: tuple[int, int],
    clock: Ints,
    work: Work | None,
) -> NDArray[np.int64]:
    """Write all event files; return the number of events of each location.

    The dispatcher has a region of this span, in ns, unless it ends at -1. ``clock``: see ``progress.stamp``.
    ``work``: of merged rows.
    """
    shown = content.intervals.shown
    rows = len(content.intervals.first) - 1
    events = np.zeros(FIRST_ROW + rows, np.int64)
    _otf2.Archive_OpenDefFiles(archive)
    own = [] if samples is None else [BATCH_LOCATION, METRIC_LOCATION]
    write_local_definitions(archive, directory, [*own, *(FIRST_ROW + np.flatnonzero(shown)).tolist()])
    _otf2.Archive_CloseDefFiles(archive)
    with _attributes() as attributes:
        at_once = int(shown.sum()) <= ROWS_AN_ARCHIVE
        if not at_once:
            for low in range(0, rows, ROWS_AN_ARCHIVE):
                with apart(directory) as part:
                    high = min(low + ROWS_AN_ARCHIVE, rows)
                    _write_rows(part, attributes, clock, records, content, places, events, low, high, work)
        _otf2.Archive_OpenEvtFiles(archive)
        if at_once:
            _write_rows(archive, attributes, clock, records, content, places, events, 0, rows, work)
        if samples is not None:
            _write_batch_system(archive, attributes, clock, records, content, samples, span, events)
    _otf2.Archive_CloseEvtFiles(archive)
    return events


@contextmanager
def _attributes() -> Iterator[Any]:
    """Make an attribute list."""
    attributes = _otf2.AttributeList_New()
    try:
        yield attributes
    finally:
        _otf2.AttributeList_Delete(attributes)


def _write_rows(
    archive: Any,
    attributes: Any,
    clock: Ints,
    records: Records,
    content: Content,
    places: PePlaces | None,
    events: NDArray[np.int64],
    low: int,
    high: int,
    work: Work | None,
) -> None:
    """Write the rows from ``low`` to before ``high``, and count their events."""
    library = find_api(), address(archive), address(attributes), clock
    for begin, end in row_ranges(content.intervals.first[low : high + 1], content.chunks):
        span = low + begin, low + end
        if work is None:
            failed, misplaced = write_rows(*library, content, events, *span)
        else:
            failed, misplaced = write_merged_rows(*library, content, events, work, *span)
        let_go(content.chunks.rows)
        if isinstance(content.requests, Requests):
            let_go(content.requests.served)
        if misplaced >= 0 and places is not None:
            chunk = nth_chunk(records, places, content.part, content.chunks, misplaced)
            raise MlsimError(_misplaced(records.jobs, chunk))
        if failed:
            raise CallFailed


def _write_batch_system(
    archive: Any,
    attributes: Any,
    clock: Ints,
    records: Records,
    content: Content,
    samples: Samples,
    span: tuple[int, int],
    events: NDArray[np.int64],
) -> None:
    """Write the locations of the dispatcher and of metrics, and count their events."""
    library = find_api(), address(archive)
    failed, events[BATCH_LOCATION] = write_batch(
        *library, address(attributes), clock, content.messages, *span
    )
    if not failed:
        types = np.array([metric_type(metric).value for metric in metrics_of(records)], np.uint8)
        pointers = types.ctypes.data, samples.values.ctypes.data
        failed, events[METRIC_LOCATION] = write_metrics(*library, samples, *pointers)
    if failed:
        raise CallFailed


def _misplaced(jobs: Jobs, chunk: Chunks) -> str:
    """Return a message on the chunk, a table of one row, that cannot be shown."""
    return (
        f"internal error: a chunk of job {jobs.job_id[chunk.job[0]]} on PE {chunk.pe[0]}, from "
        f"{chunk.start[0]:.9f} to {chunk.end[0]:.9f} s, overlaps another one, or the PE's core was not the "
        "job's then"
    )


def _size(directory: Path) -> int:
    """Sum up the bytes of a trace's files; those of local definitions are all alike."""
    files = [directory / f"{TRACE_NAME}.otf2", directory / f"{TRACE_NAME}.def"]
    local, size = 0, 0
    with os.scandir(directory / TRACE_NAME) as entries:
        for entry in entries:
            if entry.name.endswith(".evt"):
                size += entry.stat().st_size
            else:
                local, last = local + 1, entry
    return size + local * last.stat().st_size + sum(file.stat().st_size for file in files)
