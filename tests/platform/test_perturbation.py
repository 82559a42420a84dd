"""Perturbations: steps of single nodes, and random processes that do not depend on who asks when."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.platform import Perturbations
from mlsim.platform import machine as module
from mlsim.scenario.platform_section import PerturbationConfig
from tests.reference.routes import factor_at, slow_downs

GROUPS = [("fast", 4), ("slow", 4)]
PROCESS = {"factor": [0.2, 0.6], "mean_time_between": 50.0, "mean_duration": 10.0}


def perturbations(*entries: dict[str, Any], seed: int = 1) -> Perturbations:
    return Perturbations([PerturbationConfig.model_validate(entry) for entry in entries], GROUPS, seed)


def steps(made: Perturbations, node: int, start: float, end: float) -> list[tuple[float, float]]:
    found = made.steps(node, start, end)
    return list(zip(found.time.tolist(), found.factor.tolist(), strict=True))


def test_a_stretch_holds_for_its_nodes() -> None:
    made = perturbations({"nodes": "0-1 5", "from": 10.0, "to": 20.0, "factor": 0.5})
    for node in (0, 1, 5):
        assert steps(made, node, 0.0, math.inf) == [(10, 0.5), (20, 1)]
    for node in (2, 4, 6):
        assert steps(made, node, 0.0, math.inf) == []


def test_steps_begin_where_they_are_asked_for() -> None:
    made = perturbations({"nodes": "slow", "from": 10.0, "to": 20.0, "factor": 0.5})
    assert steps(made, 4, 10.0, 15.0) == [(10, 0.5)]
    assert steps(made, 4, 12.0, 30.0) == [(12, 0.5), (20, 1)]
    assert steps(made, 4, 12.0, 20.0) == [(12, 0.5)]
    assert steps(made, 4, 20.0, 30.0) == []
    assert steps(made, 4, 0.0, 10.0) == []


def test_overlapping_factors_multiply() -> None:
    made = perturbations(
        {"from": 0.0, "to": 30.0, "factor": 0.5},
        {"from": 10.0, "factor": 4.0},
        {"from": 20.0, "to": 30.0, "factor": 2.0},
    )
    assert steps(made, 0, 0.0, math.inf) == [(0, 0.5), (10, 2), (20, 4)]


def test_nothing_is_perturbed_without_entries() -> None:
    assert not perturbations()
    assert perturbations({"factor": 0.5})
    assert steps(perturbations(), 3, 5.0, math.inf) == []


Entry = tuple[float, float, float]
moments = st.integers(0, 20).map(float)
entries = st.lists(
    st.tuples(moments, moments, st.sampled_from([0.25, 0.5, 2.0, 1.0])).filter(lambda e: e[0] < e[1]),
    max_size=6,
)


@settings(deadline=None, max_examples=200)
@given(entries, moments, moments)
def test_steps_against_looking_at_every_moment(drawn: list[Entry], start: float, end: float) -> None:
    made = perturbations(*({"from": begin, "to": stop, "factor": f} for begin, stop, f in drawn))
    found = made.steps(0, start, end)
    assert (np.diff(found.time) > 0).all()
    assert all(start <= time < end for time in found.time)
    assert (np.diff(np.append(1.0, found.factor)) != 0.0).all()
    stretches = slow_downs(found.time.tolist(), found.factor.tolist())
    for time in np.arange(start, end, 0.5):
        assert factor_at(stretches, time) == factor_at(drawn, time)


def test_random_processes_have_their_means() -> None:
    found = perturbations(PROCESS).steps(0, 0.0, 600_000.0)
    begin, end = found.time[:-1:2], found.time[1::2]
    assert len(begin) == pytest.approx(10_000, rel=0.05)
    assert (end - begin[: len(end)]).mean() == pytest.approx(10.0, rel=0.05)
    assert (begin[1:] - end[: len(begin) - 1]).mean() == pytest.approx(50.0, rel=0.05)
    factors = found.factor[::2]
    assert 0.2 <= factors.min() < 0.21 < 0.59 < factors.max() <= 0.6
    assert (found.factor[1::2] == 1.0).all()


def test_random_processes_stay_within_their_stretch() -> None:
    made = perturbations(PROCESS | {"from": 1000.0, "to": 2000.0})
    found = made.steps(0, 0.0, math.inf)
    assert found.time[0] > 1000.0
    assert found.time[-1] <= 2000.0
    assert found.factor[-1] == 1.0
    ending = perturbations({"factor": 0.5, "mean_time_between": 1e-3, "mean_duration": 1e6, "to": 10.0})
    assert steps(ending, 0, 1.0, math.inf) == [(1, 0.5), (10, 1)]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 7), st.floats(0, 1e5), st.floats(1e-3, 1e5)), max_size=8))
def test_what_was_asked_before_changes_nothing(asked: list[tuple[int, float, float]]) -> None:
    made = perturbations(PROCESS, {"from": 99.0, "factor": 0.5}, PROCESS)
    for node, start, length in asked:
        fresh = perturbations(PROCESS, {"from": 99.0, "factor": 0.5}, PROCESS)
        assert steps(made, node, start, start + length) == steps(fresh, node, start, start + length)


@settings(deadline=None, max_examples=50)
@given(st.floats(0, 1e4), st.floats(1, 1e4), st.floats(1, 1e4))
def test_parts_of_the_time_fit_together(start: float, first: float, second: float) -> None:
    made = perturbations(PROCESS, {"from": 500.0, "to": 5000.0, "factor": 0.5})
    middle, end = start + first, start + first + second
    whole = made.steps(2, start, end)
    left, right = made.steps(2, start, middle), made.steps(2, middle, end)
    times = np.sort(np.concatenate([np.linspace(start, end, 200, endpoint=False), whole.time]))
    expected = np.where(times < middle, left.at(times), right.at(times))
    assert whole.at(times).tolist() == expected.tolist()


def test_nodes_seeds_and_entries_have_their_own_random_numbers() -> None:
    made = perturbations(PROCESS, PROCESS)
    alone = perturbations(PROCESS)
    assert steps(made, 0, 0.0, 1e3) != steps(alone, 0, 0.0, 1e3)
    different = {
        str(steps(perturbations(PROCESS, seed=seed), node, 0.0, 1e3)) for seed in (1, 2) for node in (0, 1)
    }
    assert len(different) == 4
    # Entries that are not random, and other nodes, leave them as they are.
    other = perturbations({"nodes": "1", "factor": 0.5}, PROCESS | {"nodes": "0-3"})
    assert steps(other, 0, 0.0, 1e3) == steps(alone, 0, 0.0, 1e3)


def test_too_many_slow_downs_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SLOW_DOWNS", 1000)
    made = perturbations({"factor": 0.5}, PROCESS | {"nodes": "3"})
    with pytest.raises(
        InputError, match=r"perturbations.1, node 3: more than 1000 slow-downs in .* s, too many"
    ):
        made.steps(3, 0.0, 1e9)
    assert steps(made, 2, 0.0, 1e9) == [(0, 0.5)]
