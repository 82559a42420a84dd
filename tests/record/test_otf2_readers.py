"""What readers built on the assumptions of others make of a trace, held against the records."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record import MessageKind
from mlsim.record.otf2 import Level
from mlsim.record.otf2.trace_content import application_nodes
from mlsim.traces import anchor_of, move_apart, opened
from tests.record.builders import random_records, with_requests
from tests.record.pipit_like import profile_of
from tests.record.traces import ns, read_trace, written


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), level=st.sampled_from(["jobs", "nodes", "chunks"]))
def test_a_reader_like_pipit_finds_times_and_messages_of_the_records(seed: int, level: Level) -> None:
    records = random_records(seed)
    with tempfile.TemporaryDirectory() as directory:
        info = written(directory, records, level)
        trace, found = read_trace(Path(directory)), profile_of(Path(directory))
    assert found.events + len(trace.metrics) == info.events
    held, chunks, jobs = records.occupancy, records.chunks, records.jobs
    expected: Counter[str] = Counter()
    for row in range(len(held.job)):
        length = ns(held.end[row]) - ns(held.start[row])
        expected[str(jobs.job_id[held.job[row]])] += int(held.count[row] * held.cores[row]) * length
    names = {region.name: region.canonical_name for region in trace.definitions.regions}
    inclusive = {names[name]: time for name, time in found.inclusive.items()}
    assert {job: inclusive.get(job, 0) for job in expected} == expected
    if level == "chunks":
        lengths = (ns(end) - ns(start) for start, end in zip(chunks.start, chunks.end, strict=True))
        assert inclusive.get("chunk", 0) == pytest.approx(sum(lengths), abs=1000 * len(chunks.job))
        assert found.calls["chunk"] == len(chunks.job)
    matrix: Counter[tuple[str, str]] = Counter()
    if level != "jobs":
        for kind, node in zip(records.messages.kind, application_nodes(records), strict=True):
            ends = "batch system", records.nodes.name[node]
            matrix[ends if MessageKind(kind).from_batch else ends[::-1]] += 1
    assert found.messages == matrix


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), level=st.sampled_from(["jobs", "nodes", "chunks", "messages"]))
def test_events_of_a_row_are_apart_where_readers_need_that(seed: int, level: Level) -> None:
    """The order of events is that of their times; these are moved by 1 ns for each event in between."""
    records = with_requests(random_records(seed), seed)
    found = []
    with tempfile.TemporaryDirectory() as directory:
        for apart in (False, True):
            place = Path(directory) / str(apart)
            written(place, records, level, apart=apart)
            found.append(events_of(place))
        with opened(anchor_of(Path(directory) / "False")) as trace:
            move_apart(trace, Path(directory) / "converted")
        converted = events_of(Path(directory) / "converted")
    exact, moved = found
    assert converted == moved
    assert exact.keys() == moved.keys()
    for location, events in exact.items():
        kinds, times = zip(*events, strict=True)
        assert [kind for kind, _ in moved[location]] == list(kinds)
        latest, expected = -1, []
        for time in times:
            latest = max(time, latest + 1)
            expected.append(latest)
        assert [time for _, time in moved[location]] == expected


def events_of(place: Path) -> dict[int, list[tuple[str, int]]]:
    """Return kind and time of the events of each row; fail where one is beyond the trace's end."""
    found: dict[int, list[tuple[str, int]]] = {}
    with opened(anchor_of(place)) as trace:
        end = trace.definitions.clock_properties.trace_length
        for location, event in trace.events:
            assert event.time <= end
            found.setdefault(location._ref, []).append((type(event).__name__, event.time))
    return found
