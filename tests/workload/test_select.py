from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.workload.job_selection import (
    WEEK_SECONDS,
    Selection,
    Span,
    TooDisorderedError,
    find_span,
    in_order,
    rows_in,
)
from mlsim.workload.workload_jobs import JobBlock

times = st.lists(st.one_of(st.integers(0, 20).map(float), st.floats(0, 30)), max_size=30)
cuts = st.lists(st.integers(0, 30), max_size=5)


def block_of(submits: list[float], ids: list[int] | None = None) -> JobBlock:
    whole = np.array(ids if ids is not None else range(len(submits)), dtype=np.int64)
    real = np.array(submits, dtype=float)
    return JobBlock(whole, real, real, real, *(np.arange(len(submits)) for _ in range(10)))


def split(block: JobBlock, places: list[int]) -> list[JobBlock]:
    edges = [0, *sorted(min(place, len(block)) for place in places), len(block)]
    return [block.select(slice(start, end)) for start, end in pairwise(edges)]


def chosen(selection: Selection, submits: list[float], places: list[int]) -> list[float]:
    blocks = split(block_of(submits), places)
    span = find_span(selection, lambda: blocks)
    taken = [t for block in blocks for t in block.submit_time[rows_in(span, block)].tolist()]
    assert span.jobs <= len(taken)
    if span.jobs:
        assert span.origin == taken[0]
    return taken[: span.jobs]


@settings(max_examples=200, deadline=None)
@given(
    submits=times.map(sorted), places=cuts, length=st.one_of(st.floats(0.1, 40), st.integers(1, 9).map(float))
)
def test_most_intensive_against_trying_every_start(
    submits: list[float], places: list[int], length: float
) -> None:
    windows = [[other for other in submits if start <= other < start + length] for start in submits]
    best = max(windows, key=len, default=[])  # the first of the longest
    assert chosen(Selection(most_intensive=length), submits, places) == best


@settings(max_examples=200, deadline=None)
@given(
    submits=times.map(sorted),
    places=cuts,
    window=st.tuples(st.integers(0, 20), st.integers(1, 20)).map(
        lambda pair: (float(pair[0]), float(sum(pair)))
    ),
    first=st.one_of(st.none(), st.integers(1, 12)),
)
def test_window_against_a_filter(
    submits: list[float], places: list[int], window: tuple[float, float], first: int | None
) -> None:
    expected = [time for time in submits if submits[0] + window[0] <= time < submits[0] + window[1]]
    assert chosen(Selection(first, window), submits, places) == expected[:first]
    assert chosen(Selection(first), submits, places) == submits[:first]


def test_ties_take_the_earliest_window_and_its_end_is_excluded() -> None:
    assert chosen(Selection(most_intensive=10.0), [0, 10, 20, 29, 40, 49.9], []) == [20, 29]


@settings(max_examples=200, deadline=None)
@given(
    submits=st.lists(st.tuples(st.integers(0, 9).map(float), st.integers(0, 3)), max_size=30),
    places=cuts,
    look_ahead=st.integers(0, 30),
)
def test_sorting_in_the_stream(submits: list[tuple[float, int]], places: list[int], look_ahead: int) -> None:
    block = block_of([time for time, _ in submits], [number for _, number in submits])
    expected = sorted(range(len(submits)), key=lambda place: submits[place])
    assert block.arrival_order().tolist() == expected
    assert block.is_ordered() == (expected == sorted(expected))
    blocks = split(block, places)
    try:
        found = [row for part in in_order(blocks, look_ahead) for row in part.user.tolist()]
    except TooDisorderedError:
        displaced = max(row - place for place, row in enumerate(expected))
        assert displaced > look_ahead
    else:
        assert found == expected


def test_too_much_disorder_is_noticed() -> None:
    with pytest.raises(TooDisorderedError):
        list(in_order(split(block_of([5, 6, 7, 8, 9, 0]), [1, 2, 3, 4, 5]), 2))


def test_blocks_join_and_split() -> None:
    block = block_of([3.0, 1.0, 2.0])
    assert block.select(block.submit_time > 1).job_id.tolist() == [0, 2]
    assert JobBlock.concatenate(split(block, [1, 1])).submit_time.tolist() == [3, 1, 2]
    assert len(JobBlock.concatenate([])) == 0
    assert JobBlock.empty().job_id.dtype == np.int64
    assert JobBlock.empty().walltime.dtype == np.float64
    columns = block.select(slice(0, 3, 2))
    assert columns.job_id.flags.c_contiguous


def test_a_job_that_ends_with_its_week_has_not_crossed_its_edge() -> None:
    last = WEEK_SECONDS - 16.0
    jobs = replace(block_of([0.0, last, last, WEEK_SECONDS]), run_time=np.array([5.0, 16.0, 17.0, 1.0]))
    span = Span(Selection(whole_weeks=True), 0.0, np.inf)
    assert jobs.job_id[rows_in(span, jobs)].tolist() == [0, 1, 3]
