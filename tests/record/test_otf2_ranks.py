"""Traces of real runs: a process a rank, requests and replies between ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import otf2
import pytest

from mlsim.record import Chunks, Loops, Nodes, Occupancy, PEs, Records, empty
from mlsim.record.derived_times import one_job
from mlsim.record.otf2 import Service, TraceOptions, write_otf2
from mlsim.record.record_tables import Messages, RankRequests, Ranks
from mlsim.traces import opened, problems_of
from tests.record.traces import Trace, needs_otf2_print, printed, read_trace

# PE, requested, start, end of chunks; PE 0 is the master, on node a with PE 1, PE 2 is alone on node b.
CHUNKS = [(0, 0.0, 0.0, 2.0), (1, 0.0, 0.3, 1.5), (2, 0.1, 0.5, 3.0), (1, 1.5, 1.7, 3.5), (0, 2.0, 2.1, 3.0)]
TOLD = [3.2, 3.8, 3.4]
# PE, sent, received, answered of requests, in order of the answers.
REQUESTS = [
    (1, 0.01, 0.2, 0.25),
    (2, 0.11, 0.3, 0.45),
    (1, 1.51, 1.6, 1.65),
    (2, 3.01, 3.2, 3.3),
    (1, 3.6, 3.61, 3.7),
]


def records() -> Records:
    pe, requested, start, end = (np.array(column) for column in zip(*CHUNKS, strict=True))
    n, zeros = len(CHUNKS), np.zeros(len(CHUNKS), np.int64)
    told = np.array(TOLD)
    held = Occupancy(
        np.zeros(2, np.int64), np.arange(2), np.ones(2, np.int64), np.array([2, 1]), np.zeros(2),
        np.full(2, 4.0), np.zeros(2, np.bool_),
    )  # fmt: skip
    return Records(
        nodes=Nodes(["a", "b"], ["mpi", "mpi"], np.array([2, 1]), np.ones(2)),
        jobs=one_job(1, 4.0, 3, 3),
        occupancy=held,
        loops=empty(Loops),
        chunks=Chunks(
            zeros, pe.astype(np.int32), np.arange(n), 10 * np.arange(n), zeros + 10, requested, start, end
        ),
        pes=PEs(np.zeros(3, np.int64), np.arange(3, dtype=np.int32), told, told, told),
        messages=empty(Messages),
    )


def requests(rows: list[tuple[int, float, float, float]] = REQUESTS) -> RankRequests:
    pe, *times = (np.array(column) for column in zip(*rows, strict=True))
    return RankRequests(pe, *times, 40, 24)


def traced(directory: Path, ranks: Ranks) -> Trace:
    names = {"scenario_name": "demo", "technique": "GSS", "workload_name": ""}
    info = write_otf2(
        directory, records(), TraceOptions("chunks", exclusive_nodes=True, ranks=ranks, **names)
    )
    trace = read_trace(directory)
    assert info.locations == len(list(trace.definitions.locations)) == 3
    assert info.events == sum(trace.counts.values())
    return trace


def test_each_rank_is_a_process_on_its_node(tmp_path):
    trace = traced(tmp_path, Ranks(np.array([0, 2, 1])))
    found = [
        (location.group.name, location.name, location.group.system_tree_parent.name)
        for location in trace.definitions.locations
    ]
    assert found == [
        ("MPI Rank 0", "Master thread", "a"),
        ("MPI Rank 2", "Master thread", "a"),
        ("MPI Rank 1", "Master thread", "b"),
    ]
    assert {location.type for location in trace.definitions.locations} == {otf2.LocationType.CPU_THREAD}
    assert not list(trace.definitions.metrics)
    (world,) = trace.definitions.comms
    assert (world.name, [member.group.name for member in world.group.members]) == (
        "MPI_COMM_WORLD",
        [f"MPI Rank {rank}" for rank in range(3)],
    )


def test_requests_and_replies_are_messages_between_ranks(tmp_path):
    trace = traced(tmp_path, Ranks(np.array([0, 2, 1]), requests()))
    rank_of = {2: 0, 3: 2, 4: 1}  # by location
    sides = {
        "sent": [(rank_of[m.location], m.peer, m.time / 1e9, m.length) for m in trace.sends],
        "received": [(m.peer, rank_of[m.location], m.time / 1e9, m.length) for m in trace.receives],
    }
    rank = [0, 2, 1]
    arrived = [0.3, 0.5, 1.7, 3.4, 3.8]  # the start of each one's next chunk, or when it was told
    expected = {"sent": [], "received": []}
    for (pe, sent, received, answered), came in zip(REQUESTS, arrived, strict=True):
        expected["sent"] += [(rank[pe], 0, sent, 40), (0, rank[pe], answered, 24)]
        expected["received"] += [(rank[pe], 0, received, 40), (0, rank[pe], came, 24)]
    assert {side: sorted(found) for side, found in sides.items()} == {
        side: sorted(found) for side, found in expected.items()
    }
    with opened(tmp_path / "traces.otf2") as reader:
        assert list(problems_of(reader)) == []


@needs_otf2_print
@pytest.mark.otf2
def test_otf2_print_has_no_complaint(tmp_path):
    traced(tmp_path, Ranks(np.array([0, 2, 1]), requests()))
    definitions, _ = printed(tmp_path)
    assert sum(line.startswith("LOCATION ") for line in definitions) == 3


def test_clocks_that_differ_do_not_have_messages_arrive_before_they_are_sent(tmp_path):
    early = [(pe, sent, sent - 1e-5, answered) for pe, sent, _, answered in REQUESTS]
    traced(tmp_path, Ranks(np.arange(3), requests(early)))
    with opened(tmp_path / "traces.otf2") as reader:
        assert list(problems_of(reader)) == []


def test_requests_that_do_not_fit_the_chunks_are_left_out(tmp_path):
    trace = traced(tmp_path, Ranks(np.arange(3), requests(REQUESTS[:-1])))
    assert (trace.sends, trace.receives) == ([], [])
    assert len(trace.nested("chunk")) == len(CHUNKS)


def test_without_ranks_there_is_a_batch_system(tmp_path):
    names = {"scenario_name": "demo", "technique": "GSS", "workload_name": ""}
    write_otf2(tmp_path, records(), TraceOptions("chunks", exclusive_nodes=True, **names))
    groups = [group.name for group in read_trace(tmp_path).definitions.location_groups]
    assert groups == ["batch system", "a", "b"]


def test_ranks_that_serve_themselves_access_a_window(tmp_path):
    service = Service(by_messages=False, by_atomics=True, on_node=True, calculates=True)
    names = {"scenario_name": "demo", "technique": "GSS+SS", "workload_name": ""}
    ranks = Ranks(np.array([0, 2, 1]))
    write_otf2(
        tmp_path,
        records(),
        TraceOptions("messages", exclusive_nodes=True, ranks=ranks, service=service, **names),
    )
    trace = read_trace(tmp_path)
    expected = {(row, round(asked * 1e9), round(begin * 1e9)) for row, asked, begin, _ in CHUNKS}
    assert {(span.location - 2, span.begin, span.end) for span in trace.nested("request")} == expected
    # Rows 0 and 1 are on one node, whose first rank is 0; row 2 is rank 1.
    found = {(atomic.location - 2, atomic.begin, atomic.end, atomic.owner) for atomic in trace.atomics}
    assert found == {(*row, 1 if row[0] == 2 else 0) for row in expected}
    (window,) = trace.definitions.rma_wins
    assert window.comm.name == "MPI_COMM_WORLD"
    with opened(tmp_path / "traces.otf2") as reader:
        assert list(problems_of(reader)) == []
