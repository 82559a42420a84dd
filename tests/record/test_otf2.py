"""Traces of random runs, read back with the format's own tools and held against the records."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record import MessageKind, Records
from mlsim.record.cores import number_cores
from mlsim.record.otf2 import Level, TraceInfo, write_otf2
from tests.record.builders import random_records
from tests.record.traces import Trace, needs_otf2_print, printed, read_trace

SEEDS = st.integers(0, 2**32)
LEVELS = st.sampled_from(["jobs", "nodes", "chunks"])
RUNS = settings(max_examples=25, deadline=None)


def written(directory: Path | str, records: Records, level: Level, *, exclusive: bool = False) -> TraceInfo:
    names = {"scenario_name": "demo", "technique": "GSS", "workload_name": "demo.swf"}
    return write_otf2(directory, records, level, exclusive_nodes=exclusive, **names)


def traced(records: Records, level: Level, *, exclusive: bool = False) -> Trace:
    with tempfile.TemporaryDirectory() as directory:
        info = written(directory, records, level, exclusive=exclusive)
        trace = read_trace(Path(directory))
        assert info.events == sum(trace.counts.values())
        assert info.locations == len(list(trace.definitions.locations))
        files = [file for file in Path(directory).rglob("*") if file.is_file()]
        assert info.bytes == sum(file.stat().st_size for file in files)
    return trace


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def node_locations(records: Records, *, per_node: bool) -> list[int]:
    """First location of every node: the dispatcher's comes first."""
    rows = np.ones(len(records.nodes.cores)) if per_node else records.nodes.cores
    return [1 + int(before) for before in np.cumsum(rows) - rows]


def core_entries(records: Records) -> list[tuple[int, int, int]]:
    """(occupancy row, node, location) of every core held."""
    held = number_cores(records.nodes, records.jobs, records.occupancy)
    first = node_locations(records, per_node=False)
    entries = zip(held.row.tolist(), held.node.tolist(), held.core.tolist(), strict=True)
    return [(row, node, first[node] + core) for row, node, core in entries]


@RUNS
@given(seed=SEEDS, level=LEVELS)
def test_jobs_are_on_their_cores_for_their_time(seed: int, level: Level) -> None:
    records = random_records(seed)
    held = records.occupancy
    expected = Counter(
        (location, str(records.jobs.job_id[held.job[row]]), ns(held.start[row]), ns(held.end[row]))
        for row, _, location in core_entries(records)
    )
    spans = traced(records, level).of_jobs()
    assert Counter((s.location, s.region, s.begin, s.end) for s in spans) == expected


@RUNS
@given(seed=SEEDS, level=st.sampled_from(["jobs", "nodes"]))
def test_exclusive_nodes_have_one_row_each(seed: int, level: Level) -> None:
    records = random_records(seed, exclusive=True)
    held, first = records.occupancy, node_locations(records, per_node=True)
    expected = Counter(
        (first[node], str(records.jobs.job_id[held.job[row]]), ns(held.start[row]), ns(held.end[row]))
        for row in range(len(held.job))
        for node in range(held.node[row], held.node[row] + held.count[row])
    )
    trace = traced(records, level, exclusive=True)
    assert Counter((s.location, s.region, s.begin, s.end) for s in trace.of_jobs()) == expected
    assert [location.name for location in trace.definitions.locations][1:] == ["all cores"] * len(first)


@RUNS
@given(seed=SEEDS)
def test_chunks_are_on_their_cores_in_their_jobs(seed: int) -> None:
    records = random_records(seed)
    cores: dict[int, list[int]] = defaultdict(list)
    for row, _, location in core_entries(records):
        cores[int(records.occupancy.job[row])].append(location)
    chunks = records.chunks
    expected = Counter(
        (
            cores[int(chunks.job[c])][chunks.pe[c]],
            str(records.jobs.job_id[chunks.job[c]]),
            ns(chunks.start[c]),
            ns(chunks.end[c]),
            {
                "first iteration": chunks.first[c],
                "iterations": chunks.size[c],
                "step": chunks.step[c],
            }.values(),
        )
        for c in range(len(chunks.job))
    )
    spans = traced(records, "chunks").nested("chunk")
    found = Counter((s.location, s.outer, s.begin, s.end, s.attributes.values()) for s in spans)
    assert sorted(map(_plain, found)) == sorted(map(_plain, expected))
    assert all(list(s.attributes) == ["first iteration", "iterations", "step"] for s in spans)


def _plain(key: tuple) -> tuple:
    return (*key[:-1], tuple(int(value) for value in key[-1]))


@RUNS
@given(seed=SEEDS)
def test_enters_of_jobs_have_attributes_at_the_level_of_chunks(seed: int) -> None:
    records = random_records(seed)
    looping = {str(records.jobs.job_id[job]) for job in records.loops.job}
    for span in traced(records, "chunks").of_jobs():
        technique = {"technique": "GSS"} if span.region in looping else {}
        assert span.attributes == {"job id": int(span.region), **technique}


