"""The event loops against slow SimPy simulations of the same models."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import LoopOutcome, simulate
from mlsim.scenario import ExecutionConfig, ExecutionModel
from tests.reference import cca, dca
from tests.reference.loops import Case, Log

TECHNIQUES = ["STATIC", "SS", "GSS", "TSS", "FAC2", "AF"]
REFERENCES: dict[str, Callable[[Case], Log]] = {"cca": cca.simulate, "dca": dca.simulate}


def run(case: Case, model: str, until: float = float("inf")) -> LoopOutcome:
    execution = ExecutionConfig(
        model=ExecutionModel(model),
        chunk_calculation=case.calculation,
        chunk_assignment=case.assignment,
        atomic_service=case.atomic,
        injected_delay=case.delay,
        break_after=case.break_after,
        service_order=case.service_order,
        first_chunk=case.first_chunk,
    )
    columns = (np.array(column) for column in (case.prefix, case.speed, case.latency))
    return simulate(*columns, case.technique, execution, case.min_chunk, record=True, until=until)


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
    np.testing.assert_allclose(outcome.told, np.array(expected.told, dtype=float), **close)
    np.testing.assert_allclose(outcome.finish, np.array(expected.finish(), dtype=float), **close)
    np.testing.assert_allclose(outcome.busy, np.array(expected.busy(), dtype=float), **close)
    np.testing.assert_allclose(outcome.overhead, np.array(expected.overhead(), dtype=float), **close)
    assert outcome.steps == len(chunks) == outcome.chunks.sum()


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
        service_order=draw(st.sampled_from(["fifo", "lowest-rank"])),
        first_chunk=draw(st.sampled_from([0.1, 0.3, 1.0])),
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
        service_order=str(rng.choice(["fifo", "lowest-rank"])),
        first_chunk=float(rng.choice([0.1, 0.25])),
    )


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_same_as_reference_where_events_coincide(model: str, technique: str, data: st.DataObject) -> None:
    assert_same(data.draw(coarse_cases(technique)), model)


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 150), p=st.integers(1, 20))
def test_same_as_reference_on_real_numbers(model: str, technique: str, seed: int, n: int, p: int) -> None:
    assert_same(fine_case(technique, seed, n, p), model)


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", TECHNIQUES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_ended_loop_is_the_reference_up_to_then(model: str, technique: str, data: st.DataObject) -> None:
    case = data.draw(coarse_cases(technique))
    until = data.draw(st.integers(0, 40)) / 8
    expected, outcome = REFERENCES[model](case), run(case, model, until)
    chunks = [row for row in expected.chunks() if row[5] < until]
    rows = outcome.rows
    assert rows is not None
    assert list(zip(rows.pe, rows.first, rows.size, rows.start, strict=True)) == [
        (row[0], row[2], row[3], row[5]) for row in chunks
    ]
    np.testing.assert_array_equal(rows.end, [float(min(row[6], until)) for row in chunks])
    np.testing.assert_array_equal(outcome.told, [float(min(told, until)) for told in expected.told])
    np.testing.assert_array_equal(outcome.finish, np.array(expected.finish(until), dtype=float))
    np.testing.assert_array_equal(outcome.busy, np.array(expected.busy(until), dtype=float))
    np.testing.assert_array_equal(outcome.overhead, np.array(expected.overhead(until), dtype=float))
