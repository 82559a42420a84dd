"""How PEs get their chunks in traces, under each execution model, held against simulations with SimPy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.application.test_models import full_cases
from tests.record.loop_traces import FIRST, ns, paired, traced
from tests.record.traces import Trace
from tests.reference import cca, dca, hdca, hmw, openmp, steal
from tests.reference.loops import Case, Log

TECHNIQUES = st.sampled_from(["STATIC", "SS", "GSS", "FAC2", "AF"])
Spans = list[tuple[int, int, int]]


class _Noting:
    """A case that notes who begins to calculate a size, and when."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.env: Any = None
        self.began: list[tuple[int, Fraction]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.case, name)

    def thinking(self, rank: int) -> Fraction:
        assert self.env is not None
        self.began.append((rank, self.env.now))
        return self.case.thinking(rank)


class _Master(hmw._Master):
    """A local master which notes when it takes requests that it answers."""

    def serve_pe(self, request: hmw._Request) -> Iterator[Any]:
        taken = self.env.now
        yield from super().serve_pe(request)
        if request not in self.mailbox:
            self.loop.taken[request.rank].append(taken)


def like_a_machine(case: Case) -> Case:
    """Give the PEs of a node the speed of its first, and none of them slow-downs."""
    node = case.node_of_pe or tuple(range(case.p))
    return replace(case, speed=tuple(case.speed[node.index(of)] for of in node), slow=())


def spans(trace: Trace, region: str) -> Spans:
    """Visits of a region as (PE, begin, end), in order."""
    return sorted((span.location - FIRST, span.begin, span.end) for span in trace.nested(region))


def waits(log: Log) -> Spans:
    """Times from asking to beginning, or to being told that nothing is left, by PE."""
    return sorted((pe, ns(begin), ns(end)) for pe, of in enumerate(log.waits) for begin, end in of)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data(), technique=TECHNIQUES)
@pytest.mark.parametrize("model", ["dca", "hdca"])
def test_who_serves_itself_asks_by_atomics_and_calculates_between_them(
    model: str, technique: str, data: st.DataObject
) -> None:
    case = like_a_machine(data.draw(full_cases(model, technique)))
    straight = model == "dca" and technique != "AF"
    if straight:  # which of its two atomics waits for others is not recorded
        case = replace(case, atomic=0.0, assignment=0.0)
    noting = _Noting(case)
    loop: Any = (dca if model == "dca" else hdca)._Loop(case)
    loop.case, noting.env = noting, loop.env
    log = loop.run()
    trace = traced(case, model)
    assert spans(trace, "request") == waits(log)
    chunks = {(row[0], ns(row[4])) for row in log.rows}
    assert not trace.sends
    assert len(trace.atomics) == 2 * len(chunks) + len(waits(log)) - len(chunks)
    # Rank 0 is the batch system.
    owners = {1} if model == "dca" else {1 + node for node in case.node_of_pe}
    assert {atomic.owner for atomic in trace.atomics} <= owners
    found = spans(trace, "chunk calculation")
    began = [(pe, ns(at), ns(at + case.thinking(pe))) for pe, at in noting.began if case.thinking(pe)]
    if straight:  # a size may be calculated in vain
        assert set(found) <= set(began)
        assert len(found) == (len(chunks) if began else 0)
    else:
        assert found == sorted(began)
    ends = {(atomic.location - FIRST, atomic.end) for atomic in trace.atomics}
    assert ends >= {(pe, end) for pe, _, end in waits(log)}
    begins = {(atomic.location - FIRST, atomic.begin) for atomic in trace.atomics}
    assert begins >= {(pe, begin) for pe, begin, _ in waits(log)}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data(), technique=TECHNIQUES)
def test_workers_ask_the_master_of_their_node(technique: str, data: st.DataObject) -> None:
    case = like_a_machine(data.draw(full_cases("hmw", technique)))
    loop: Any = hmw._Loop(case)
    loop.taken = defaultdict(list)
    loop.masters = [_Master(loop, v) for v in range(len(loop.masters))]
    log = loop.run()
    messages = []
    for rank in range(case.p):
        leader = case.node_of_pe.index(case.node_of_pe[rank])
        if rank == leader:
            continue
        near = Fraction(case.intra)
        for (asked, answered), taken in zip(log.waits[rank], loop.taken[rank], strict=True):
            messages.append((rank, leader, ns(asked), ns(taken), 6))
            messages.append((leader, rank, ns(answered - near), ns(answered), 7))
    trace = traced(case, "hmw")
    assert paired(trace) == sorted(messages)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), technique=TECHNIQUES)
def test_requests_wait_while_their_master_is_busy(technique: str, data: st.DataObject) -> None:
    case = like_a_machine(data.draw(full_cases("cca", technique)))
    log = cca._Loop(case).run()
    trace, spent = traced(case, "cca"), case.thinking(0) + Fraction(case.assignment)
    given_out = {(row[0], row[4]) for row in log.rows}
    expected = []
    for rank in range(1, case.p):
        latency = Fraction(case.latency[rank])
        for asked, begun in log.waits[rank]:
            work = spent if (rank, asked) in given_out else 0
            if begun - latency - work > asked + latency:
                expected.append((rank, ns(asked + latency), ns(begun - latency - work)))
    assert spans(trace, "wait") == sorted(expected)
    assert spans(trace, "request") == [row for row in waits(log) if row[0] > 0]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data(), technique=TECHNIQUES)
def test_threads_wait(technique: str, data: st.DataObject) -> None:
    case = like_a_machine(data.draw(full_cases("mpi+openmp", technique)))
    trace, log = traced(case, "mpi+openmp"), openmp.simulate(case)
    assert (trace.sends, trace.atomics, trace.nested("request")) == ([], [], [])
    found = spans(trace, "wait")
    assert {(pe, begin, end) for pe, begin, end in found if end > begin} >= {
        (row[0], ns(row[4]), ns(row[5])) for row in log.rows if row[5] > row[4]
    }


@settings(max_examples=30, deadline=None)
@given(data=st.data(), technique=st.sampled_from(["STATIC", "SS", "GSS", "FAC2"]))
def test_who_has_a_part_calculates_before_each_chunk(technique: str, data: st.DataObject) -> None:
    case = like_a_machine(data.draw(full_cases("steal", technique)))
    trace, log = traced(case, "steal"), steal.simulate(case)
    assert (trace.sends, trace.atomics) == ([], [])
    expected = []
    for pe, *_, start, _ in log.rows:
        end = start - Fraction(case.assignment)
        if case.thinking(pe):
            expected.append((pe, ns(end - case.thinking(pe)), ns(end)))
    assert spans(trace, "chunk calculation") == sorted(expected)


def test_nothing_is_asked_where_nobody_can_be() -> None:
    """A loop without iterations: each PE is told so once."""
    case = Case("SS", (0.0,), (1.0, 1.0), (0.0, 0.125), atomic=0.125)
    trace = traced(case, "dca")
    assert len(trace.atomics) == 2
    assert spans(trace, "chunk") == []
