"""Traces of random runs, read back with the format's own tools and held against the records."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record import MessageKind, Records
from mlsim.record.node_sets import number_cores
from mlsim.record.otf2 import Level
from tests.record.builders import random_records
from tests.record.traces import needs_otf2_print, node_locations, ns, printed, read_trace, traced, written

SEEDS = st.integers(0, 2**32)
LEVELS = st.sampled_from(["jobs", "nodes", "chunks"])
RUNS = settings(max_examples=25, deadline=None)


def core_entries(records: Records) -> list[tuple[int, int, int]]:
    """(occupancy row, node, location) of every core held."""
    held = number_cores(records.nodes, records.jobs, records.occupancy)
    first = node_locations(records, per_node=False)
    entries = zip(held.row.tolist(), held.node.tolist(), held.core.tolist(), strict=True)
    return [(row, node, first[node] + core) for row, node, core in entries]


class PeStay(NamedTuple):
    """A time that a PE has on a core."""

    row: int
    node: int
    location: int
    start: float


def pe_stays(records: Records) -> dict[tuple[int, int], list[PeStay]]:
    """(job, PE) -> its stays in order of time, as the occupancy table's documentation says."""
    entries = core_entries(records)
    job_of = records.occupancy.job.tolist()
    first_row: dict[tuple[int, int], int] = {}
    for row, node, _ in entries:
        first_row.setdefault((job_of[row], node), row)
    pes: dict[tuple[int, int], list[int]] = defaultdict(list)
    count: Counter[int] = Counter()
    stays: dict[tuple[int, int], list[PeStay]] = defaultdict(list)
    place: Counter[tuple[int, int]] = Counter()
    for row, node, location in entries:
        job = job_of[row]
        if row == first_row[job, node]:
            pes[job, node].append(count[job])
            count[job] += 1
        pe = pes[job, node][place[row, node]]
        place[row, node] += 1
        stays[job, pe].append(PeStay(row, node, location, float(records.occupancy.start[row])))
    return stays


def stay_at(stays: list[PeStay], time: float) -> PeStay:
    return [stay for stay in stays if stay.start <= time][-1]


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
    assert [location.name for location in trace.definitions.locations][2:] == ["all cores"] * len(first)


@RUNS
@given(seed=SEEDS)
def test_chunks_are_on_their_cores_in_their_jobs(seed: int) -> None:
    records = random_records(seed)
    stays, chunks = pe_stays(records), records.chunks
    expected = Counter(
        (
            stay_at(stays[int(chunks.job[c]), int(chunks.pe[c])], chunks.start[c]).location,
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
    names = ("first iteration", "iterations", "step")
    found = Counter(
        (s.location, s.outer, s.begin, s.end, tuple(s.attributes[name] for name in names)) for s in spans
    )
    assert sorted(map(_plain, found)) == sorted(map(_plain, expected))
    assert all(set(s.attributes) == {"first iteration", "iterations", "step"} for s in spans)
    with tempfile.TemporaryDirectory() as directory:
        written(directory, records, "chunks", details=False)
        short = read_trace(Path(directory)).nested("chunk")
    sizes = [{"iterations": s.attributes["iterations"]} for s in spans]
    assert [s.attributes for s in short] == sizes


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
    stays = pe_stays(records)
    for job, pe, time in zip(records.pes.job, records.pes.pe, records.pes.told, strict=True):
        own = stays[int(job), int(pe)]
        for stay in own:
            key = stay.row, places[stay.node] if per_node else stay.location
            since = float(time) if stay is own[-1] else left(records, level, own, stay, int(pe))
            told[key] = max(told.get(key, 0.0), since, stay.start)
    ends = records.occupancy.end
    expected = Counter(
        (location, ns(time), ns(ends[row]))
        for (row, location), time in told.items()
        if ns(time) < ns(ends[row])
    )
    spans = traced(records, level, exclusive=exclusive).nested("idle")
    assert Counter((s.location, s.begin, s.end) for s in spans) == expected
    assert all(span.depth == 1 for span in spans)


def left(records: Records, level: Level, stays: list[PeStay], stay: PeStay, pe: int) -> float:
    """When a PE had done its last chunk of a stay; what its node sent tells where chunks are not shown."""
    held, chunks, messages = records.occupancy, records.chunks, records.messages
    job, end = held.job[stay.row], held.end[stay.row]
    if level == "chunks":
        own = np.flatnonzero((chunks.job == job) & (chunks.pe == pe))
        ends = [chunks.end[c] for c in own if stay_at(stays, chunks.start[c]) == stay]
        return float(max(ends, default=stay.start))
    own = (messages.job == job) & (messages.node == stay.node) & (messages.kind == MessageKind.NODE_IDLE)
    own &= (messages.sent >= stay.start) & (messages.sent <= end)
    return float(messages.sent[own].max(initial=stay.start))


def test_nodes_are_returned_in_these_runs() -> None:
    """What the other tests are worth: stays on other cores, and PEs told before their last stay."""
    moved = late = 0
    for seed in range(100):
        records = random_records(seed)
        told = dict(zip(zip(records.pes.job, records.pes.pe, strict=True), records.pes.told, strict=True))
        for key, stays in pe_stays(records).items():
            moved += len({stay.location for stay in stays}) > 1
            late += key in told and told[key] < stays[-1].start
    assert moved > 5
    assert late > 5


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
