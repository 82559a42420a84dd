"""What is said of choosing techniques where no time step follows another."""

from __future__ import annotations

import pytest

from mlsim.scenario import from_mapping
from mlsim.scenario.scenario_keys import warnings_of


def lines(time_steps, repetitions=None, alone=False, **selection):
    loop = {
        "technique": "auto",
        "iterations": {"count": 100},
        "time_steps": time_steps,
        "selection": selection,
    }
    mapping = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]},
        "workload": {"path": "log.swf"},
        "application": {"model": "loop", **loop},
    }
    return warnings_of(from_mapping(mapping), repetitions=repetitions, alone=alone)


@pytest.mark.parametrize("method", ["simulation", "exhaustive", "rl", "expert"])
def test_a_method_that_learns_needs_time_steps(method):
    (line,) = lines(1, method=method)
    assert line.startswith(f"application.selection.method {method} learns from earlier time steps")
    assert "application.time_steps is 1" in line
    assert not lines(2, method=method)


def test_repetitions_of_a_real_loop_are_time_steps():
    (line,) = lines(5, repetitions=1, method="rl")
    assert "--repetitions is 1" in line
    assert not lines(1, repetitions=2, method="rl")


def test_random_choices_and_choices_amid_a_loop_need_none():
    assert not lines(1, method="random")
    assert not lines(1, method="simulation", parameters={"every": 0.5})


def test_a_loop_alone_learns_from_no_other_job():
    for alone in ({"alone": True}, {"repetitions": 3}):
        (line,) = lines(3, method="rl", learns_over="application", **alone)
        assert line.startswith("application.selection.learns_over has no effect: only a run of jobs reads it")
        assert not lines(3, method="rl", learns_over="job", **alone)
    assert not lines(1, method="rl", learns_over="executable")
    assert len(lines(1, method="rl", learns_over="executable", alone=True)) == 2
