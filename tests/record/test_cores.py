from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import MlsimError
from mlsim.record import Jobs, Nodes, Occupancy, Records, empty
from mlsim.record.node_sets import number_cores
from tests.record.builders import random_records


def obvious_cores(records: Records) -> list[tuple[int, int, int]]:
    """Number cores as the occupancy table's documentation says, in the plainest way."""
    busy: list[tuple[float, int, int]] = []
    entries = []
    held = records.occupancy
    for row in range(len(held.job)):
        busy = [taken for taken in busy if taken[0] > held.start[row]]
        for node in range(held.node[row], held.node[row] + held.count[row]):
            used = {core for _, n, core in busy if n == node}
            free = [core for core in range(records.nodes.cores[node]) if core not in used]
            for core in free[: held.cores[row]]:
                entries.append((row, node, core))
                busy.append((held.end[row], node, core))
    return entries


def entries_of(records: Records) -> list[tuple[int, int, int]]:
    held = number_cores(records.nodes, records.jobs, records.occupancy)
    return list(zip(held.row.tolist(), held.node.tolist(), held.core.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), exclusive=st.booleans(), jobs=st.integers(0, 30))
def test_numbers_are_the_documented_ones(seed: int, exclusive: bool, jobs: int) -> None:
    records = random_records(seed, jobs=jobs, exclusive=exclusive)
    assert entries_of(records) == obvious_cores(records)


def occupancy(rows: list[tuple[int, int, int, int, float, float]]) -> Occupancy:
    job, node, count, cores, start, end = (np.array(column) for column in zip(*rows, strict=True))
    times = start.astype(np.float64), end.astype(np.float64)
    return Occupancy(job, node, count, cores, *times, np.zeros(len(rows), np.bool_))


def nodes(*cores: int) -> Nodes:
    names = [f"node{number}" for number in range(len(cores))]
    return Nodes(names, ["g"] * len(cores), np.array(cores), np.ones(len(cores)))


JOBS = replace(empty(Jobs), job_id=np.array([70, 71, 72, 73, 74]))


def test_nodes_of_many_words_fill_from_the_lowest_core() -> None:
    rows = [(0, 0, 1, 130, 0, 9), (1, 0, 1, 3, 0, 1), (2, 0, 1, 66, 0, 9), (3, 0, 1, 4, 1, 9)]
    core = number_cores(nodes(203), JOBS, occupancy(rows)).core
    assert core[:130].tolist() == list(range(130))
    assert core[130:133].tolist() == [130, 131, 132]
    assert core[133:199].tolist() == list(range(133, 199))
    assert core[199:].tolist() == [130, 131, 132, 199]


def test_jobs_of_no_length_use_the_same_cores_one_after_the_other() -> None:
    rows = [
        (0, 0, 1, 2, 0, 5),
        (1, 0, 1, 2, 5, 5),
        (2, 0, 1, 1, 5, 5),
        (3, 0, 1, 2, 5, 5),
        (4, 0, 1, 2, 5, 6),
    ]
    assert number_cores(nodes(2), JOBS, occupancy(rows)).core.tolist() == [0, 1, 0, 1, 0, 0, 1, 0, 1]


def test_too_many_cores_name_job_and_node() -> None:
    rows = [(0, 0, 2, 3, 0, 5), (1, 1, 1, 2, 4.5, 6)]
    with pytest.raises(MlsimError, match=r"job 71 .* 2 cores on node node1 from 4\.5 s.* 4 cores"):
        number_cores(nodes(4, 4), JOBS, occupancy(rows))


def test_rows_out_of_order_are_an_error() -> None:
    with pytest.raises(MlsimError, match="order of start"):
        number_cores(nodes(4), JOBS, occupancy([(0, 0, 1, 1, 2, 3), (1, 0, 1, 1, 1, 3)]))


def test_no_rows_give_no_entries() -> None:
    assert len(number_cores(nodes(4), JOBS, empty(Occupancy)).row) == 0
