"""The queue of events gives them in the order of a heap of (time, rank)."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.execution_models.event_queue import MATCH, due_lowest_rank, due_of, move, play, stays_first

# Few different times, so that many are equal; very small and very large ones; never.
TIMES = st.one_of(
    st.integers(0, 4).map(float), st.sampled_from([5e-324, 1e-12, 1e300, np.inf]), st.floats(0, 9)
)


@kernel
def take_events(first: Floats, after: Floats, before: int) -> tuple[Ints, Floats]:
    """Take events until none is left: each is followed by one of its PE, those of ``after`` in turn."""
    p, width = len(first), 1
    while width < p:
        width *= 2
    matches = np.zeros(before + 2 * width, MATCH)
    for rank in range(p):
        matches[before + width + rank].time = first[rank]
    play(matches, before, width, p)
    ranks, times = np.zeros(p + len(after), np.int64), np.zeros(p + len(after))
    for k in range(p + len(after)):
        top = matches[before + 1]
        rank, time = top.rank, top.time
        ranks[k], times[k] = rank, time
        if time == np.inf:
            return ranks[:k], times[:k]
        lowest = due_lowest_rank(matches, before, width, time)
        if lowest != rank or due_of(matches, before, width, rank) != time:
            return ranks[:0], times[:0]
        following = time + after[k] if k < len(after) else np.inf
        stays = stays_first(matches, before, width, rank, following)
        move(matches, before, width, rank, following)
        if following < np.inf and stays != (matches[before + 1].rank == rank):
            return ranks[:0], times[:0]
    return ranks, times


@settings(deadline=None)  # the first call compiles
@given(st.lists(TIMES, min_size=1, max_size=40), st.lists(TIMES, max_size=80), st.sampled_from([0, 6]))
def test_events_come_by_time_and_at_equal_times_by_rank(
    first: list[float], after: list[float], before: int
) -> None:
    ranks, times = take_events(np.array(first), np.array(after), before)
    heap = [(time, rank) for rank, time in enumerate(first)]
    heapq.heapify(heap)
    expected = []
    while heap[0][0] < np.inf:
        time, rank = heap[0]
        following = time + after[len(expected)] if len(expected) < len(after) else np.inf
        expected.append((time, rank))
        heapq.heapreplace(heap, (following, rank))
    assert list(zip(times.tolist(), ranks.tolist(), strict=True)) == expected
