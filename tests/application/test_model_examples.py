"""Execution models by hand: dedicated masters, two levels, locks, slow-downs, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim.application import LoopOutcome, simulate
from mlsim.application.iteration_costs import prefix_sums
from mlsim.errors import InputError
from mlsim.execution_models.dca import next_attempt
from mlsim.execution_models.loop_state import Perturbation, lock_key
from mlsim.scenario.application_section import ExecutionConfig


def run(
    costs: list[float],
    technique: str,
    nodes: list[int],
    latency: list[float] | None = None,
    perturbation: Perturbation | None = None,
    intra_latency: float = 0.0,
    **execution: Any,
) -> LoopOutcome:
    p = len(nodes)
    return simulate(
        prefix_sums(np.array(costs)),
        np.ones(p),
        np.zeros(p) if latency is None else np.array(latency),
        technique,
        ExecutionConfig(**execution),
        record=True,
        node_of_pe=np.array(nodes),
        intra_latency=intra_latency,
        perturbation=perturbation,
    )


def rows(outcome: LoopOutcome) -> list[tuple[float, ...]]:
    r = outcome.rows
    assert r is not None
    return list(zip(r.pe, r.first, r.size, r.requested, r.start, r.end, strict=True))


def test_dedicated_master_executes_nothing() -> None:
    """SS, 4 iterations of 4 s, 1 s a calculation: PE 1 is served in [0, 1], PE 2 in [1, 2], and so on."""
    outcome = run([4.0] * 4, "SS", [0, 0, 0], model="cca", master="dedicated", chunk_calculation=1.0)
    assert rows(outcome) == [(1, 0, 1, 0, 1, 5), (2, 1, 1, 0, 2, 6), (1, 2, 1, 5, 6, 10), (2, 3, 1, 6, 7, 11)]
    assert outcome.notified_at.tolist() == [11, 10, 11]
    assert outcome.overhead.tolist() == [4, 2, 3]
    assert outcome.idle.tolist() == [7, 0, 0]


def test_a_master_alone_executes_all() -> None:
    for model in ("cca", "hmw"):
        outcome = run([1.0] * 5, "GSS", [0], model=model, master="dedicated")
        assert (outcome.t_loop, outcome.busy.tolist()) == (5.0, [5.0])


def test_node_queue_is_refilled_by_who_finds_it_empty() -> None:
    """STATIC+SS under hdca, 4 iterations of 8 s on 2 nodes of 2 PEs; 1 s an atomic, no latency.

    PE 0 and PE 2 hold their nodes' locks: they read in [0, 1] and reach the loop's window at 1, which lets
    PE 0 fetch in [1, 2], PE 2 in [2, 3], then PE 0 claim in [3, 4] and PE 2 in [4, 5]. PE 0 writes in
    [4, 5] and starts at 5, PE 2 a second later. Then PE 1 reads in [5, 6], writes in [6, 7].
    """
    outcome = run([8.0] * 4, "STATIC+SS", [0, 0, 1, 1], model="hdca", atomic_service=1.0)
    assert rows(outcome) == [
        (0, 0, 1, 0, 5, 13),
        (2, 2, 1, 0, 6, 14),
        (1, 1, 1, 0, 7, 15),
        (3, 3, 1, 0, 8, 16),
    ]


@pytest.mark.parametrize(
    ("inside", "costs", "with_barrier", "without"),
    [
        # Chunks of 2, 1, 1: PE 1 executes the long iteration, and PE 0 waits for it or does the rest.
        ("STATIC", [1.0, 5.0, 1.0, 1.0], 7.0, 5.0),
        # Chunks of 4, 2, 1, 1: the long iteration ends at 10, with two to go, or as the last.
        ("SS", [1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0], 13.0, 10.0),
    ],
)
def test_threads_meet_at_a_barrier_or_not(
    inside: str, costs: list[float], with_barrier: float, without: float
) -> None:
    barrier, none = (
        run(costs, f"FAC2+{inside}", [0, 0], model="mpi+openmp", nowait=nowait) for nowait in (False, True)
    )
    assert (barrier.t_loop, none.t_loop) == (with_barrier, without)
    assert barrier.idle.sum() == 2 * with_barrier - sum(costs)
    assert none.idle.tolist() == [0.0, 0.0]


def test_local_masters_ask_the_global_one() -> None:
    """STATIC+SS under hmw, 4 iterations of 8 s on 2 nodes; 1 s a calculation, 2 s between the nodes.

    PE 0 serves its own request: the queue is empty, so it calculates its node's chunk in [0, 1], its own in
    [1, 2], and PE 1's in [2, 3]. Node 1's request arrives at 2 and is served at PE 0's break, which begins
    when it has served PE 1: in [3, 4]; the reply is there at 6.
    """
    outcome = run([8.0] * 4, "STATIC+SS", [0, 0, 1, 1], [0, 0, 2, 2], model="hmw", chunk_calculation=1.0)
    assert rows(outcome) == [
        (1, 1, 1, 0, 3, 11),
        (0, 0, 1, 0, 4, 12),
        (2, 2, 1, 0, 8, 16),
        (3, 3, 1, 0, 8, 16),
    ]


def test_a_polled_lock_is_free_until_somebody_tries() -> None:
    """Two PEs, one atomic of 1 s each: the second one's next attempt comes within the interval."""
    fifo, polled = (
        run([1.0] * 2, "AF", [0, 0], model="dca", lock=lock, lock_retry=4.0, atomic_service=1.0)
        for lock in ("fifo", "polling")
    )
    assert rows(fifo)[1][4] == 4.0
    assert 4.0 < rows(polled)[1][4] < 8.0


