"""Metrics in several walks over some rows at a time, against those over all rows at once."""

from __future__ import annotations

from dataclasses import MISSING, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.analysis.job_metrics import aggregate, queue_length, streamed_aggregate
from mlsim.record import Attempts, Jobs, empty, table_blocks
from mlsim.record.table_blocks import rows_of

numbers = st.lists(
    st.one_of(st.floats(-1e9, 1e9), st.sampled_from([0.0, 1.0, 1e-300, 5e8, np.nan])), max_size=40
)


def in_blocks(values: np.ndarray, size: int):
    return (values[at : at + size] for at in range(0, len(values), size))


@settings(max_examples=60, deadline=None)
@given(values=numbers, size=st.integers(1, 9))
def test_aggregates(values: list[float], size: int) -> None:
    column = np.array(values, dtype=float)
    found, expected = streamed_aggregate(in_blocks(column, size), len(column)), aggregate(column)
    for name in ("median", "p90", "p99", "max"):
        assert found[name] == expected[name], name
    for name in ("mean", "std"):
        assert found[name] == (
            None if expected[name] is None else pytest.approx(expected[name], rel=1e-9, abs=1e-6)
        )


waits = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from([0.0, 1.0, 2.0, 7.0, 30.0, np.nan]),
        st.sampled_from([0, 0, 0, 1, 3]),  # attempts before the last one
    ),
    min_size=1,
    max_size=30,
)


def run_of(jobs: list[tuple[int, float, int]]) -> tuple[Jobs, Attempts]:
    """Jobs that wait so long for each start; attempts run for 3 s."""
    jobs = sorted(jobs, key=lambda job: job[0])
    table = empty(Jobs)
    names = [field.name for field in fields(Jobs) if field.default is MISSING]
    columns = {name: np.zeros(len(jobs), getattr(table, name).dtype) for name in names}
    starts, attempts = [], []
    for number, (submit, wait, many) in enumerate(jobs):
        now = float(submit)
        for _ in range(many if wait == wait else 0):
            attempts.append((number, now + wait, now + wait + 3.0))
            now = attempts[-1][2]
        starts.append(now + wait)
    columns |= {"submit_time": np.array([float(job[0]) for job in jobs]), "start_time": np.array(starts)}
    job, start, end = (np.array(column) for column in zip(*attempts, strict=True)) if attempts else [[]] * 3
    zeros = np.zeros(len(attempts))
    number = np.array(job, np.int64)
    return Jobs(**columns), Attempts(
        number, number, np.array(start, float), np.array(end, float), zeros, zeros, zeros
    )


@settings(max_examples=200, deadline=None)
@given(jobs=waits, size=st.integers(1, 5))
def test_queue_length(jobs: list[tuple[int, float, int]], size: int) -> None:
    rows, attempts = run_of(jobs)
    expected = queue_length(rows, attempts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_blocks, "LONG_ROWS", 0)
        patch.setattr(table_blocks, "BLOCK_ROWS", size)
        found = queue_length(rows, attempts)
    assert found == {
        name: value if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)
        for name, value in expected.items()
    }


def test_rows_of_a_table() -> None:
    table = rows_of(empty(Jobs), slice(0, 5))
    assert len(table.job_id) == 0
