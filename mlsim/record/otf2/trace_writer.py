"""One run's records as an OTF2 trace."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import _otf2
import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.errors import MlsimError, OutputError
from mlsim.record.column_types import empty, let_go
from mlsim.record.otf2 import event_pass, otf2_library, trace_content, trace_layout
from mlsim.record.otf2.merged_rows import Work, work_space, write_merged_rows
from mlsim.record.otf2.trace_content import Content, Part, Samples, TraceOptions
from mlsim.record.otf2.trace_definitions import SIZE_TYPES, metric_type, write_definitions
from mlsim.record.otf2.trace_layout import MOST_ROWS, Layout, Level, PePlaces, nanoseconds
from mlsim.record.otf2.trace_requests import rank_messages, requests_of
from mlsim.record.record_tables import Chunks, Jobs, Messages, PEs, Records
from mlsim.record.table_blocks import n_rows, size_range


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """The size of a trace."""

    events: int
    locations: int
    bytes: int  # of all its files
    nodes_per_row: int = 0  # most nodes that a row shows; 0 where rows are as the level has them


def write_otf2(directory: Path | str, records: Records, options: TraceOptions) -> TraceInfo:
    """Write ``directory/traces.otf2`` and the files that belong to it; the same records give the same bytes.

    The directory is created if it is missing, and must not contain a trace. Raises MlsimError if files cannot
    be written, the part has no events, or the records contradict each other.
    """
    directory = Path(directory)
    if (directory / f"{otf2_library.TRACE_NAME}.otf2").exists():
        raise OutputError(f"{directory} has a trace in it already; remove it or name another directory")
    part = trace_content.part_of(options.selection, records.jobs)
    per_node = options.exclusive_nodes and options.level not in ("chunks", "messages")
    layout = trace_layout.lay_out(records.nodes, records.jobs, records.occupancy, per_node=per_node)
    if options.ranks is None:
        layout = _fitted(layout, records, options, part)
    if layout.merged and options.level == "messages":
        options = replace(options, level="chunks")
    records = _at_level(records, options.level)
    samples = trace_content.sample_metrics(records) if options.ranks is None else None
    content, places = _content(records, layout, options, part)
    end = _end(content, samples)
    if end < part.first:
        raise OutputError(
            f"{directory}: the trace would be empty: its part begins at {options.selection.begin:.9g} s, and "
            f"all has happened by {end / 1e9:.9g} s"
        )
    content = content._replace(messages=trace_content.select_messages(content.messages, part, records.jobs))
    samples = None if samples is None else trace_content.select_samples(samples, part)
    # The largest definition lists a location for every node.
    largest = 10 * len(records.nodes.name) + 100
    opened = otf2_library.open_archive(directory, options.scenario_name, largest_definition=largest)
    with otf2_library.failures(directory), opened as archive:
        state, work, last = event_pass.new_state(options.apart), None, min(part.last, end)
        if layout.merged:
            several = len(trace_layout.nested_regions(options.level, merged=True)) - 1
            work = work_space(layout, records.nodes, len(records.jobs.job_id), several)
        with otf2_library.new_attributes() as attributes:
            writing = _Writing(directory, state, attributes, records, content, places, work)
            # As a part of some jobs has it, which `mlsim trace cut` takes from the whole: theirs alone.
            shows_dispatcher = options.level == "messages" and part.shown.all()
            events = _write_events(archive, writing, samples, last if shows_dispatcher else -1)
        span = part.first, max(last, int(state[event_pass.LATEST]))
        write_definitions(archive, options, records, layout, content, events, span)
    with otf2_library.failures(directory):
        otf2_library.fix_trace_id(directory)
    locations = int(layout.shown.sum()) + (trace_layout.FIRST_ROW if options.ranks is None else 0)
    nodes_per_row = layout.processes.nodes if layout.merged else 0
    return TraceInfo(int(events.sum()), locations, _size(directory), nodes_per_row)


def _fitted(layout: Layout, records: Records, options: TraceOptions, part: Part) -> Layout:
    """Leave out rows on which nothing happens, of wide traces and of some jobs; merge them if asked to."""
    is_wide = len(layout.row_node) > MOST_ROWS
    every = np.ones(len(layout.row_node), np.bool_)
    if options.rows == "nodes":
        return trace_layout.merge_rows(layout, every, len(records.nodes.name))
    if not is_wide and part.shown.all():
        return layout
    occurring = _occurring(layout, records, options.level, part)
    if options.level != "jobs":  # messages of a node are on its first row, and all ranks have one
        of_nodes = layout.node_row if not is_wide else layout.node_row[layout.row_node[occurring]]
        occurring[of_nodes] = True
    if options.rows == "cores" or int(occurring.sum()) <= MOST_ROWS:
        return trace_layout.without_rows(layout, occurring)
    return trace_layout.merge_rows(layout, occurring, MOST_ROWS)


def _occurring(layout: Layout, records: Records, level: Level, part: Part) -> Mask:
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
        found[layout.node_row[trace_content.application_nodes(records)[sent]]] = True
    return found


def _at_level(records: Records, level: Level) -> Records:
    """Keep the tables that the level shows."""
    if level in ("chunks", "messages"):
        return records
    kept = replace(records, chunks=empty(Chunks))
    return kept if level == "nodes" else replace(kept, pes=empty(PEs), messages=empty(Messages))


def _content(
    records: Records, layout: Layout, options: TraceOptions, part: Part
) -> tuple[Content, PePlaces | None]:
    """Arrange the records by location and time; return also the places of PEs, if there are PEs."""
    level, held = options.level, records.occupancy
    if options.ranks is None:
        messages = trace_content.deliver(records, layout)
        numbers: Ints = trace_content.BATCH_RANK + 1 + layout.row_process
    else:
        messages, numbers = rank_messages(records, layout, options.ranks), options.ranks.numbers
    told: Floats = np.empty(0, np.float64)
    chunks, requests, places = trace_content.NO_CHUNKS, trace_content.NO_REQUESTS, None
    if n_rows(records.pes) or n_rows(records.chunks):
        places = trace_layout.place_pes(records, layout, options.pes_per_node)
        asked = level == "messages"
        if n_rows(records.chunks):
            chunks = trace_content.chunks_by_interval(records, places, part, len(layout.entry), asked=asked)
        if asked:
            requests = requests_of(records, layout, places, part, chunks, options.service, numbers)
        told = trace_layout.told_times(records, layout, places)
    largest = (size_range(records.chunks) or (0, 0))[1]
    nested = trace_layout.nested_regions(level, merged=layout.merged)
    started = np.isfinite(records.jobs.start_time)
    strings = np.zeros(len(started), np.int64)
    strings[records.loops.job] = trace_layout.TECHNIQUE_STRING
    if records.jobs.technique is not None:
        strings[records.loops.job] = trace_layout.technique_string(records.jobs.technique[records.loops.job])
    region = np.where(started, len(nested) - 1 + np.cumsum(started), -1)
    content = Content(
        trace_content.Intervals(
            layout.shown, layout.first, layout.occupancy_row, told, held.job, held.start, held.end
        ),
        trace_content.JobColumns(region, records.jobs.job_id, strings),
        level in ("chunks", "messages"),
        options.details,
        max(SIZE_TYPES) if layout.merged else min(bits for bits in SIZE_TYPES if largest < 1 << bits),
        part,
        nested.index("idle") if "idle" in nested else -1,
        chunks,
        messages,
        requests,
    )
    return content, places


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


class _Writing(NamedTuple):
    """Content, buffers and records of all event files of a trace."""

    directory: Path
    state: Ints
    attributes: Any
    records: Records
    content: Content
    places: PePlaces | None
    work: Work | None  # of merged rows


def _write_events(archive: Any, writing: _Writing, samples: Samples | None, end: int) -> Ints:
    """Write all event files, the dispatcher busy until ``end`` [ns] (-1: never); count by location."""
    shown = writing.content.intervals.shown
    events = np.zeros(trace_layout.FIRST_ROW + len(shown), np.int64)
    _otf2.Archive_OpenDefFiles(archive)
    own = [] if samples is None else [trace_layout.BATCH_LOCATION, trace_layout.METRIC_LOCATION]
    locations = [*own, *(trace_layout.FIRST_ROW + np.flatnonzero(shown)).tolist()]
    otf2_library.write_local_definitions(archive, writing.directory, locations)
    _otf2.Archive_CloseDefFiles(archive)
    most = otf2_library.ROWS_AN_ARCHIVE
    at_once = int(shown.sum()) <= most
    if not at_once:
        for low in range(0, len(shown), most):
            with otf2_library.apart(writing.directory) as part:
                _write_rows(part, writing, events, low, min(low + most, len(shown)))
    _otf2.Archive_OpenEvtFiles(archive)
    if at_once:
        _write_rows(archive, writing, events, 0, len(shown))
    if samples is not None:
        _write_batch_system(archive, writing, samples, end, events)
    _otf2.Archive_CloseEvtFiles(archive)
    return events


def _write_rows(archive: Any, writing: _Writing, events: Ints, low: int, high: int) -> None:
    """Write the rows from ``low`` to before ``high``, and count their events."""
    address, content, state = otf2_library.address, writing.content, writing.state
    library = otf2_library.find_api(), address(archive), address(writing.attributes)
    for begin, end in trace_content.row_ranges(content.intervals.first[low : high + 1], content.chunks):
        if writing.work is None:
            event_pass.write_rows(*library, state, content, events, low + begin, low + end)
        else:
            write_merged_rows(*library, state, content, events, low + begin, low + end, writing.work)
        let_go(content.chunks.rows, content.requests.served)
        misplaced = int(state[event_pass.MISPLACED])
        if misplaced >= 0 and writing.places is not None:
            records = writing.records
            chunk = trace_content.nth_chunk(records, writing.places, content.part, content.chunks, misplaced)
            raise MlsimError(_misplaced(records.jobs, chunk))
        if state[event_pass.FAILED]:
            raise otf2_library.CallFailed


def _write_batch_system(archive: Any, writing: _Writing, samples: Samples, end: int, events: Ints) -> None:
    """Write the locations of the dispatcher and of metrics, and count their events."""
    library = otf2_library.find_api(), otf2_library.address(archive)
    content, state = writing.content, writing.state
    attributes, first = otf2_library.address(writing.attributes), content.part.first
    events[trace_layout.BATCH_LOCATION] = event_pass.write_batch(
        *library, attributes, state, content.messages, first, end
    )
    if not state[event_pass.FAILED]:
        metrics = trace_content.metrics_of(writing.records)
        types = np.array([metric_type(metric).value for metric in metrics], np.uint8)
        pointers = types.ctypes.data, samples.values.ctypes.data
        events[trace_layout.METRIC_LOCATION] = event_pass.write_metrics(*library, state, samples, *pointers)
    if state[event_pass.FAILED]:
        raise otf2_library.CallFailed


def _misplaced(jobs: Jobs, chunk: Chunks) -> str:
    """Return a message on the chunk, a table of one row, that cannot be shown."""
    return (
        f"internal error: a chunk of job {jobs.job_id[chunk.job[0]]} on PE {chunk.pe[0]}, from "
        f"{chunk.start[0]:.9f} to {chunk.end[0]:.9f} s, overlaps another one, or the PE's core was not the "
        "job's then"
    )


def _size(directory: Path) -> int:
    """Sum up the bytes of a trace's files; those of local definitions are all alike."""
    files = [directory / f"{otf2_library.TRACE_NAME}.otf2", directory / f"{otf2_library.TRACE_NAME}.def"]
    local, size = 0, 0
    with os.scandir(directory / otf2_library.TRACE_NAME) as entries:
        for entry in entries:
            if entry.name.endswith(".evt"):
                size += entry.stat().st_size
            else:
                local, last = local + 1, entry
    return size + local * last.stat().st_size + sum(file.stat().st_size for file in files)
