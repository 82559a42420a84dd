"""Windows of large neighbourhood search: how long they are searched."""

from __future__ import annotations

import numpy as np
import pytest

from mlsim.batch.cp.cp_planner import Window, solve_window
from mlsim.batch.cp.cp_solve import Answer, Control, Status
from mlsim.batch.cp.instance import Instance
from tests.batch.cp.instances import instance


def three_wide_jobs() -> tuple[Instance, Window]:
    """A machine where one wide job fits now, and others when two of three kinds of running jobs have ended.

    No pooled limit says so at once: a proof goes through 10,132 seconds, one by one.
    """
    whole, half = [20], [10]
    boxes = [
        *((node, 1, whole, 3349) for node in range(3)),
        *((node, 1, whole, 6858) for node in range(3, 5)),
        *((node, 1, whole, 7933) for node in range(5, 41)),
        *((node, 1, half, 1) for node in (41, 42)),
    ]
    jobs = [(-13615, 5, whole, duration) for duration in (21784, 21867, 22230)]
    window = Window(
        free=np.arange(3),
        starts=np.array([1, 6858, 7933]),
        earliest=np.zeros(3, np.int64),
        latest=np.array([14607, 14663, 14906]),
        weights=1.0 / np.array([21784.0, 21867.0, 22230.0]),
        makespan=False,
    )
    return instance([[20]] * 47, boxes, jobs), window


def searched(limit: float) -> tuple[list[int], Answer]:
    problem, window = three_wide_jobs()
    starts, answer, _, _ = solve_window(problem, window, Control(limit=limit, last_limit=limit, pace=0.3))
    assert starts is not None
    return starts.tolist(), answer


def test_a_search_that_goes_through_time_second_by_second_ends_with_its_limit():
    """Each conflict leaves a time to compare with: 1,000 take 0.03 s, 10,000 take 3 s."""
    starts, answer = searched(0.05)
    assert starts == [0, 6858, 7933]
    assert answer.status is Status.FEASIBLE
    assert 900 < answer.conflicts < 1200


def test_four_times_the_limit_is_twice_the_conflicts_where_each_is_dearer():
    _, shorter = searched(0.05)
    _, longer = searched(0.2)
    assert longer.conflicts == pytest.approx(2 * shorter.conflicts, rel=0.05)


@pytest.mark.slow
def test_a_long_limit_is_enough_for_the_proof():
    starts, answer = searched(8.0)
    assert starts == [0, 6858, 7933]
    assert answer.status is Status.OPTIMAL
