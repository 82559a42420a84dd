"""A pool of units keeps runs of nodes that are alike; node by node it is the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.columns.occupancy import COUNT, NODE, NODE_CORES
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.pool_state import state_on_pool
from mlsim.platform import build_machine
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.words import Mapping
from tests.batch.builders import block
from tests.effort import examples
from tests.reference.pool import PlainPool

NOTHING = np.empty(0, np.int64)
GROUPS = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 3)), min_size=1, max_size=4)
KINDS = ("start", "start", "start", "end", "end", "release", "fail", "fail", "repair")
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.floats(0, 1, exclude_max=True)), max_size=60)


class Driven:
    """A state on a pool, and beside it every node by itself."""

    def __init__(self, groups, mapping, one_by_one):
        named = [{"name": f"g{k}x", "count": n, "cores": c} for k, (n, c) in enumerate(groups)]
        self.machine = build_machine(PlatformConfig.model_validate({"nodes": named}))
        requests = Requests.on(self.machine, mapping)
        self.state = state_on_pool(self.machine, BatchConfig(), requests, one_by_one)
        self.plain = PlainPool(self.machine.cores.tolist(), requests.exclusive)
        self.merges, self.jobs, self.now = not one_by_one, 0, 0.0

    def take(self, kind, where):
        """Take a step, if there is anything to take it with; ``where`` chooses it, in [0, 1)."""
        self.now += 1.0
        running = self.state.running()
        if kind == "start":
            self.start(int(where * (self.state.n_free + 1)))
        elif kind == "end" and running:
            slot = running[int(where * len(running))]
            self.state.end(slot, self.now)
            self.plain.end(slot)
        elif kind == "release" and running:
            self.release(running[int(where * len(running))], where)
        elif kind == "fail":
            node = int(where * len(self.plain.cores))
            if node not in self.plain.down:
                self.state.take_down(node)
                self.plain.down.add(node)
        elif kind == "repair" and self.plain.down:
            node = sorted(self.plain.down)[int(where * len(self.plain.down))]
            self.state.bring_up(node)
            self.plain.down.remove(node)
        assert self.state.n_free == self.plain.units()

    def start(self, units):
        if units == 0:
            return
        self.jobs += 1
        jobs = block([self.now], [1e6], [1e6], [units], [self.jobs])
        slots = self.state.table.admit(jobs, self.state.requests.units_of(jobs))
        self.state.ensure_capacity()
        assert self.state.passes.advance(self.now, [], slots, 0, 1, NOTHING) == 1
        rows = self.state.occupancy.ints[:, list(self.state.rows_of(int(slots[0])))]
        found = {}
        for first, count, cores in zip(rows[NODE], rows[COUNT], rows[NODE_CORES], strict=True):
            assert self.merges or count == 1
            found |= dict.fromkeys(range(first, first + count), cores)
        assert found == self.plain.start(int(slots[0]), units)
        touch = rows[NODE, 1:] == rows[NODE, :-1] + rows[COUNT, :-1]
        alike = rows[NODE_CORES, 1:] == rows[NODE_CORES, :-1]
        assert not self.merges or not (touch & alike).any(), "rows that could be one"

    def release(self, slot, where):
        held = [row for row in self.state.rows_of(slot) if self.state.is_held(row)]
        if self.merges or len(held) < 2:
            return  # nodes are given back one by one, or at the end
        row = held[int(where * len(held))]
        first, count = self.state.occupancy.ints[[NODE, COUNT], row].tolist()
        self.state.release(slot, row, self.now)
        self.plain.release(slot, range(first, first + count))

    def nodes_agree(self):
        room = self.state.room
        for node in range(len(self.plain.cores)):
            whole = self.plain.free(node) == self.plain.cores[node]
            assert room.is_free(node) == whole, node


@settings(deadline=None, max_examples=examples(150))
@given(GROUPS, st.sampled_from([Mapping.NODE, Mapping.CORE]), st.booleans(), STEPS)
def test_every_node_is_held_as_if_it_were_by_itself(groups, mapping, one_by_one, steps):
    driven = Driven(groups, mapping, one_by_one)
    for kind, where in steps:
        driven.take(kind, where)
    driven.nodes_agree()


@pytest.mark.slow
@pytest.mark.parametrize("mapping", [Mapping.NODE, Mapping.CORE])
def test_machines_of_more_nodes_than_a_word_of_words_of_words_has_bits(mapping):
    rng = np.random.default_rng(1)
    nodes, cores = 3 * 64**3 + 77, 2
    groups = [{"name": "n", "count": nodes, "cores": cores}]
    machine = build_machine(PlatformConfig.model_validate({"nodes": groups}))
    requests = Requests.on(machine, mapping)
    state = state_on_pool(machine, BatchConfig(), requests, False)
    free, held = np.full(nodes, cores), {}
    for now in range(1, 80):
        if held and rng.random() < 0.5:
            slot = int(rng.choice(list(held)))
            state.end(slot, now)
            free += held.pop(slot)
        units = 1 + int(rng.integers(0, state.n_free) * rng.choice([1e-5, 0.1, 0.6]))
        jobs = block([now], [1e6], [1e6], [units], [now])
        slot = state.table.admit(jobs, requests.units_of(jobs))
        state.ensure_capacity()
        assert state.passes.advance(now, [], slot, 0, 1, NOTHING) == 1
        size = cores if mapping is Mapping.NODE else 1
        before = np.cumsum(free // size) - free // size
        expected = np.clip(units - before, 0, free // size) * size
        rows = state.occupancy.ints[:, list(state.rows_of(int(slot[0])))]
        found = np.zeros(nodes, np.int64)
        for first, count, taken in zip(rows[NODE], rows[COUNT], rows[NODE_CORES], strict=True):
            found[first : first + count] += taken
        np.testing.assert_array_equal(found, expected)
        held[int(slot[0])] = expected
        free -= expected
