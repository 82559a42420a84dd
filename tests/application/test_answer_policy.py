"""What applications answer when they are asked for nodes."""

from __future__ import annotations

import pytest

from mlsim.application.application_simulator import AnswerPolicy
from mlsim.scenario.words import AnswerRule


@pytest.mark.parametrize(
    ("tolerance", "new_run_time", "agrees"),
    [
        (0.25, 8.0, True),
        (0.25, 9.5, True),
        (0.25, 10.0, True),  # (1 + 1/4) · 8 s, exact in binary
        (0.25, 10.0 + 2.0**-48, False),
        (0.0, 8.0, True),
        (0.0, 8.125, False),
    ],
)
def test_a_run_time_may_grow_up_to_the_tolerance(tolerance: float, new_run_time: float, agrees: bool) -> None:
    assert AnswerPolicy(AnswerRule.TOLERANCE, tolerance).accepts(8.0, new_run_time) is agrees


def test_who_always_agrees_does_not_look() -> None:
    assert AnswerPolicy(AnswerRule.ALWAYS, 0.0).accepts(8.0, 1e9)
