"""Every execution model against its slow reference: all techniques and pairs, all options, slow-downs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.application.test_reference import (
    LEARNING,
    ONE_LEVEL,
    POSSIBLE,
    REFERENCES,
    SCHEDULES,
    SHARED,
    TWO_LEVELS,
    assert_ended_same,
    assert_same,
    coarse_cases,
    fine_case,
    run,
)
from tests.reference.loops import Case


def pair(model: str, technique: str, other: str, schedule: str, outside: bool) -> str:
    if model in ONE_LEVEL or model == "steal":
        return technique
    if model == "mpi+openmp":
        return f"{technique}+{schedule}"
    return f"{technique}+{other}" if outside else f"{other}+{technique}"


def may_not_wait(technique: str) -> bool:
    outside, inside = technique.split("+")
    return inside not in ("STATIC", "CYCLIC") or outside not in LEARNING


@st.composite
def full_cases(draw: st.DrawFn, model: str, technique: str) -> Case:
    """Coarse cases with every option of a model, on nodes, with slow-downs."""
    case = draw(coarse_cases(technique))
    p, eighths = case.p, st.integers(0, 6).map(lambda k: k / 8)
    case = replace(
        case,
        dedicated=draw(st.booleans()),
        polling=draw(st.booleans()),
        retry=draw(st.sampled_from([0.125, 1.0, 4.0])),
        slow=draw(st.one_of(st.just(()), slow_downs(p))),
    )
    if model in ONE_LEVEL:
        return case
    nodes = np.cumsum([0, *draw(st.lists(st.integers(0, 1), min_size=p - 1, max_size=p - 1))]).tolist()
    intra = draw(eighths)
    # A master that asks and is answered at one moment could look again at that moment, and again.
    far = st.integers(1 if model == "hmw" else 0, 6).map(lambda k: k / 8)
    latency = [intra if node == 0 else draw(far) for node in nodes[1:]]
    technique = pair(
        model, technique, draw(st.sampled_from(SHARED)), draw(st.sampled_from(SCHEDULES)), draw(st.booleans())
    )
    return replace(
        case,
        technique=technique,
        node_of_pe=tuple(nodes),
        latency=(0.0, *latency),
        intra=intra,
        nowait=may_not_wait(technique) and draw(st.booleans()) if model == "mpi+openmp" else False,
        global_pes=model in TWO_LEVELS and may_count_pes(technique) and draw(st.booleans()),
    )


def may_count_pes(technique: str) -> bool:
    """Whether the technique between nodes can take the number of PEs for P."""
    return technique.split("+")[0] not in ("STATIC", *LEARNING)


def slow_downs(p: int) -> st.SearchStrategy[tuple[tuple[tuple[float, float], ...], ...]]:
    times = st.lists(st.integers(-4, 60), max_size=4, unique=True).map(sorted)
    factor = st.sampled_from([0.25, 0.5, 1.0, 2.0])
    row = times.flatmap(lambda t: st.tuples(*(st.tuples(st.just(k / 8), factor) for k in t)))
    return st.lists(row, min_size=p, max_size=p).map(tuple)


def full_fine_case(model: str, technique: str, seed: int, n: int, p: int) -> Case:
    """A fine case with options, nodes and slow-downs at random."""
    case, rng = fine_case(technique, seed, n, p), np.random.default_rng([seed, 1])
    nodes = np.cumsum(np.append(0, rng.integers(0, 2, p - 1)))
    scale = 10.0 ** rng.uniform(-6, -2, 3)
    intra = float(scale[0])
    times = np.sort(rng.uniform(-0.1, 1.0, (p, 3)), axis=1) * case.prefix[-1] / p
    factors = rng.choice([0.2, 0.5, 0.9, 3.0], (p, 3))
    slow = tuple(tuple(zip(t, f, strict=True)) for t, f in zip(times.tolist(), factors.tolist(), strict=True))
    case = replace(
        case,
        dedicated=bool(rng.integers(2)),
        polling=bool(rng.integers(2)),
        retry=float(scale[2]),
        slow=slow if rng.integers(2) and n > 0 else (),
    )
    if model in ONE_LEVEL:
        return case
    technique = pair(
        model, technique, str(rng.choice(SHARED)), str(rng.choice(SCHEDULES)), bool(rng.integers(2))
    )
    far = rng.uniform(0.5, 1.5, p) * scale[1]
    return replace(
        case,
        technique=technique,
        node_of_pe=tuple(nodes.tolist()),
        latency=(
            0.0,
            *(intra if node == 0 else float(t) for node, t in zip(nodes[1:], far[1:], strict=True)),
        ),
        intra=intra,
        nowait=model == "mpi+openmp" and may_not_wait(technique) and bool(rng.integers(2)),
        global_pes=model in TWO_LEVELS and may_count_pes(technique) and bool(rng.integers(2)),
    )


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_same_as_reference_where_events_coincide(model: str, technique: str, data: st.DataObject) -> None:
    assert_same(data.draw(full_cases(model, technique)), model)


@st.composite
def absences(draw: st.DrawFn, nodes: int) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Nodes but the first leave, some of them for good, some when the loop begins, or come back, or both."""

    def spans(turns: list[int]) -> tuple[tuple[float, float], ...]:
        times = [turn - 1 for turn in turns] + ([float("inf")] if len(turns) % 2 else [])
        return tuple(zip(times[::2], times[1::2], strict=True))

    turns = st.lists(st.integers(0, 12), max_size=4, unique=True).map(sorted)
    return ((), *(spans(draw(turns)) for _ in range(nodes - 1)))


@pytest.mark.parametrize(("model", "technique"), [pair for pair in POSSIBLE if pair[0] in TWO_LEVELS])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_nodes_leave_as_in_the_reference(model: str, technique: str, data: st.DataObject) -> None:
    """And every iteration is executed exactly once, whoever has left."""
    case = data.draw(full_cases(model, technique))
    case = replace(case, away=data.draw(absences(max(case.node_of_pe) + 1)))
    assert_same(case, model)
    rows = run(case, model).rows
    assert rows is not None
    executed = [
        k for first, size in zip(rows.first, rows.size, strict=True) for k in range(first, first + size)
    ]
    assert sorted(executed) == list(range(case.n))


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 150), p=st.integers(1, 20))
def test_same_as_reference_on_real_numbers(model: str, technique: str, seed: int, n: int, p: int) -> None:
    assert_same(full_fine_case(model, technique, seed, n, p), model)


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_ended_loop_is_the_reference_up_to_then(model: str, technique: str, data: st.DataObject) -> None:
    until = data.draw(st.integers(0, 60)) / 8
    assert_ended_same(data.draw(full_cases(model, technique)), model, until)


def test_every_model_has_a_reference() -> None:
    from mlsim.scenario.words import ExecutionModel

    assert set(REFERENCES) == {model.value for model in ExecutionModel}
