"""Traces of loops alone at level ``messages``, and what readers make of their messages."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from mlsim.application.application_simulator import single_loop_records
from mlsim.application.loop_outcome import LoopRecorder, PERequests
from mlsim.record import ChunkStore
from mlsim.record.otf2 import Service
from mlsim.record.otf2.trace_layout import CHUNK_REQUEST
from mlsim.traces import anchor_of, opened, problems_of
from tests.application.test_reference import run
from tests.record.traces import Message, Trace, read_trace, written
from tests.reference.loops import Case

FIRST = 2
"""Location of PE 0 of a loop alone."""
INFINITY = float("inf")
HOW: dict[str, dict[str, bool]] = {
    "cca": {},
    "hmw": {"on_node": True},
    "dca": {"by_messages": False, "by_atomics": True, "calculates": True},
    "hdca": {"by_messages": False, "by_atomics": True, "calculates": True, "on_node": True},
    "mpi+openmp": {"by_messages": False, "waits": True},
    "steal": {"by_messages": False, "calculates": True},
}


def ns(seconds: Any) -> int:
    return round(Fraction(seconds) * 10**9)


def traced(case: Case, model: str, until: float = INFINITY) -> Trace:
    """Simulate a loop, and read its trace at level ``messages``."""
    outcome = run(case, model, until)
    rows, store = outcome.rows, ChunkStore()
    assert rows is not None
    chunks, recorder = store.open(), LoopRecorder(True, store)
    chunks.begin_step(0.0, 0, 0)
    chunks.take(rows.pe, rows.step, rows.first, rows.size, rows.requested, rows.start, rows.end)
    node = np.array(case.node_of_pe or range(case.p))
    is_first = np.append(True, np.diff(node) != 0)
    last = np.where(outcome.notified_at < until, np.maximum(outcome.finish, outcome.last_begin), np.nan)
    latency = np.array(case.latency)
    if model in ("hmw", "hdca"):
        latency = np.where(is_first, 0.0, case.intra)
    if model in ("cca", "hmw"):
        last[is_first if model == "hmw" else [0]] = np.nan
    recorder.take(0, 0.0, outcome, chunks, PERequests(latency, last))
    cores = np.bincount(node)
    names = [f"n{number}" for number in range(len(cores))]
    speed = np.array(case.speed)[is_first]
    machine: Any = SimpleNamespace(
        name=names, group=names, cores=cores, speed=speed, n_nodes=len(cores), n_cores=case.p
    )
    records = single_loop_records(1, machine, case.p, float(outcome.notified_at.max()), recorder)
    spent = {"calculation": case.calculation, "delay": case.delay, "assignment": case.assignment}
    service = Service(access=case.atomic, message_bytes=16, **spent, **HOW[model])
    with tempfile.TemporaryDirectory() as directory:
        written(directory, records, "messages", service=service)
        with opened(anchor_of(Path(directory))) as reader:
            assert list(problems_of(reader)) == []
        return read_trace(Path(directory))


def paired(trace: Trace) -> list[tuple[int, ...]]:
    """Pair sends and receives of loops as readers do: (sender, receiver, sent, received, 6 or 7)."""
    (communicator,) = trace.definitions.comms
    ranks = {member.group: rank for rank, member in enumerate(communicator.group.members)}
    rank = {location._ref: ranks[location.group] for location in trace.definitions.locations}
    waiting: dict[tuple[int, int, int], list[Message]] = defaultdict(list)
    for send in of_loops(trace.sends):
        waiting[rank[send.location], send.peer, send.tag].append(send)
    pairs = []
    for receive in of_loops(trace.receives):
        send = waiting[receive.peer, rank[receive.location], receive.tag].pop(0)
        assert (send.length, send.attributes) == (16, {}) == (receive.length, receive.attributes)
        pairs.append(
            (send.location - FIRST, receive.location - FIRST, send.time, receive.time, 6 + send.tag % 2)
        )
    assert not any(waiting.values())
    return sorted(pairs)


def of_loops(messages: Iterable[Message]) -> list[Message]:
    """Choose those that are not of coordination."""
    return [message for message in messages if message.tag >= CHUNK_REQUEST]
