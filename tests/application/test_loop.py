"""Loops: worked examples, what must hold for every loop, limits and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim._jit import INTERPRETED
from mlsim.application import LoopOutcome, loop_outcome, simulate
from mlsim.application.iteration_costs import prefix_sums
from mlsim.application.techniques import read_only
from mlsim.errors import InputError
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.scenario.words import ExecutionModel, Technique
from mlsim.techniques import TECHNIQUES as ENTRIES

MODELS = ["cca", "dca"]
ALL_MODELS = [model.value for model in ExecutionModel]
TECHNIQUES = [technique.value for technique in Technique]
POSSIBLE = [
    (model, technique)
    for model in ALL_MODELS
    for technique in TECHNIQUES
    if technique != "CYCLIC" or model in MODELS
    if model != "steal" or not (ENTRIES[technique].adaptive or ENTRIES[technique].rule.follows_chunks)
]
"""Models and techniques that fit together."""


def run(
    costs: Sequence[float],
    speed: Sequence[float],
    technique: str = "SS",
    latency: Sequence[float] | None = None,
    min_chunk: int = 1,
    pes_per_node: int = 1000,
    **execution: Any,
) -> LoopOutcome:
    zero = [0.0] * len(speed)
    return simulate(
        prefix_sums(np.array(costs, dtype=float)),
        np.array(speed, dtype=float),
        np.array(zero if latency is None else latency),
        technique,
        ExecutionConfig(**execution),
        min_chunk,
        record=True,
        parameters=ParametersConfig(sigma=1.0, mu=2.0, overhead=0.5),
        node_of_pe=np.arange(len(speed)) // pes_per_node,
    )


def for_model(technique: str, model: str) -> str:
    """Give the technique, and inside a node one that the model can do."""
    return f"{technique}+GSS" if model == "mpi+openmp" else technique


def rows(outcome: LoopOutcome) -> list[tuple[float, ...]]:
    assert outcome.rows is not None
    r = outcome.rows
    return list(zip(r.pe, r.step, r.first, r.size, r.requested, r.start, r.end, strict=True))


def test_master_serves_at_its_breaks() -> None:
    """GSS, 6 iterations of 4 s on two PEs, breaks after 2 iterations, 1 s a calculation.

    Both ask at 0. The master serves itself (3 iterations) until 1, PE 1 (2 iterations) until 2, and
    executes from 2; PE 1 executes 2 to 10. At 10 the master has done its first two iterations, sees
    PE 1's request and calculates the last chunk until 11; PE 1 executes it until 15. The master's
    third iteration runs from 11 to 15, where both learn that nothing is left.
    """
    outcome = run([4.0] * 6, [1, 1], "GSS", model="cca", break_after=2, chunk_calculation=1.0)
    assert rows(outcome) == [(0, 0, 0, 3, 0, 2, 15), (1, 1, 3, 2, 0, 2, 10), (1, 2, 5, 1, 10, 11, 15)]
    assert outcome.notified_at.tolist() == [15, 15]
    assert outcome.busy.tolist() == [12, 12]
    assert outcome.overhead.tolist() == [3, 3]
    assert outcome.t_loop == 15


def test_master_makes_a_worker_wait_until_its_next_break() -> None:
    """SS, iterations of 3 s; PE 1 is three times as fast: it asks at 1 and is served at 3."""
    outcome = run([3.0] * 4, [1, 3], model="cca")
    assert rows(outcome) == [
        (0, 0, 0, 1, 0, 0, 3),
        (1, 1, 1, 1, 0, 0, 1),
        (0, 3, 3, 1, 3, 3, 6),
        (1, 2, 2, 1, 1, 3, 4),
    ]
    assert outcome.notified_at.tolist() == [6, 6]


def test_service_order_of_requests_that_wait() -> None:
    """PE 2's request arrives before PE 1's; both wait for the master's chunk to end at 8."""
    for order, served_first in (("fifo", 2), ("lowest-rank", 1)):
        outcome = run([8.0] * 5, [1, 2, 4], model="cca", service_order=order, chunk_assignment=0.5)
        again = [row for row in rows(outcome) if row[0] and row[4] > 0.0]
        assert min(again, key=lambda row: row[5])[0] == served_first


