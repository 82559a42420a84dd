"""Allocators, one job at a time, on nodes of which any part is free: node sets against slow twins."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.batch_system import BatchSetup, BatchSystem
from mlsim.batch.columns.job_columns import FREE
from mlsim.batch.columns.occupancy import runs_of
from mlsim.batch.events.submissions import Submissions
from mlsim.batch.room.unit_requests import Requests
from mlsim.platform.network import build_graph, edges_of
from mlsim.scenario import BatchConfig
from mlsim.scenario.platform_section import NetworkConfig
from mlsim.scenario.words import Mapping
from tests.batch.hardware import jobs_with_requests, machine, simulate
from tests.effort import examples
from tests.reference import allocators
from tests.reference.allocators import Nodes, as_rows

# Seven nodes of three sorts; gpu and mic are scarce.
GROUPS = ((3, 4, 8, {"gpu": 2}), (3, 4, 4, {"mic": 1}), (1, 2, 16, {}))
ALIKE = ((7, 4, 8, {"gpu": 2, "mic": 1}),)
N = 7
NETWORKS = [
    {"topology": "fully-connected"},
    {"topology": "star"},
    {"topology": "fat-tree", "ports": 4},
    {"topology": "torus", "dimensions": "3x3"},
    {"topology": "torus", "dimensions": "7"},
    {"topology": "dragonfly", "groups": 4, "routers": 2, "nodes_per_router": 1},
]
TWINS = {
    **{(name, "prefer"): twin for name, twin in allocators.ALLOCATORS.items()},
    ("contiguous", "strict"): partial(allocators.contiguous, strict=True),
}


def distances(network, hardware):
    """Links between any two nodes, by networkx over the graph of the topology."""
    config = NetworkConfig.model_validate(network)
    if network["topology"] == "fully-connected":
        return [[int(a != b) for b in range(N)] for a in range(N)]
    edges = edges_of(config.edges) if config.edges else ()
    lengths = dict(nx.all_pairs_shortest_path_length(build_graph(config, hardware.name, edges)))
    return [[lengths[a][b] for b in range(N)] for a in range(N)]


def built(groups, network):
    hardware = machine(*groups, network=network)
    return hardware, distances(network, hardware)


MACHINES = [built(GROUPS, network) for network in NETWORKS] + [built(ALIKE, NETWORKS[0])]


def random_tree(rng):
    """A machine whose nodes are linked as they come, with or without a switch between any two."""
    links = []
    for node in range(1, N):
        ends = [f"g0{rng.integers(node)}", f"g0{node}"]
        if rng.random() < 0.5:
            ends.insert(1, f"switch {node}")
        links += [{"from": a, "to": b} for a, b in pairwise(ends)]
    return built(ALIKE, {"topology": "edge-list", "edges": links})


def random_free(rng, capacity, exclusive):
    """Some of what each node has: jobs should often fit, and seldom anywhere."""
    if exclusive:  # a node is free, or it is not
        return [row if rng.random() < 0.7 else (0,) * len(row) for row in capacity]
    quarters = rng.choice([4, 4, 3, 2, 1, 0], size=(len(capacity), len(capacity[0])))
    return as_rows(np.array(capacity) * quarters // 4)


def chosen(hardware, units, request, free, *, exclusive=False, seed=0, number=0, **batch):
    """Let the kernels place one job on what is free; give the node of each unit, or None."""
    mapping = Mapping.NODE if exclusive else Mapping.CORE
    config = BatchConfig.model_validate(batch)
    requests = Requests.on(hardware, mapping, per_job=True)
    system = BatchSystem(hardware, config, requests, BatchSetup(seed=seed))
    others = [0.0] * number  # jobs before this one, which are never queued
    rows = jobs_with_requests(
        hardware,
        [*others, 0.0],
        [*others, 9.0],
        [*(9.0 for _ in others), 9.0],
        [*(1 for _ in others), units],
        [*((1, 0, 0, 0) for _ in others), request],
    )
    slots = system.handler(Submissions).admit(rows)
    state = system.state
    if number not in state.table.column("number")[slots]:
        return None  # it never fits
    # Not through jobs: so anything may be free anywhere.
    nodes, counts = state.room.arrays, state.columns.counts
    nodes.free[:] = free
    nodes.starts[:] = runs_of(nodes.kind, nodes.free)
    nodes.total[:] = nodes.free.sum(axis=0)
    idle = (nodes.free == hardware.capacity).all(axis=1)
    counts[FREE] = idle.sum() if exclusive else nodes.free[:, 0].sum()
    assert state.n_free == counts[FREE]
    started = state.passes.advance(0.0, [], slots, len(slots) - 1, len(slots), np.empty(0, np.int64))
    if not started:
        return None
    found = []
    rows_of = state.rows_of(slots[-1])
    for row in rows_of:
        first, count, cores = (state.occupancy.ints[place, row] for place in (1, 2, 3))
        for node in range(first, first + count):
            found += [node] * (1 if exclusive else int(cores // request[0]))
    return found


# Everything is drawn from a seed: hypothesis likes small numbers, and jobs of one unit tell little.
@pytest.mark.parametrize(("allocator", "contiguity"), sorted(TWINS))
@settings(deadline=None, max_examples=50)
@given(case=st.integers(0, 2**32))
def test_node_sets_are_those_of_the_reference(allocator, contiguity, case):
    rng = np.random.default_rng(case)
    hardware, links = random_tree(rng) if rng.random() < 0.2 else MACHINES[rng.integers(len(MACHINES))]
    exclusive = bool(rng.random() < 0.3)
    free = random_free(rng, as_rows(hardware.capacity), exclusive)
    units, number, seed = (int(rng.integers(*bounds)) for bounds in ((1, 7), (0, 4), (0, 2**40)))
    request = tuple(int(rng.choice(few)) for few in ([1, 1, 2], [0, 1, 2], [0, 0, 0, 1], [0, 0, 0, 1]))
    twin = allocators.random_order(seed) if allocator == "random" else TWINS[allocator, contiguity]
    expected = twin(Nodes(hardware.capacity, exclusive, links), units, request, free, number)
    found = chosen(
        hardware,
        units,
        request,
        free,
        exclusive=exclusive,
        seed=seed,
        number=number,
        allocator=allocator,
        contiguity=contiguity,
    )
    assert found == (None if expected is None else sorted(expected))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(200))
@given(case=st.integers(0, 2**32))
def test_the_shortest_stretch_over_runs_of_nodes(case):
    rng = np.random.default_rng(case)
    runs = [(int(rng.integers(1, 6)), int(rng.choice([0, 1, 1, 2, 4, 5, 6, 6]))) for _ in range(10)]
    units = int(rng.integers(1, 30))
    hardware = machine((sum(count for count, _ in runs), 6, 1, {}))
    free = [(cores, 1) for count, cores in runs for _ in range(count)]
    expected = allocators.contiguous(Nodes(hardware.capacity, False), units, (1, 0), free, 0, strict=True)
    found = chosen(hardware, units, (1, 0), free, allocator="contiguous", contiguity="strict")
    assert found == (None if expected is None else sorted(expected))


LONG = machine((9, 4, 8, {"gpu": 2}), (14, 4, 4, {"mic": 1}), (17, 4, 8, {"gpu": 2}))
IN_ANY_RUN = ["first-fit", "best-fit", "worst-fit", "contiguous", "random", "heterogeneity-aware"]


@pytest.mark.parametrize("allocator", IN_ANY_RUN)
@settings(deadline=None, max_examples=examples(30))
@given(case=st.integers(0, 2**32))
def test_neighbours_that_are_alike_are_taken_as_if_they_differed(allocator, case):
    rng = np.random.default_rng(case)
    exclusive = bool(rng.random() < 0.3)
    source = np.cumsum(rng.random(len(LONG.capacity)) < 0.25)  # nodes of a stretch have as large a share free
    shares = rng.choice([0, 1] if exclusive else [0, 1, 2, 3, 4, 4], size=source[-1] + 1)[source]
    free = as_rows(np.array(LONG.capacity) * shares[:, None] // (1 if exclusive else 4))
    units, seed = int(rng.integers(1, 40)), int(rng.integers(2**40))
    request = tuple(int(rng.choice(few)) for few in ([1, 1, 2], [0, 1, 2], [0, 0, 0, 1], [0, 0, 0, 1]))
    twin = allocators.random_order(seed) if allocator == "random" else TWINS[allocator, "prefer"]
    expected = twin(Nodes(LONG.capacity, exclusive), units, request, free, 0)
    options = {"exclusive": exclusive, "seed": seed, "allocator": allocator}
    found = chosen(LONG, units, request, free, **options)
    assert found == (None if expected is None else sorted(expected))


def test_random_nodes_are_uniform_and_independent():
    """Chi-square tests, with bounds that random numbers exceed once in 1000 times."""
    hardware = machine((10, 1, 0, {}))
    n = 1000
    at = np.arange(n) * 2.0
    rows = jobs_with_requests(hardware, at, np.ones(n), np.ones(n), np.ones(n, int), np.ones((n, 1), int))
    _, done, occupancy = simulate(hardware, rows, allocator="random", seed=11)
    np.testing.assert_array_equal(done.start_time, at)  # each finds the machine empty
    node = occupancy.node[np.argsort(occupancy.job)]
    counts = np.bincount(node, minlength=10)
    assert ((counts - n / 10) ** 2 / (n / 10)).sum() < 27.88  # 9 degrees of freedom
    pairs = np.bincount(10 * node[:-1] + node[1:], minlength=100)
    expected = (n - 1) / 100
    assert ((pairs - expected) ** 2 / expected).sum() < 148.23  # 99 degrees of freedom


def test_random_draws_by_hand():
    """The finalizer of SplitMix64 on its first two states from 0, as its authors' code prints them."""
    assert allocators.mixed(allocators.GOLDEN) == 0xE220A8397B1DCDAF
    assert allocators.mixed(2 * allocators.GOLDEN & allocators.MASK) == 0x6E789E6AA1B965F4


