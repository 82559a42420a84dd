"""Traces of wide machines: rows on which something happens, and rows that show several cores at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mlsim.record import Records
from mlsim.record.otf2 import Level, Selection, TraceOptions, trace_writer, write_otf2
from mlsim.traces import anchor_of, cut, opened, problems_of
from tests.record.builders import random_records
from tests.record.traces import Span, Trace, events_of, needs_otf2_print, ns, printed, read_trace

NAMES = {"scenario_name": "demo", "technique": "GSS", "workload_name": "demo.swf"}
LEVELS: tuple[Level, ...] = ("jobs", "nodes", "chunks")
SEEDS = (3, 8, 9)


def merged(directory: Path, records: Records, level: Level, **more) -> Trace:
    """Write a trace with a row per node, or several, and read it."""
    write_otf2(
        directory, records, TraceOptions(level, exclusive_nodes=False, **NAMES, **{"rows": "nodes"} | more)
    )
    with opened(anchor_of(directory)) as reader:
        assert list(problems_of(reader)) == []
    return read_trace(directory)


def rows_of(trace: Trace) -> dict[int, tuple[str, str]]:
    """Return the names of the process and the location of each row."""
    return {row._ref: (row.group.name, row.name) for row in trace.definitions.locations if row._ref > 1}


def expected_states(records: Records, nodes: set[int]) -> list[tuple[int, int, str]]:
    """Return, by brute force, what a row that shows these nodes has: from, to, the job or `several jobs`."""
    held, spans = records.occupancy, []
    for row in range(len(held.job)):
        if nodes & set(range(held.node[row], held.node[row] + held.count[row])):
            spans.append((ns(held.start[row]), ns(held.end[row]), str(records.jobs.job_id[held.job[row]])))
    states: list[tuple[int, int, str]] = []
    times = sorted({time for begin, end, _ in spans for time in (begin, end)})
    for begin, end in pairwise(times):
        jobs = {job for low, high, job in spans if low <= begin and end <= high}
        if not jobs:
            continue
        name = jobs.pop() if len(jobs) == 1 else "several jobs"
        if states and states[-1][1:] == (begin, name):
            begin = states.pop()[0]
        states.append((begin, end, name))
    return states


def of_row(trace: Trace, row: int, depth: int) -> list[Span]:
    return sorted(
        (s for s in trace.spans if s.location == row and s.depth == depth), key=lambda span: span.begin
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [None, 2, 1])
def test_a_row_of_several_cores_has_the_job_or_several(seed, level, most, tmp_path, monkeypatch):
    records = random_records(seed, jobs=40)
    if most is not None:
        monkeypatch.setattr(trace_writer, "MOST_ROWS", most)
    trace = merged(tmp_path, records, level, rows="nodes" if most is None else "auto")
    rows, names = rows_of(trace), records.nodes.name
    used = {
        n
        for node, count in zip(records.occupancy.node, records.occupancy.count, strict=True)
        for n in range(node, node + count)
    }
    shown = set()
    for row, (process, location) in rows.items():
        ends = [names.index(name) for name in process.split(" to ")]
        nodes = {n for n in range(ends[0], ends[-1] + 1) if most is None or n in used}
        shown |= nodes
        assert location == "all cores"
        found = [(span.begin, span.end, span.region) for span in of_row(trace, row, 0)]
        assert found == expected_states(records, nodes)
    assert shown == (set(range(len(names))) if most is None else used)
    assert len(rows) <= (most or len(names))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [None, 2])
def test_chunks_of_a_row_are_shown_together_and_none_is_lost(seed, most, tmp_path, monkeypatch):
    records = random_records(seed, jobs=40)
    if most is not None:
        monkeypatch.setattr(trace_writer, "MOST_ROWS", most)
    trace = merged(tmp_path, records, "chunks", rows="nodes" if most is None else "auto")
    write_otf2(
        tmp_path / "cores", records, TraceOptions("chunks", exclusive_nodes=False, rows="cores", **NAMES)
    )
    cores, rows = read_trace(tmp_path / "cores"), rows_of(trace)
    process_of = {
        name: row for row, (process, _) in rows.items() for name in covered(process, records.nodes.name)
    }
    own = defaultdict(list)
    for span in cores.nested("chunk"):
        location = next(x for x in cores.definitions.locations if x._ref == span.location)
        if span.begin < span.end:
            own[process_of[location.group.name]].append(span)
    for row in rows:
        busy = united([(span.begin, span.end) for span in own[row]])
        assert united([(s.begin, s.end) for s in of_row(trace, row, 1) if s.region == "chunks"]) == busy
    found = trace.nested("chunks")
    every = [span for spans in own.values() for span in spans]
    assert sum(span.attributes["chunks"] for span in found) == len(every) > 0
    total = sum(span.attributes["iterations"] for span in every)
    assert sum(span.attributes["iterations"] for span in found) == total
    seconds = sum(span.end - span.begin for span in every) * 1e-9
    assert sum(span.attributes["PE time"] for span in found) == pytest.approx(seconds)


def covered(process: str, names: list[str]) -> list[str]:
    ends = [names.index(name) for name in process.split(" to ")]
    return names[ends[0] : ends[-1] + 1]


def united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that overlap or touch."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


@pytest.mark.parametrize("level", ["nodes", "chunks"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_idle_when_none_of_their_pes_has_work(seed, level, tmp_path):
    records = random_records(seed, jobs=40)
    trace = merged(tmp_path / "nodes", records, level)
    write_otf2(tmp_path / "cores", records, TraceOptions(level, exclusive_nodes=False, rows="cores", **NAMES))
    cores = read_trace(tmp_path / "cores")
    of = {location._ref: location.group.name for location in cores.definitions.locations}
    for row, (process, _) in rows_of(trace).items():
        held = [s for s in cores.spans if of[s.location] == process and s.depth == 0]
        idle = [s for s in cores.nested("idle") if of[s.location] == process]
        loops = {str(records.jobs.job_id[job]) for job in records.loops.job}
        for span in of_row(trace, row, 1):
            if span.region != "idle":
                continue
            middle = (span.begin + span.end) // 2
            open_now = {s.location for s in held if s.begin <= middle < s.end and s.region in loops}
            idle_now = {s.location for s in idle if s.begin <= middle < s.end}
            assert idle_now
            assert idle_now <= open_now
            assert not [
                s for s in cores.nested("chunk") if s.location in open_now and s.begin <= middle < s.end
            ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("span", [(5.0, 15.0), (0.0, 12.5), (12.2, 1e9)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_part_of_merged_rows_is_that_part_of_their_trace(seed, span, level, tmp_path):
    records = random_records(seed, jobs=40)
    merged(tmp_path / "whole", records, level)
    write_otf2(
        tmp_path / "part",
        records,
        TraceOptions(level, exclusive_nodes=False, rows="nodes", selection=Selection(*span), **NAMES),
    )
    with opened(anchor_of(tmp_path / "whole")) as reader:
        cut(reader, tmp_path / "cut", begin=span[0], end=span[1])
    assert events_of(tmp_path / "part") == events_of(tmp_path / "cut")


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_of_nodes_in_one_row_find_their_other_side(seed, tmp_path, monkeypatch):
    records = random_records(seed, jobs=40)
    monkeypatch.setattr(trace_writer, "MOST_ROWS", 1)
    trace = merged(tmp_path, records, "nodes", rows="auto")
    assert len(trace.sends) == len(trace.receives) == len(records.messages.kind) > 0
    sides = Counter((m.tag, tuple(sorted(m.attributes.items()))) for m in trace.sends)
    assert sides == Counter((m.tag, tuple(sorted(m.attributes.items()))) for m in trace.receives)


@pytest.mark.parametrize("most", [997, 3])
@pytest.mark.parametrize("level", LEVELS)
def test_rows_of_some_jobs_are_those_that_they_are_on(level, most, tmp_path, monkeypatch):
    records = random_records(8, jobs=40)
    monkeypatch.setattr(trace_writer, "MOST_ROWS", most)
    job = int(records.jobs.job_id[np.isfinite(records.jobs.start_time)][4])
    where = tmp_path / "part"
    info = write_otf2(
        where,
        records,
        TraceOptions(level, exclusive_nodes=False, rows="cores", selection=Selection(jobs=[job]), **NAMES),
    )
    busy = {location for location in events_of(where) if location > 1}
    with opened(anchor_of(where)) as trace:
        assert list(problems_of(trace)) == []
    locations = {location._ref for location in trace.definitions.locations}
    assert info.locations == len(locations)
    assert {int(file.stem) for file in (where / "traces").glob("*.evt")} == locations
    members = {m._ref for c in trace.definitions.comms for m in c.group.members}
    assert busy <= locations
    if most == 3:  # wide: nodes without the job are left out
        processes = {m.group.name for m in trace.definitions.locations if m._ref in busy}
        assert {m.group.name for m in trace.definitions.locations} == processes | {"batch system"}
    else:
        assert locations == busy | members | {0, 1}


@needs_otf2_print
@pytest.mark.parametrize("level", LEVELS)
def test_merged_rows_are_printed_without_a_complaint(level, tmp_path, monkeypatch):
    monkeypatch.setattr(trace_writer, "MOST_ROWS", 2)
    merged(tmp_path, random_records(8, jobs=40), level, rows="auto")
    printed(tmp_path)


def test_requests_are_left_out_of_merged_rows_and_idle_rows_of_wide_machines(tmp_path, monkeypatch):
    records = random_records(8, jobs=40)
    monkeypatch.setattr(trace_writer, "MOST_ROWS", 2)
    trace = merged(tmp_path, records, "messages", rows="auto")
    assert {region.name for region in trace.definitions.regions if not region.name.startswith("J")} == {
        "chunks",
        "idle",
        "several jobs",
    }