def test_window_serves_one_atomic_at_a_time() -> None:
    """SS, two iterations of 10 s on two PEs, 1 s an atomic, 2 s a calculation, PE 1 is 0.5 s away.

    PE 0 fetches its step in [0, 1] and claims in [3, 4]. PE 1's request comes at 0.5, is served in
    [1, 2], answered at 2.5; its claim arrives at 5 and is served until 6: it starts at 6.5. The
    final asks: PE 0 at 14: steps [14, 15], claim [17, 18]. PE 1 at 16.5: step in [17, 18] would meet
    PE 0's claim, which arrived at 17 as well and goes first by rank: step in [18, 19], answer at
    19.5, calculated at 21.5, claim arrives at 22, served until 23, told at 23.5.
    """
    outcome = run([10.0, 10.0], [1, 1], latency=[0, 0.5], model="dca", atomic_service=1, chunk_calculation=2)
    assert rows(outcome) == [(0, 0, 0, 1, 0, 4, 14), (1, 1, 1, 1, 0, 6.5, 16.5)]
    assert outcome.notified_at.tolist() == [18, 23.5]
    assert outcome.overhead.tolist() == [8, 13.5]


def test_chunks_may_be_claimed_in_another_order_than_sized() -> None:
    """PE 0 computes slowly: PE 1 fetches the second step but claims first."""
    outcome = run([1.0] * 8, [0.125, 1], "GSS", latency=[0, 0.25], chunk_calculation=1.0)
    first_rows = sorted(rows(outcome), key=lambda row: row[2])[:2]
    assert [(row[0], row[1], row[2], row[3]) for row in first_rows] == [(1, 1, 0, 2), (1, 2, 2, 1)]


def test_injected_delay_does_not_depend_on_speed() -> None:
    for model in MODELS:
        outcome = run([1.0], [0.5], model=model, injected_delay=3.0, chunk_calculation=1.0)
        assert rows(outcome) == [(0, 0, 0, 1, 0, 5, 7)]


def test_static_gives_chunk_j_to_pe_j() -> None:
    for model in MODELS:
        outcome = run([1.0] * 10, [1, 1, 1, 1], "STATIC", latency=[0, 0.75, 0.5, 0.25], model=model)
        chunks = sorted((pe, step, first, size) for pe, step, first, size, *_ in rows(outcome))
        assert chunks == [(0, 0, 0, 3), (1, 1, 3, 3), (2, 2, 6, 3), (3, 3, 9, 1)]


def test_adaptive_factoring_on_constant_costs_halves_nothing() -> None:
    """σ = 0: a PE with statistics takes ⌊R/P⌋, once all have statistics; no iteration is lost to rounding."""
    outcome = run([0.1] * 90, [1, 1, 1], "AF", model="dca")
    assert outcome.rows is not None
    assert outcome.rows.size.tolist()[:7] == [3, 3, 3, 15, 15, 17, 11]


def test_adaptive_factoring_gives_slow_pes_smaller_chunks() -> None:
    rng = np.random.default_rng(3)
    outcome = run(rng.exponential(1.0, 3000), [1, 1, 4, 4], "AF")
    assert outcome.rows is not None
    sizes = [outcome.rows.size[outcome.rows.pe == pe].sum() for pe in range(4)]
    assert max(sizes[:2]) * 3 < min(sizes[2:])
    assert outcome.finish.max() < 1.1 * outcome.finish.min()


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 2000), p=st.integers(1, 70))
def test_every_iteration_once_and_all_work_done(
    model: str, technique: str, seed: int, n: int, p: int
) -> None:
    rng = np.random.default_rng(seed)
    costs, speed = rng.exponential(1.0, n), rng.uniform(0.5, 2.0, p)
    latency = np.concatenate([[0.0], rng.uniform(0.0, 1e-2, p - 1)])
    outcome = run(
        costs,
        speed,
        for_model(technique, model),
        latency,
        pes_per_node=7,
        model=model,
        chunk_calculation=1e-3,
        atomic_service=1e-3,
    )
    r = outcome.rows
    assert r is not None
    order = np.argsort(r.first)
    assert np.array_equal(r.first[order], np.cumsum(r.size[order]) - r.size[order])
    assert r.size.sum() == n
    assert (r.size >= 1).all()
    assert (np.diff(r.start) >= 0).all()
    assert (r.requested <= r.start).all()
    assert (r.start <= r.end).all()
    work = np.array([costs[f : f + s].sum() for f, s in zip(r.first, r.size, strict=True)]) / speed[r.pe]
    busy = np.bincount(r.pe, work, minlength=p)
    np.testing.assert_allclose(outcome.busy, busy, rtol=1e-9, atol=1e-9)
    assert np.array_equal(outcome.chunks, np.bincount(r.pe, minlength=p))
    assert (outcome.notified_at >= outcome.finish).all()
    spent = outcome.busy + outcome.overhead + outcome.idle
    np.testing.assert_allclose(spent, outcome.notified_at, rtol=1e-9, atol=1e-9)
    assert (outcome.idle >= 0.0).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 2000), p=st.integers(1, 70))