@pytest.mark.parametrize(
    ("busy", "units", "prefer", "strict"),
    [
        ({3}, 3, [0, 1, 2], [0, 1, 2]),  # two stretches of three: the first
        ({1}, 1, [0], [0]),  # the shortest that holds it is one node
        ({2}, 4, [3, 4, 5, 6], [3, 4, 5, 6]),
        ({2, 5}, 3, [0, 1, 3], None),  # stretches of two, two and one
        (set(), 7, [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_neighbouring_nodes_by_hand(busy, units, prefer, strict):
    hardware = machine((N, 1, 0, {}))
    free = [(int(node not in busy),) for node in range(N)]
    for contiguity, expected in (("prefer", prefer), ("strict", strict)):
        found = chosen(hardware, units, (1,), free, allocator="contiguous", contiguity=contiguity)
        assert found == expected


def test_a_stretch_is_no_longer_than_needed():
    """Three units on one, one and two cores: the last two nodes hold them."""
    hardware = machine((3, 4, 0, {}))
    assert chosen(hardware, 3, (1,), [(1,), (1,), (2,)], allocator="contiguous") == [1, 2, 2]


def test_the_links_of_every_unit_count():
    """Four units on two and three cores: around the second node one unit is elsewhere, not two."""
    hardware = machine((2, 4, 0, {}), network={"topology": "star"})
    assert chosen(hardware, 4, (1,), [(2,), (3,)], allocator="topology-aware") == [0, 1, 1, 1]
