"""CYCLIC: chunks of k iterations to PEs round robin, as OpenMP's ``schedule(static,k)``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import LoopOutcome, simulate
from mlsim.errors import InputError
from mlsim.execution_models.loop_state import unavailability_of
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.words import Technique


def run(
    costs: list[float], p: int, technique: str = "CYCLIC", min_chunk: int = 1, **options: object
) -> LoopOutcome:
    keys = {key: options.pop(key) for key in list(options) if key in ExecutionConfig.model_fields}
    return simulate(
        np.concatenate([[0.0], np.cumsum(costs)]),
        np.ones(p),
        np.zeros(p),
        technique,
        ExecutionConfig(**keys),
        min_chunk,
        record=True,
        **options,
    )


def owners(outcome: LoopOutcome, n: int) -> list[int]:
    """Return the PE that executed each iteration, which must be executed once."""
    rows = outcome.rows
    assert rows is not None
    found = [-1] * n
    for pe, first, size in zip(rows.pe.tolist(), rows.first.tolist(), rows.size.tolist(), strict=True):
        for k in range(first, first + size):
            assert found[k] < 0
            found[k] = pe
    return found


@pytest.mark.parametrize("model", ["cca", "dca"])
@settings(max_examples=40, deadline=None)
@given(n=st.integers(0, 60), p=st.integers(1, 7), k=st.integers(1, 12), data=st.data())
def test_iterations_go_to_pes_as_under_openmp(
    model: str, n: int, p: int, k: int, data: st.DataObject
) -> None:
    """OpenMP 5.2, table 11.5: chunks of k iterations to the threads round robin, in order of their number."""
    costs = data.draw(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=n, max_size=n))
    outcome = run(costs, p, model=model, min_chunk=k)
    assert owners(outcome, n) == [i // k % p for i in range(n)]
    assert outcome.steps == -(-n // k)
    rows = outcome.rows
    assert rows is not None
    assert (rows.step == rows.first // k).all()
    work = [sum(costs[i] for i in range(n) if i // k % p == pe) for pe in range(p)]
    np.testing.assert_allclose(outcome.busy, work)


def test_threads_of_a_node_take_parts_round_robin() -> None:
    """STATIC+CYCLIC: 16 iterations on two nodes of two threads, in parts of 3."""
    nodes = np.array([0, 0, 1, 1])
    outcome = run([1.0] * 16, 4, "STATIC+CYCLIC", 3, model="mpi+openmp", node_of_pe=nodes)
    assert owners(outcome, 16) == [0, 0, 0, 1, 1, 1, 0, 0, 2, 2, 2, 3, 3, 3, 2, 2]
    assert outcome.t_loop == 5.0


@pytest.mark.parametrize("model", ["cca", "dca"])
def test_costs_of_requests_are_paid_once_per_pe(model: str) -> None:
    """A chunk that needs no request costs nothing, unlike one of SS: 12 chunks on 3 PEs, each 1 s of work."""
    charges = {"chunk_calculation": 0.5, "master": "dedicated" if model == "cca" else "non-dedicated"}
    p = 4 if model == "cca" else 3
    fixed = run([1.0] * 12, p, "CYCLIC", model=model, **charges)
    asking = run([1.0] * 12, p, "SS", model=model, **charges)
    begin = 1.5 if model == "cca" else 0.5  # the master answers one PE after the other
    assert fixed.t_loop == begin + 4.0
    assert asking.t_loop > fixed.t_loop


@pytest.mark.parametrize("model", ["cca", "dca"])
@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(0, 40),
    p=st.integers(2, 6),
    k=st.integers(1, 5),
    begin=st.integers(0, 12),
    length=st.integers(1, 12),
)
def test_nodes_that_are_to_leave_first_execute_what_is_theirs(
    model: str, n: int, p: int, k: int, begin: int, length: int
) -> None:
    nodes = np.arange(p)
    spans = [((begin / 2, (begin + length) / 2),) if node % 2 else () for node in range(p)]
    stays = run([0.5] * n, p, model=model, min_chunk=k, node_of_pe=nodes)
    leaves = run(
        *([0.5] * n, p),
        model=model,
        min_chunk=k,
        node_of_pe=nodes,
        pe_unavailability=unavailability_of(nodes, spans),
    )
    assert owners(leaves, n) == owners(stays, n)
    np.testing.assert_array_equal(leaves.finish, stays.finish)


@pytest.mark.parametrize(
    ("technique", "model"),
    [("CYCLIC", "hdca"), ("GSS+CYCLIC", "hmw"), ("CYCLIC", "steal"), ("CYCLIC+STATIC", "mpi+openmp")],
)
def test_models_whose_chunks_go_to_any_pe_reject_it(technique: str, model: str) -> None:
    with pytest.raises(InputError, match=r"CYCLIC assigns chunk j to PE j mod P.*allowed: models cca, dca"):
        run([1.0] * 4, 2, technique, model=model, node_of_pe=np.array([0, 1]))


def test_block_cyclic_is_another_name() -> None:
    assert Technique("block-cyclic") == Technique("CYCLIC")