def test_no_pe_idles_while_there_is_work(seed: int, n: int, p: int) -> None:
    """DCA without costs is list scheduling: at most one iteration longer than perfect balance."""
    rng = np.random.default_rng(seed)
    costs, speed = rng.exponential(1.0, n), rng.uniform(0.5, 2.0, p)
    outcome = run(costs, speed, "SS")
    ideal = costs.sum() / speed.sum()
    assert ideal * (1 - 1e-12) <= outcome.t_loop <= ideal + costs.max() / speed.min()
    assert outcome.rows is not None
    if n >= p:
        assert (outcome.finish >= outcome.rows.start.max()).all()


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
def test_same_input_gives_the_same_bytes(model: str, technique: str) -> None:
    costs = np.random.default_rng(5).exponential(1.0, 500)
    technique = for_model(technique, model)
    options = {"model": model, "chunk_assignment": 0.1, "lock": "polling", "pes_per_node": 3}
    first, second = (run(costs, [1.0] * 7, technique, **options) for _ in range(2))
    for name in ("finish", "notified_at", "busy", "overhead", "idle", "chunks", "last_first", "last_size"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    assert rows(first) == rows(second)


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
def test_smallest_loops(model: str, technique: str) -> None:
    technique = for_model(technique, model)
    empty = run([], [1, 1], technique, model=model, chunk_calculation=1.0)
    assert (empty.steps, empty.t_loop, empty.finish.tolist()) == (0, 0.0, [0.0, 0.0])
    alone = run([1.0] * 20, [2], technique, model=model)
    assert (alone.t_loop, alone.busy.tolist(), alone.notified_at.tolist()) == (10.0, [10.0], [10.0])
    few = run([1.0] * 3, [1] * 8, technique, model=model)
    assert few.steps == 3
    if model != "mpi+openmp":  # where a chunk is shared by all threads before the next
        assert (few.t_loop, few.chunks.tolist()) == (1.0, [1, 1, 1, 0, 0, 0, 0, 0])
    free = run([0.0] * 5, [1, 1], technique, model=model)
    assert (free.t_loop, free.chunks.sum()) == (0.0, free.steps)


def test_without_rows_the_rest_is_the_same() -> None:
    costs, speed = prefix_sums(np.arange(50.0)), np.ones(4)
    execution = ExecutionConfig()
    kept = simulate(costs, speed, np.zeros(4), "GSS", execution, record=True)
    left = simulate(costs, speed, np.zeros(4), "GSS", execution)
    assert left.rows is None
    assert (left.steps, left.t_loop) == (kept.steps, kept.t_loop)
    assert left.notified_at.tolist() == kept.notified_at.tolist()


def test_remaining_counts_what_is_in_hand() -> None:
    """Three PEs with last chunks of 4, 2 and 1 iterations of 1 s."""
    outcome = run([1.0] * 7, [1, 1, 2], "STATIC", min_chunk=3)
    assert outcome.finish.tolist() == [3.0, 3.0, 0.5]
    times = np.array([0.5, 1.0, 1.5, 3.0])
    iterations, work = outcome.remaining(prefix_sums(np.ones(7)), np.array([1.0, 1.0, 2.0]), times)
    assert iterations.tolist() == [6, 4, 4, 0]
    assert work.tolist() == [5.0, 4.0, 3.0, 0.0]


@pytest.mark.skipif(INTERPRETED, reason="kernels are not compiled: NUMBA_DISABLE_JIT is set")
def test_one_compiled_version_of_each_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsim.execution_models import MODELS

    monkeypatch.setattr("mlsim._jit.object_cache._Budget.left", 0)  # numba calls them, and counts
    for model in ALL_MODELS:
        run([1.0] * 5, [1, 1], "GSS", model=model, pes_per_node=1)
        adaptive = "FAC2" if model == "steal" else for_model("AF", model)
        run([1] * 5, [1.0, 1.0], adaptive, latency=[0.0, 0.0], model=model)
    kernels: list[Any] = [entry.run for entry in MODELS.values()]
    assert {len(kernel.signatures) for kernel in kernels} == {1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"speed": np.empty(0), "latency": np.empty(0)}, "0 PEs"),
        ({"speed": np.array([1.0, 0.0])}, "speed of PE 1 of 2: .*0.0.*more than 0"),
        ({"speed": np.array([np.nan, 1.0])}, "speed of PE 0"),
        ({"latency": np.array([0.0, -1.0])}, "latency of PE 1"),
        ({"latency": np.array([1.0, 1.0])}, "latency of PE 0 to itself"),
        ({"latency": np.zeros(3)}, "as many latencies"),
        ({"prefix": np.array([0.0, np.nan])}, "loop of 1 iterations on 2 PEs.*nan"),
        ({"prefix": np.array([1.0, 2.0])}, "begins with 0"),
        ({"prefix": np.empty(0)}, "begins with 0"),
        ({"technique": "QSS"}, "allowed: STATIC, SS, FSC"),
        ({"min_chunk": 0}, "min_chunk: 0"),
        ({"until": -1.0}, "until: -1.0"),
    ],
)
def test_wrong_arguments_are_named(changes: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "prefix": np.array([0.0, 1.0]),
        "speed": np.ones(2),
        "latency": np.zeros(2),
        "technique": "SS",
        "execution": ExecutionConfig(),
        "min_chunk": 1,
        "record": False,
        "until": 1.0,
    } | changes
    with pytest.raises(InputError, match=words):
        simulate(*arguments.values())


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12), st.sampled_from([0.5, 1.0, 3.0])), min_size=1),
    st.lists(st.integers(0, 30), min_size=1, max_size=9),
)
def test_what_remains_is_what_the_definition_says(chunks, times):
    """Byte by byte as sums over sorted moments give it, ties and times at the ends of chunks included."""
    size, begun, speed = (np.array(column) for column in zip(*chunks, strict=True))
    first = np.cumsum(size) - size
    prefix = prefix_sums(1.0 + np.arange(size.sum()) % 3)
    begun = begun.astype(float)
    end = begun + (prefix[first + size] - prefix[first]) / speed
    now = np.sort(np.array(times) / 2)
    rows = zip(first.tolist(), (first + size).tolist(), begun, speed, strict=True)
    ends = np.concatenate([b + (prefix[f + 1 : n + 1] - prefix[f]) / v for f, n, b, v in rows])
    left, work, before = np.zeros(len(now), np.int64), np.zeros(len(now)), np.zeros(len(now))
    loop_outcome._count_left(read_only(prefix), first, size, begun, end, speed, now, left)
    assert left.tolist() == [(ends > time).sum() for time in now]
    for moments, sums in ((end, work), (begun, before)):
        order = np.argsort(moments, kind="stable")
        loop_outcome._add_remaining(moments, order, speed, now, sums)
        later = np.searchsorted(moments[order], now, side="right")
        weights = np.append(np.cumsum(speed[order][::-1])[::-1], 0.0)
        products = np.append(np.cumsum((speed * moments)[order][::-1])[::-1], 0.0)
        np.testing.assert_array_equal(sums, products[later] - now * weights[later])
    assert (np.diff(work - before) <= 1e-9).all()
