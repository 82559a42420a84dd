"""Stays of long tables, read block by block, are those of the whole table."""

from __future__ import annotations

import numpy as np
import pytest

from mlsim.analysis import machine_metrics
from mlsim.record import Jobs, Occupancy, empty, table_blocks
from mlsim.record.column_types import stored_columns
from mlsim.record.node_sets import job_node_sets
from mlsim.record.record_tables import Attempts, Records
from mlsim.record.table_files import FILES


def records_of(n: int, returns: bool) -> Records:
    """Return jobs that start in another order than they came, some at one time; nodes are released."""
    rng = np.random.default_rng(8)
    start = rng.integers(0, n // 3, n).astype(float)
    start[rng.random(n) < 0.05] = np.nan
    columns = {
        column.field: np.zeros(n, column.dtype) for column in stored_columns(Jobs) if not column.optional
    }
    jobs = Jobs(**{**columns, "start_time": start, "end_time": start + 9.0, "job_id": np.arange(n)})
    order = [job for job in np.argsort(start, kind="stable").tolist() if not np.isnan(start[job])]
    rows = [(job, node, start[job], start[job] + 1.0 + node) for job in order for node in range(1 + job % 4)]
    if returns:
        again = order[-12]  # its node returns when jobs that came later have started
        rows += [(again, 0, start[order[-1]], start[again] + 9.0)]
    job, node, begin, end = map(np.array, zip(*rows, strict=True))
    ones = np.ones(len(job), np.int64)
    stays = Occupancy(job, node, ones, 2 * ones, begin, end, end < start[job] + 4.0)
    tables = {name: empty(kind) for name, kind in FILES.items()}
    return Records(**{**tables, "jobs": jobs, "occupancy": stays})


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("block", [7, 64, 1000])
def test_blocks_of_jobs_have_their_stays(monkeypatch, returns, block):
    records = records_of(300, returns)
    monkeypatch.setattr(table_blocks, "LONG_ROWS", 10)
    monkeypatch.setattr(table_blocks, "BLOCK_ROWS", 16)
    assert table_blocks.stay_once(records.occupancy, records.jobs) is not returns
    whole, parts = job_node_sets(records.occupancy, 300), []
    for some in table_blocks.record_blocks(records, block):
        parts += job_node_sets(some.occupancy, len(some.jobs.job_id))
        assert (np.diff(some.occupancy.start) >= 0).all()
    assert parts == whole


@pytest.mark.parametrize("returns", [False, True])
def test_what_was_released_is_summed_up_block_by_block(monkeypatch, returns):
    records = records_of(300, returns)
    expected = machine_metrics.coordination_metrics(records)
    assert expected["releases"] > 100
    monkeypatch.setattr(table_blocks, "LONG_ROWS", 10)
    monkeypatch.setattr(table_blocks, "BLOCK_ROWS", 16)
    assert machine_metrics.coordination_metrics(records) == pytest.approx(expected)


def test_jobs_that_started_again_are_not_alone():
    records = records_of(30, returns=False)
    attempts = Attempts(*(np.zeros(1, np.int64) for _ in range(2)), *(np.zeros(1) for _ in range(5)))
    assert not table_blocks.stay_once(records.occupancy, records.jobs, attempts)
