"""The running jobs are in order of expected end, in blocks, whatever comes and goes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim._jit import kernel
from mlsim.batch.columns.job_columns import BLOCKS, EXPECTED, NUMBER, RUNNING, Columns, columns_at
from mlsim.batch.columns.running_jobs import (
    add_running,
    end_of_running,
    expect_end,
    first_after,
    next_running,
    remove_running,
    running_at,
    running_slots,
)
from mlsim.batch.state.batch_columns import BatchColumns
from mlsim.scenario import BatchConfig
from tests.effort import examples

MOST = 600


@kernel
def change(slot: int, starts: bool, address: int) -> None:
    columns = columns_at(address)
    if starts:
        add_running(slot, columns)
        columns.counts[RUNNING] += 1
    else:
        remove_running(slot, columns)
        columns.counts[RUNNING] -= 1


@kernel
def later_than(time: float, found: Any, address: int) -> int:
    columns, n = columns_at(address), 0
    place = first_after(time, columns)
    while place < end_of_running(columns):
        found[n] = running_at(place, columns)
        n += 1
        place = next_running(place, columns)
    return n


def check(columns: Columns, address: int, running: set[int], time: float) -> None:
    ends, numbers = columns.floats[EXPECTED], columns.ints[NUMBER]
    expected = sorted(running, key=lambda slot: (ends[slot], numbers[slot]))
    assert running_slots(columns).tolist() == expected
    found = np.empty(MOST, np.int64)
    n = later_than(time, found, address)
    assert found[:n].tolist() == [slot for slot in expected if ends[slot] > time]
    check_blocks(columns)


def check_blocks(columns: Columns) -> None:
    order, held = columns.blocks
    assert sorted(order) == list(range(len(order)))
    in_use = held[order[: columns.counts[BLOCKS]]]
    assert (in_use > 0).all()
    assert (in_use[1:] + in_use[:-1] > 64).all()


@settings(deadline=None, max_examples=examples(10))
@given(case=st.integers(0, 2**32))
def test_running_jobs_are_in_order_of_expected_end(case: int) -> None:
    rng = np.random.default_rng(case)
    jobs = BatchColumns(BatchConfig(), True, True, 1)
    columns, address = jobs.columns, jobs.address
    columns.ints[NUMBER, :MOST] = rng.permutation(MOST)
    columns.floats[EXPECTED, :MOST] = rng.integers(0, rng.choice([3, 60, 10_000]), MOST)
    running: set[int] = set()
    for _ in range(8):
        # Starts and ends by turns, all of them at times, in any order or by expected end.
        idle = sorted(set(range(MOST)) - running)
        for slot in rng.permutation(idle)[: int(rng.integers(0, len(idle) + 1))].tolist():
            change(slot, True, address)
            running.add(slot)
        check(columns, address, running, float(rng.integers(0, 60)))
        held = running_slots(columns) if rng.random() < 0.5 else rng.permutation(sorted(running))
        for slot in held[: int(rng.integers(0, len(held) + 1))].tolist():
            change(slot, False, address)
            running.remove(slot)
            check_blocks(columns)
        for slot in rng.permutation(sorted(running))[:9].tolist():
            expect_end(slot, float(rng.integers(0, 60)), address)
        check(columns, address, running, float(rng.integers(0, 60)))
