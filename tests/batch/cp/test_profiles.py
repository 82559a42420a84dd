"""Room over time on classes of nodes, against looking at every node at every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.problem.profiles import NEVER, Demands, alone, profiles_of
from tests.batch.cp.instances import instance


@st.composite
def crowded(draw) -> tuple[Instance, np.ndarray]:
    """Nodes that many jobs of different ends hold, jobs of up to nine units, and the kind of each node."""
    n = draw(st.integers(1, 5))
    capacity = [[draw(st.integers(2, 9)), draw(st.integers(0, 9))] for _ in range(n)]
    boxes = []
    for node, (cores, memory) in enumerate(capacity):
        for _ in range(draw(st.integers(0, 4))):
            held = [draw(st.integers(0, cores // 2)), draw(st.integers(0, memory // 2))]
            cores, memory = cores - held[0], memory - held[1]
            boxes.append((node, 1, held, draw(st.integers(1, 30))))
    request = st.tuples(st.integers(1, 4), st.integers(0, 4)).map(list)
    job = st.tuples(st.just(0), st.integers(1, 9), request, st.integers(1, 25))
    jobs = draw(st.lists(job, min_size=1, max_size=4))
    kind = np.array([draw(st.integers(0, 1)) for _ in range(n)], np.int64)
    return instance(capacity, boxes, jobs), kind


def earliest(problem: Instance, job: int, allowed: np.ndarray) -> int:
    """Try one second after the other: at each, count what fits throughout on each node."""
    queued, running = problem.queued, problem.running
    request, units = queued.request[job], int(queued.units[job])
    last = int(running.remaining.max(initial=0))
    ends = range(last + int(queued.duration[job]) + 1)
    free = np.array(
        [
            [
                problem.free[node]
                + (running.request * running.units[:, None])[
                    (running.node == node) & (running.remaining <= at)
                ].sum(axis=0)
                for node in range(problem.n_nodes)
            ]
            for at in ends
        ]
    )
    asked = request > 0
    for start in range(last + 1):
        least = free[start : start + int(queued.duration[job])].min(axis=0)
        fit = (least[:, asked] // request[asked]).min(axis=1)
        if fit[allowed].sum() >= units:
            return start
    return NEVER


@pytest.mark.parametrize("barred", [False, True])
@settings(deadline=None)
@given(crowded())
def test_the_earliest_start_is_that_found_by_trying_every_second(
    barred: bool, drawn: tuple[Instance, np.ndarray]
):
    problem, kind = drawn
    queued = problem.queued
    dislike = np.zeros((len(queued), 2))
    dislike[::2, 1] = np.inf if barred else 0.5
    jobs = Demands(queued.units, queued.duration, queued.request, dislike)
    starts = alone(jobs, profiles_of(problem, problem.running.remaining, kind))
    for job, start in enumerate(starts.tolist()):
        assert start == earliest(problem, job, dislike[job, kind] < np.inf)