@RUNS
@given(seed=SEEDS, level=st.sampled_from(["nodes", "chunks"]), exclusive=st.booleans())
def test_idle_time_lasts_from_told_to_given_back(seed: int, level: Level, exclusive: bool) -> None:
    records = random_records(seed, exclusive=exclusive)
    per_node = exclusive and level == "nodes"
    places = node_locations(records, per_node=True)
    told: dict[tuple[int, int], float] = {}
    next_pe: Counter[int] = Counter()
    by_pe = dict(zip(zip(records.pes.job, records.pes.pe, strict=True), records.pes.told, strict=True))
    for row, node, location in core_entries(records):
        job = int(records.occupancy.job[row])
        if (job, next_pe[job]) in by_pe:
            key = row, places[node] if per_node else location
            told[key] = max(told.get(key, 0.0), by_pe[job, next_pe[job]])
            next_pe[job] += 1
    ends = records.occupancy.end
    expected = Counter(
        (location, ns(time), ns(ends[row]))
        for (row, location), time in told.items()
        if ns(time) < ns(ends[row])
    )
    spans = traced(records, level, exclusive=exclusive).nested("idle")
    assert Counter((s.location, s.begin, s.end) for s in spans) == expected
    assert all(span.depth == 1 for span in spans)


@RUNS
@given(seed=SEEDS, exclusive=st.booleans(), level=st.sampled_from(["nodes", "chunks"]))
def test_every_message_is_sent_by_its_node_and_received(seed: int, exclusive: bool, level: Level) -> None:
    records = random_records(seed, exclusive=exclusive)
    messages, held = records.messages, records.occupancy
    first = node_locations(records, per_node=exclusive and level == "nodes")
    pairs = []
    for m in range(len(messages.kind)):
        node = int(messages.node[m])
        if node < 0:
            rows = [row for row in range(len(held.job)) if held.job[row] == messages.job[m]]
            node = int(held.node[max(rows, key=lambda row: (held.end[row], -row))])
        name = MessageKind(messages.kind[m]).name.lower().replace("_", " ")
        job, left = int(records.jobs.job_id[messages.job[m]]), int(messages.remaining_iterations[m])
        pairs.append((first[node], ns(messages.sent[m]), ns(messages.received[m]), name, job, left))
    trace = traced(records, level, exclusive=exclusive)
    assert sorted(_matched(trace)) == sorted(pairs)
    assert len(trace.sends) == len(trace.receives)


def _matched(trace: Trace) -> list[tuple[int, int, int, str, int, int]]:
    """Pair sends and receives as readers do: first sent, first received, for each sender."""
    comm = next(iter(trace.definitions.comms))
    location_of = [location._ref for location in comm.group.members]
    queues: dict[int, list] = defaultdict(list)
    for send in trace.sends:
        assert location_of[send.peer] == 0
        queues[send.location].append(send)
    pairs = []
    for receive in trace.receives:
        assert receive.location == 0
        send = queues[location_of[receive.peer]].pop(0)
        assert (send.tag, send.attributes) == (receive.tag, receive.attributes)
        assert send.attributes["remaining work"] == 0.5 * send.attributes["remaining iterations"]
        a = send.attributes
        pairs.append(
            (send.location, send.time, receive.time, a["message"], a["job id"], a["remaining iterations"])
        )
    return pairs


@RUNS
@given(seed=SEEDS, level=LEVELS, exclusive=st.booleans())
def test_metrics_are_what_counting_gives(seed: int, level: Level, exclusive: bool) -> None:
    records = random_records(seed, exclusive=exclusive)
    jobs, held = records.jobs, records.occupancy
    metrics = traced(records, level, exclusive=exclusive).metrics
    assert metrics[0][0] == 0
    for time, values in metrics:
        open_rows = [row for row in range(len(held.job)) if ns(held.start[row]) <= time < ns(held.end[row])]
        busy = {n for row in open_rows for n in range(held.node[row], held.node[row] + held.count[row])}
        spans = list(zip(jobs.submit_time, jobs.start_time, jobs.end_time, strict=True))
        started = [span for span in spans if np.isfinite(span[1])]
        assert values == (
            sum(ns(submit) <= time < ns(start) for submit, start, _ in started),
            sum(ns(start) <= time < ns(end) for _, start, end in started),
            len(busy),
            sum(int(held.count[row] * held.cores[row]) for row in open_rows),
        )


@needs_otf2_print
@pytest.mark.otf2
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, level=LEVELS, exclusive=st.booleans())
def test_otf2_print_has_no_complaint(seed: int, level: Level, exclusive: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        info = written(directory, random_records(seed, exclusive=exclusive), level, exclusive=exclusive)
        definitions, events = printed(Path(directory))
    assert len(events) == info.events
    assert sum(line.startswith("LOCATION ") for line in definitions) == info.locations


@RUNS
@given(seed=SEEDS, level=LEVELS)
def test_the_same_records_give_the_same_bytes(seed: int, level: Level) -> None:
    contents = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as directory:
            written(directory, random_records(seed), level)
            files = sorted(file for file in Path(directory).rglob("*") if file.is_file())
            contents.append({str(file.relative_to(directory)): file.read_bytes() for file in files})
    assert contents[0] == contents[1]


def test_a_run_without_jobs_is_a_trace(tmp_path: Path) -> None:
    info = written(tmp_path, random_records(1, jobs=0), "chunks")
    trace = read_trace(tmp_path)
    assert (info.events, trace.metrics) == (1, [(0, (0, 0, 0, 0))])
