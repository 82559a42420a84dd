"""Work stealing by hand, and what it is for; against its reference it is in ``test_models.py``."""

from __future__ import annotations

import numpy as np
import pytest

from mlsim.errors import InputError
from mlsim.execution_models.event_queue import dtype_of
from mlsim.scenario import from_mapping
from tests.application.test_loop import rows, run


def test_a_thief_takes_half_of_what_is_left_from_the_end() -> None:
    """PE 0 has four iterations of 1 s, PE 1 four of 3 s; both take them one by one.

    At 4 s PE 0 has none left and PE 1 executes its second: of the other two PE 0 steals the last.
    """
    outcome = run([1.0] * 4 + [3.0] * 4, [1, 1], "SS", model="steal")
    assert rows(outcome) == [
        (0, 0, 0, 1, 0, 0, 1),
        (1, 0, 4, 1, 0, 0, 3),
        (0, 1, 1, 1, 1, 1, 2),
        (0, 2, 2, 1, 2, 2, 3),
        (0, 3, 3, 1, 3, 3, 4),
        (1, 1, 5, 1, 3, 3, 6),
        (0, 0, 7, 1, 4, 4, 7),
        (1, 2, 6, 1, 6, 6, 9),
    ]
    assert outcome.notified_at.tolist() == [7, 9]
    assert run([1.0] * 4 + [3.0] * 4, [1, 1], "STATIC", model="dca").t_loop == 12


def test_costs_of_a_thief() -> None:
    """PE 0 has two iterations of 1 s, PE 1 two of 10 s on another node, 1/8 s away.

    An access takes 1/4 s (atomic), a PE calculates for 1/2 s, an assignment takes 1 s. PE 0 asks for
    its first chunk at 0 and starts it at 1.75.
    """
    outcome = run(
        [1.0, 1.0, 10.0, 10.0],
        [1, 1],
        "SS",
        latency=[0.0, 0.125],
        pes_per_node=1,
        model="steal",
        atomic_service=0.25,
        chunk_calculation=0.5,
        chunk_assignment=1.0,
    )
    # PE 0 ends its second iteration at 5.5, is at PE 1's part at 5.625, is through at 6.875 and back at
    # 7.0; the stolen iteration starts after its own access.
    assert rows(outcome) == [
        (0, 0, 0, 1, 0, 1.75, 2.75),
        (1, 0, 2, 1, 0, 1.75, 11.75),
        (0, 1, 1, 1, 2.75, 4.5, 5.5),
        (0, 0, 3, 1, 5.5, 8.75, 18.75),
    ]
    # Both ask each other in vain: there and back, and an atomic in between.
    assert outcome.notified_at.tolist() == [18.75 + 0.5, 11.75 + 0.5]


def test_rounds_in_vain_take_the_sum_of_their_accesses_to_the_last_bit() -> None:
    """Eleven nodes of one PE, each with a latency of its own; PE 0 alone has something to do."""
    latency = [0.0, *(0.1 + 0.01 * pe for pe in range(1, 11))]
    outcome = run(
        [1.0, *[0.0] * 10],
        [1.0] * 11,
        "SS",
        latency=latency,
        pes_per_node=1,
        model="steal",
        atomic_service=0.003,
    )
    for pe in range(11):
        now = 0.003 + (1.0 if pe == 0 else 0.0)  # its own chunk
        for hop in range(1, 11):  # not its own node, where it is alone
            distance = max(latency[pe], latency[(pe + hop) % 11])
            now += distance
            now = now + 0.003 + distance
        assert outcome.notified_at[pe] == now


def test_a_thief_asks_its_own_node_first_and_the_richest_of_it() -> None:
    """Six PEs on two nodes, parts of two; those of PE 2 and PE 4 are long, and PE 3 is through first."""
    costs = [1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 0.5, 0.25, 9.0, 9.0, 1.0, 1.0]
    outcome = run(costs, [1.0] * 6, "SS", model="steal", pes_per_node=3)
    by_first = {first: pe for pe, _, first, *_ in rows(outcome)}
    assert (by_first[9], by_first[5]) == (3, 0)


def test_stolen_parts_are_no_smaller_than_the_least_chunk() -> None:
    costs = [0.1] * 10 + [1.0] * 10
    outcome = run(costs, [1.0, 1.0], "SS", min_chunk=4, model="steal")
    assert [(pe, first, size) for pe, _, first, size, *_ in rows(outcome) if pe == 0] == [
        (0, 0, 4),
        (0, 4, 4),
        (0, 8, 2),
        (0, 16, 4),
    ]


def test_stealing_balances_what_static_does_not() -> None:
    rng = np.random.default_rng(3)
    costs = np.sort(rng.exponential(1.0, 4000))
    static, steal = (
        run(costs, [1.0] * 16, technique, model=model, pes_per_node=4)
        for technique, model in (("STATIC", "dca"), ("SS", "steal"))
    )
    best = costs.sum() / 16
    assert static.t_loop > 2 * best
    assert steal.t_loop < best + 2 * costs.max()


@pytest.mark.parametrize(
    ("technique", "words"),
    [
        ("AF", "AF learns at a queue that many PEs share.*SS"),
        ("GSS+SS", "names two, and model steal has one"),
    ],
)
def test_what_stealing_cannot_do(technique: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        run([1.0] * 8, [1.0, 1.0], technique, model="steal")


def test_records_have_no_field_that_numpys_records_have() -> None:
    class Loot:
        first: int
        size: int

    with pytest.raises(TypeError, match=r"Loot\.size: NumPy's records have a size of their own"):
        dtype_of(Loot)


def test_nodes_cannot_be_asked_to_leave() -> None:
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]},
        "workload": {"path": "jobs.swf"},
        "application": {"model": "loop", "execution": {"model": "steal"}},
        "coordination": {"rca": True, "requests": "head-of-queue"},
    }
    with pytest.raises(InputError, match="nodes cannot leave a loop under execution model steal; allowed"):
        from_mapping(scenario)