def test_slow_down_amid_a_chunk() -> None:
    """10 s of work; half as fast in [4, 8], twice as fast from 8 on: 4 + 2 done by 8, then 2 s more."""
    row = Perturbation(np.array([0]), np.array([0, 2]), np.array([4.0, 8.0]), np.array([0.5, 2.0]))
    for model in ("cca", "dca", "hmw", "hdca", "mpi+openmp"):
        outcome = run([1.0] * 10, "STATIC", [0], perturbation=row, model=model)
        assert (outcome.t_loop, outcome.busy.tolist()) == (10.0, [10.0])
        assert outcome.remaining(np.arange(11.0), np.ones(1), np.array([8.0]), row)[0].tolist() == [4]


def test_adaptive_factoring_sees_slow_downs() -> None:
    """PE 1 is slowed down to a tenth all the time: AF gives it about a tenth of the work of the others."""
    row = Perturbation(np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([-1.0]), np.array([0.1]))
    outcome = run([1e-2] * 3000, "AF", [0, 0, 0], perturbation=row, model="dca")
    assert outcome.rows is not None
    done = np.bincount(outcome.rows.pe, outcome.rows.size)
    assert 0.05 < done[1] / done[0] < 0.2


def test_only_late_rows_on_request() -> None:
    costs, speed = prefix_sums(np.arange(60.0)), np.ones(4)
    arguments = (costs, speed, np.zeros(4), "GSS+SS", ExecutionConfig(model="hdca"))
    full = simulate(*arguments, record=True).rows
    late = simulate(*arguments, record=True, rows_since=300.0).rows
    assert full is not None
    assert late is not None
    assert late.first.tolist() == full.first[full.end > 300.0].tolist()
    assert 0 < len(late.pe) < len(full.pe)


@pytest.mark.parametrize(
    ("technique", "options", "words"),
    [
        ("GSS+SS", {"model": "dca"}, "GSS\\+SS names two, and model dca has one level"),
        ("GSS+FAC2", {"model": "mpi+openmp"}, "no schedule for FAC2 inside.*STATIC \\(static\\), SS"),
        ("AF", {"model": "mpi+openmp"}, "no schedule for AF inside"),
        ("AF+STATIC", {"model": "mpi+openmp", "nowait": True}, "with nowait and STATIC inside.*AF learns"),
    ],
)
def test_what_a_model_cannot_do_is_said(technique: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run([1.0], technique, [0], **options)


@pytest.mark.parametrize(
    ("nodes", "words"), [([0, 2], "leave out none"), ([1, 1], "must be 0"), ([0], "as many")]
)
def test_wrong_nodes_are_named(nodes: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        simulate(np.arange(3.0), np.ones(2), np.zeros(2), "SS", ExecutionConfig(), node_of_pe=np.array(nodes))


def test_techniques_of_the_user_on_either_level(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def pairs(n, p, remaining, step, pe):\n    return 2 if step < 10 else 0\n")
    mine = f"{file}:pairs"
    for model in ("hmw", "hdca", "mpi+openmp"):
        outcome = run([1.0] * 4, f"{mine}+SS", [0, 0, 1, 1], model=model)
        assert outcome.busy.sum() == 4.0
        with pytest.raises(
            InputError, match=r"pairs: in a loop of 40 .* returned a chunk of 0 iterations at step 10 for PE"
        ):
            run([1.0] * 40, f"{mine}+SS", [0, 1], model=model)
    for model in ("hmw", "hdca"):
        with pytest.raises(
            InputError, match=r"pairs: in a loop of 40 .* returned a chunk of 0 iterations at step 10 for PE"
        ):
            run([1.0] * 40, f"STATIC+{mine}", [0, 0], model=model)


def test_assigning_a_chunk_holds_the_queue() -> None:
    """Two PEs that ask at once, 1 s an assignment and nothing else: one chunk after the other is assigned."""
    for technique in ("SS", "AF"):  # by two atomics, and under the lock
        outcome = run([8.0] * 2, technique, [0, 0], model="dca", chunk_assignment=1.0)
        assert [row[4] for row in rows(outcome)] == [1.0, 2.0]
    # From the loop's queue to the nodes' in [0, 1] and [1, 2], and then to the PE in a second more.
    outcome = run([8.0] * 2, "STATIC+SS", [0, 1], model="hdca", chunk_assignment=1.0)
    assert [row[4] for row in rows(outcome)] == [2.0, 3.0]


def test_a_pe_that_needs_what_is_left_calculates_under_the_lock() -> None:
    outcome = run([8.0] * 2, "AF", [0, 0], model="dca", chunk_calculation=1.0)
    assert [row[4] for row in rows(outcome)] == [1.0, 2.0]
    outcome = run([8.0] * 2, "SS", [0, 0], model="dca", chunk_calculation=1.0)
    assert [row[4] for row in rows(outcome)] == [1.0, 1.0]


@pytest.mark.parametrize("waiting", [1, 2, 4])
def test_the_first_of_several_attempts_comes_sooner(waiting: int) -> None:
    """The least of w times that are uniform in [0, 1) is 1/(w + 1) in the mean, and any PE's as often."""
    drawn = [next_attempt(lock_key(7, 0, 0), draw, waiting, 1.0) for draw in range(2000)]
    assert np.mean([delay for _, delay in drawn]) == pytest.approx(1.0 / (waiting + 1), abs=0.02)
    assert np.bincount([who for who, _ in drawn]) == pytest.approx(2000 / waiting, rel=0.1)
