"""The event loops against slow SimPy simulations of the same models."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import LoopOutcome, simulate
from mlsim.execution_models.loop_state import Perturbation, unavailability_of
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.scenario.words import ExecutionModel, Technique
from mlsim.techniques import TECHNIQUES as ENTRIES
from tests.reference import cca, dca, hdca, hmw, openmp, steal
from tests.reference.loops import Case, Log
from tests.reference.techniques import Parameters

TECHNIQUES = [technique.value for technique in Technique]
REFERENCES: dict[str, Callable[[Case], Log]] = {
    "cca": cca.simulate,
    "dca": dca.simulate,
    "hmw": hmw.simulate,
    "hdca": hdca.simulate,
    "mpi+openmp": openmp.simulate,
    "steal": steal.simulate,
}
ONE_LEVEL = ["cca", "dca"]
TWO_LEVELS = ["hmw", "hdca", "mpi+openmp"]
SCHEDULES = ["STATIC", "CYCLIC", "SS", "GSS"]
SHARED = [name for name in TECHNIQUES if name != "CYCLIC"]
"""Techniques between nodes, and inside them under models with a queue per node."""
LEARNING = [name for name in TECHNIQUES if name in ("AF", "mAF") or name.startswith("AWF-")]
POSSIBLE = [
    (model, technique)
    for model in REFERENCES
    for technique in (TECHNIQUES if model in ONE_LEVEL else SHARED)
    if model != "steal" or not (ENTRIES[technique].adaptive or ENTRIES[technique].rule.follows_chunks)
]
"""Models and techniques that fit together."""


def execution_of(case: Case, model: str) -> ExecutionConfig:
    return ExecutionConfig(
        model=ExecutionModel(model),
        chunk_calculation=case.calculation,
        chunk_assignment=case.assignment,
        atomic_service=case.atomic,
        injected_delay=case.delay,
        break_after=case.break_after,
        break_time=case.break_time,
        break_every=case.break_every,
        piece_time=case.piece_time,
        service_order=case.service_order,
        request_ahead=case.ahead,
        master="dedicated" if case.dedicated else "non-dedicated",
        answers=case.answers,
        thread_share=case.thread_share,
        request_cost=case.request,
        start_up=case.start_up,
        start_up_std=case.start_up_std,
        lock="polling" if case.polling else "fifo",
        lock_retry=case.retry,
        nowait=case.nowait,
        global_p="pes" if case.global_pes else "nodes",
    )


def run(case: Case, model: str, until: float = float("inf")) -> LoopOutcome:
    columns = (np.array(column) for column in (case.prefix, case.speed, case.latency))
    return simulate(
        *columns,
        case.technique,
        execution_of(case, model),
        case.min_chunk,
        record=True,
        until=until,
        parameters=parameters_of(case),
        seed=case.parameters.seed,
        node_of_pe=np.array(case.node_of_pe) if case.node_of_pe else None,
        intra_latency=case.intra,
        perturbation=perturbation_of(case),
        pe_unavailability=unavailability_of(np.array(case.node_of_pe), case.away) if case.away else None,
    )


def perturbation_of(case: Case) -> Perturbation | None:
    if not case.slow:
        return None
    counts = [len(row) for row in case.slow]
    entries = [entry for row in case.slow for entry in row]
    return Perturbation(
        np.arange(case.p),
        np.cumsum([0, *counts]),
        np.array([time for time, _ in entries]),
        np.array([factor for _, factor in entries]),
    )


def parameters_of(case: Case) -> ParametersConfig:
    told = case.parameters
    return ParametersConfig(
        sigma=told.sigma,
        mu=told.mu,
        overhead=told.overhead,
        alpha=told.alpha,
        batches=told.batches,
        growth="geometric" if told.geometric else "converging",
        awf_chunk="batch" if told.awf_of_batch else "rest",
        random_from=told.random[0],
        random_to=told.random[1],
        compat="lb4mpi" if told.lb4mpi else "none",
        swr=told.swr,
        weights=told.weights,
        first_chunk=told.first_chunk,
        pieces=told.pieces or None,
    )


@st.composite
def told_parameters(draw: st.DrawFn, p: int) -> Parameters:
    """Parameters of all techniques; each reads its own."""
    weights = st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.5, 3.0]), min_size=p, max_size=p).map(tuple)
    return Parameters(
        sigma=draw(st.sampled_from([0.01, 0.3, 1.0, 2.0])),
        mu=draw(st.sampled_from([0.5, 1.0, 7.0])),
        overhead=draw(st.sampled_from([1e-3, 0.1, 2.0])),
        batches=draw(st.sampled_from([None, 2, 3, 9])),
        geometric=draw(st.booleans()),
        awf_of_batch=draw(st.booleans()),
        swr=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        first_chunk=draw(st.sampled_from([0.1, 0.3, 1.0])),
        pieces=draw(st.sampled_from([0, 0, 1, 2, 5])),
        seed=draw(st.sampled_from([0, 1, 2**40 + 7])),
        weights=draw(st.one_of(st.none(), weights)),
    )


def assert_same(case: Case, model: str) -> None:
    expected, outcome = REFERENCES[model](case), run(case, model)
    rows = outcome.rows
    assert rows is not None
    found = list(zip(rows.pe, rows.step, rows.first, rows.size, strict=True))
    chunks = expected.chunks()
    assert found == [row[:4] for row in chunks]
    times = np.array([row[4:] for row in chunks], dtype=float).reshape(len(chunks), 3)
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(np.array([rows.requested, rows.start, rows.end]).T, times, **close)
    np.testing.assert_allclose(outcome.notified_at, np.array(expected.told, dtype=float), **close)
    np.testing.assert_allclose(outcome.finish, np.array(expected.finish(), dtype=float), **close)
    np.testing.assert_allclose(outcome.busy, np.array(expected.busy(), dtype=float), **close)
    np.testing.assert_allclose(outcome.overhead, np.array(expected.overhead(), dtype=float), **close)
    np.testing.assert_allclose(outcome.idle, np.array(expected.idle(), dtype=float), **close)
    if not case.away:
        spent = outcome.busy + outcome.overhead + outcome.idle
        np.testing.assert_allclose(spent, outcome.notified_at, **close)
    assert outcome.steps == len(chunks) == outcome.chunks.sum()


def assert_ended_same(case: Case, model: str, until: float) -> None:
    expected, outcome = REFERENCES[model](case), run(case, model, until)
    chunks = [row for row in expected.chunks() if row[5] < until]
    rows = outcome.rows
    assert rows is not None
    assert list(zip(rows.pe, rows.first, rows.size, rows.start, strict=True)) == [
        (row[0], row[2], row[3], row[5]) for row in chunks
    ]
    np.testing.assert_array_equal(rows.end, [float(min(row[6], until)) for row in chunks])
    np.testing.assert_array_equal(outcome.notified_at, [float(min(told, until)) for told in expected.told])
    np.testing.assert_array_equal(outcome.finish, np.array(expected.finish(until), dtype=float))
    np.testing.assert_array_equal(outcome.busy, np.array(expected.busy(until), dtype=float))
    np.testing.assert_array_equal(outcome.overhead, np.array(expected.overhead(until), dtype=float))
    np.testing.assert_array_equal(outcome.idle, np.array(expected.idle(until), dtype=float))


@st.composite
def coarse_cases(draw: st.DrawFn, technique: str) -> Case:
    """Small multiples of 1/8: sums are exact in floating point, and many events coincide."""
    p = draw(st.integers(1, 6))
    eighths = st.integers(0, 6).map(lambda k: k / 8)
    costs = draw(st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.25, 0.5, 1.0]), max_size=40))
    return Case(
        technique=technique,
        prefix=(0.0, *accumulate(costs)),
        speed=tuple(draw(st.lists(st.sampled_from([0.5, 1.0, 1.0, 2.0]), min_size=p, max_size=p))),
        latency=(0.0, *draw(st.lists(eighths, min_size=p - 1, max_size=p - 1))),
        min_chunk=draw(st.sampled_from([1, 1, 1, 2, 5, 100])),
        calculation=draw(eighths),
        assignment=draw(eighths),
        atomic=draw(eighths),
        delay=draw(eighths),
        break_after=draw(st.sampled_from([1, 1, 2, 3, 50])),
        break_time=draw(st.sampled_from([0.0, 0.0, 0.125, 0.5])),
        break_every=draw(st.sampled_from([0.0, 0.0, 0.5, 1.25])),
        piece_time=draw(st.sampled_from([0.0, 0.0, 0.125, 0.5])),
        service_order=draw(st.sampled_from(["fifo", "lowest-rank"])),
        parameters=draw(told_parameters(p)),
    )


def fine_case(technique: str, seed: int, n: int, p: int) -> Case:
    """Random real numbers of very different sizes: no two events coincide."""
    rng = np.random.default_rng(seed)
    prefix = np.concatenate([[0.0], np.cumsum(rng.exponential(1e-2, n))])
    scale = 10.0 ** rng.uniform(-6, -2, 5)
    return Case(
        technique=technique,
        prefix=tuple(prefix.tolist()),
        speed=tuple(rng.uniform(0.3, 3.0, p).tolist()),
        latency=(0.0, *(rng.uniform(0.5, 1.5, p - 1) * scale[0]).tolist()),
        min_chunk=int(rng.integers(1, 4)),
        calculation=scale[1],
        assignment=scale[2],
        atomic=scale[3],
        delay=scale[4],
        break_after=int(rng.integers(1, 5)),
        break_time=float(rng.choice([0.0, scale[3]])),
        break_every=float(rng.choice([0.0, 0.05])),
        piece_time=float(rng.choice([0.0, scale[1]])),
        service_order=str(rng.choice(["fifo", "lowest-rank"])),
        parameters=Parameters(
            sigma=scale[4],
            mu=scale[3],
            overhead=scale[2],
            batches=int(rng.integers(2, 9)),
            geometric=bool(rng.integers(2)),
            swr=float(rng.choice([0.2, 0.7])),
            first_chunk=float(rng.choice([0.1, 0.25])),
            pieces=int(rng.choice([0, 3])),
            seed=seed,
            weights=tuple(rng.uniform(0.2, 3.0, p).tolist()) if rng.integers(2) else None,
        ),
    )


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_same_as_reference_where_events_coincide(model: str, technique: str, data: st.DataObject) -> None:
    assert_same(data.draw(coarse_cases(technique)), model)


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 150), p=st.integers(1, 20))
def test_same_as_reference_on_real_numbers(model: str, technique: str, seed: int, n: int, p: int) -> None:
    assert_same(fine_case(technique, seed, n, p), model)


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_ended_loop_is_the_reference_up_to_then(model: str, technique: str, data: st.DataObject) -> None:
    assert_ended_same(data.draw(coarse_cases(technique)), model, data.draw(st.integers(0, 40)) / 8)
