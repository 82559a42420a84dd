import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record import Occupancy
from mlsim.record.node_sets import job_node_sets
from tests.reference import metrics as slow
from tests.reference.runs import Stay, stays_of


def format_nodes(nodes):
    """Return the set of nodes that one job held, as text."""
    node = np.array(nodes, np.int64)
    none, one = np.zeros_like(node), np.ones_like(node)
    return job_node_sets(Occupancy(none, node, one, one, one * 1.0, one * 2.0, one > 1), 1)[0]


def parse_nodes(text):
    """Return the numbers of intervals such as 0-3 7."""
    pieces = (piece.split("-") for piece in text.split())
    return [node for ends in pieces for node in range(int(ends[0]), int(ends[-1]) + 1)]


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([7, 3, 2, 1, 0], "0-3 7"),
        ([5, 5, 6], "5-6"),
        ([9, 10, 11, 99, 100], "9-11 99-100"),
        ([123456789], "123456789"),
    ],
)
def test_intervals_are_written_and_read(nodes, text):
    assert format_nodes(nodes) == text
    assert parse_nodes(text) == sorted(set(nodes))


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6)))
def test_sets_read_back_equal(nodes):
    assert parse_nodes(format_nodes(nodes)) == sorted(set(nodes))


def stays(n_jobs):
    stay = st.builds(
        Stay,
        st.integers(0, n_jobs - 1),
        st.integers(0, 120),
        st.integers(1, 20),
        st.just(1),
        st.just(0),
        st.just(1),
    )
    return st.lists(stay, max_size=40)


@settings(deadline=None)
@given(stays(n_jobs=5))
def test_jobs_sets_are_those_of_their_stays(rows):
    expected = [format_nodes(sorted(nodes)) for nodes in slow.node_sets(rows, 5)]
    assert job_node_sets(stays_of(rows), 5) == expected


def test_many_jobs():
    n_jobs, n_stays = 50_000, 200_000
    job, node = np.arange(n_stays) % n_jobs, np.arange(n_stays) * 7919 % 5000
    one = np.ones(n_stays, np.int64)
    occupancy = Occupancy(job, node, one, one, one * 1.0, one * 2.0, one > 1)
    texts = job_node_sets(occupancy, n_jobs)
    assert len(texts) == n_jobs
    for number in (0, 12_345, n_jobs - 1):
        assert texts[number] == format_nodes(node[job == number])
