"""Coordination messages in traces of random runs, held against the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record import MessageKind, Records
from mlsim.record.otf2 import Level
from tests.record.builders import random_records
from tests.record.traces import Trace, needs_otf2_print, node_locations, ns, printed, traced, written

SEEDS = st.integers(0, 2**32)
RUNS = settings(max_examples=25, deadline=None)


@RUNS
@given(seed=SEEDS, exclusive=st.booleans(), level=st.sampled_from(["nodes", "chunks"]))
def test_every_message_is_sent_and_received(seed: int, exclusive: bool, level: Level) -> None:
    records = random_records(seed, exclusive=exclusive)
    messages, held = records.messages, records.occupancy
    first = node_locations(records, per_node=exclusive and level == "nodes")
    pairs = []
    for m in range(len(messages.kind)):
        node, kind = int(messages.node[m]), MessageKind(messages.kind[m])
        if node < 0:
            rows = [row for row in range(len(held.job)) if held.job[row] == messages.job[m]]
            node = int(held.node[max(rows, key=lambda row: (held.end[row], -row))])
        said = {"message": kind.name.lower().replace("_", " "), "job id": job_id(records, m)}
        if kind in (MessageKind.NODE_IDLE, MessageKind.JOB_COMPLETED):
            left = int(messages.remaining_iterations[m])
            said |= {"remaining iterations": left, "remaining work": 0.5 * left}
        if kind is MessageKind.RELEASE_REQUEST:
            said |= {"nodes": int(messages.nodes[m]), "for job": int(messages.for_job[m])}
        ends = (0, first[node]) if kind.from_batch else (first[node], 0)
        times = ns(messages.sent[m]), ns(messages.received[m])
        length = 8 * (len(said) + 1)  # and the node
        pairs.append((*ends, *times, int(kind), length, sorted(said.items())))
    trace = traced(records, level, exclusive=exclusive)
    assert sorted(matched(trace)) == sorted(pairs)


def job_id(records: Records, message: int) -> int:
    return int(records.jobs.job_id[records.messages.job[message]])


def matched(trace: Trace) -> list[tuple[int, int, int, int, int, int, list]]:
    """Pair sends and receives as readers do: first sent, first received, for each pair of locations."""
    comm = next(iter(trace.definitions.comms))
    location_of = [location._ref for location in comm.group.members]
    queues: dict[tuple[int, int], list] = defaultdict(list)
    for send in trace.sends:
        queues[send.location, location_of[send.peer]].append(send)
    pairs = []
    for receive in trace.receives:
        ends = location_of[receive.peer], receive.location
        send = queues[ends].pop(0)
        assert (send.tag, send.length, send.attributes) == (receive.tag, receive.length, receive.attributes)
        said = sorted(send.attributes.items())
        pairs.append((*ends, send.time, receive.time, send.tag, send.length, said))
    assert not any(queues.values())
    return pairs


@needs_otf2_print
@pytest.mark.otf2
def test_messages_of_both_directions_are_printed(tmp_path: Path) -> None:
    """Counts of sends and receives by kind, as otf2-print sees them, against the records."""
    records = random_records(8, jobs=40, exclusive=True)
    written(tmp_path, records, "nodes", exclusive=True)
    _, events = printed(tmp_path)
    found: dict[str, Counter[tuple[bool, int]]] = defaultdict(Counter)
    for line in events:
        side, location, *_ = line.split()
        if side.startswith("MPI_"):
            found[side][location == "0", int(line.split("Tag: ")[1].split(",")[0])] += 1
    kinds = Counter(records.messages.kind.tolist())
    assert len(kinds) == len(MessageKind)
    sends = {(MessageKind(kind).from_batch, kind): count for kind, count in kinds.items()}
    assert found["MPI_SEND"] == sends
    assert found["MPI_RECV"] == {(not at_batch, kind): count for (at_batch, kind), count in sends.items()}
