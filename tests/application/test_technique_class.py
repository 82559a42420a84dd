"""Techniques of the user that learn: the same chunks as those of the catalogue, and what can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim.application import LoopOutcome, simulate
from mlsim.errors import InputError
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.section_base import CodeName
from mlsim.scenario.technique_section import ParametersConfig

OWN = Path(__file__).with_name("techniques_as_classes.py")
SIGMA, MU = 0.004, 0.01
TWINS = {
    "TAP": CodeName(f"{OWN}:Tap", {"sigma": SIGMA, "mu": MU}),
    "AWF-B": f"{OWN}:WeightedByBatch",
    "AF": f"{OWN}:Adaptive",
}
MODELS = ("cca", "dca", "hmw", "hdca")
COSTS = np.concatenate([[0.0], np.cumsum(np.random.default_rng(3).exponential(0.01, 900))])
SPEED = np.array([1.0, 0.5, 2.0, 1.0, 1.0, 1.5, 0.7])
LATENCY = np.array([0.0, 1e-4, 2e-4, 1e-4, 3e-4, 1e-4, 1e-4])
NODES = np.array([0, 0, 0, 1, 1, 2, 2])


def run(technique: str, model: str, **more: Any) -> LoopOutcome:
    execution = ExecutionConfig(model=model, chunk_calculation=1e-4, **more.pop("execution", {}))
    parameters = ParametersConfig(sigma=SIGMA, mu=MU)
    return simulate(
        more.pop("costs", COSTS), SPEED, LATENCY, technique, execution, record=True, parameters=parameters,
        node_of_pe=NODES, intra_latency=1e-5, **more,
    )  # fmt: skip


def chunks(outcome: LoopOutcome) -> list[tuple[int, ...]]:
    rows = outcome.rows
    assert rows is not None
    return list(
        zip(rows.pe.tolist(), rows.step.tolist(), rows.first.tolist(), rows.size.tolist(), strict=True)
    )


def both(technique: str) -> list[tuple[str, str]]:
    """Pairs to compare: alone, and inside nodes below a technique that both share."""
    twin = TWINS[technique]
    inside = f"GSS+{twin}"
    if isinstance(twin, CodeName):
        inside = CodeName(inside, twin.parameters)
    return [(technique, twin), (f"GSS+{technique}", inside)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("technique", TWINS)
def test_written_as_a_class_it_gives_the_same_chunks(technique: str, model: str) -> None:
    alone, inside = both(technique)
    one, other = alone if model in ("cca", "dca") else inside
    if technique == "TAP" and model == "dca":
        model = "cca"  # the catalogue's has a straightforward form there, a class what is left
    for more in ({}, {"execution": {"master": "dedicated"}}, {"min_chunk": 3}, {"time_steps": 3}):
        if model in ("dca", "hdca") and "execution" in more:
            continue
        assert chunks(run(one, model, **more)) == chunks(run(other, model, **more)), more


@pytest.mark.parametrize("model", ["hmw", "hdca", "mpi+openmp"])
def test_between_nodes_it_hears_of_all_that_nodes_executed(model: str) -> None:
    """AF's statistics are sums, so that it does not matter that a node tells of several chunks at once."""
    one, other = (run(f"{technique}+GSS", model) for technique in ("AF", TWINS["AF"]))
    assert chunks(one) == chunks(other)


def test_memory_begins_anew_in_each_loop_and_time_step() -> None:
    once = run(f"{OWN}:Counts", "cca")
    twice = run(f"{OWN}:Counts", "cca", time_steps=2)
    assert chunks(once) == chunks(run(f"{OWN}:Counts", "cca"))
    assert twice.steps == 2 * once.steps


def test_the_example_of_the_page_sends_more_to_those_who_are_faster(tmp_path: Path) -> None:
    import re

    page = (Path(__file__).parents[2] / "docs/reference/loops.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(class Faster:.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "mine.py").write_text(found[1])
    rows = run(CodeName(f"{tmp_path}/mine.py:Faster", {"share": 0.3}), "cca").rows
    assert rows is not None
    executed = np.bincount(rows.pe, weights=rows.size)
    assert executed.sum() == 900
    assert executed[2] > 2 * executed[1]  # of speeds 2 and 0.5


HEARD = """
class Heard:
    def numbers(self, p):
        return 5

    def learn(self, memory, n, p, chunk):
        memory[0] += chunk.size
        memory[1] += chunk.seconds
        memory[2] += chunk.overhead
        memory[3] += chunk.step
        memory[4] += chunk.pieces + chunk.spread

    def size(self, memory, n, p, remaining, step, pe):
        return 1 + int(memory[0] + 1024 * memory[1] + 7 * 1024 * memory[2] + memory[3] + memory[4]) % 11
"""


@pytest.mark.parametrize("model", ["cca", "dca"])
def test_it_is_told_of_every_chunk(tmp_path: Path, model: str) -> None:
    """One PE, and times that are exact: each size follows from all rows before it."""
    (tmp_path / "heard.py").write_text(HEARD)
    execution = ExecutionConfig(
        model=model, chunk_calculation=2**-10, chunk_assignment=2**-9, atomic_service=2**-8
    )
    prefix = np.concatenate([[0.0], np.cumsum(np.random.default_rng(1).integers(1, 9, 400))]) / 1024
    outcome = simulate(prefix, np.ones(1), np.zeros(1), f"{tmp_path}/heard.py:Heard", execution, record=True)
    rows = outcome.rows
    assert rows is not None
    spread, expected, heard = np.zeros(1), [], 0.0
    for step, first, size, asked, start, end in zip(
        rows.step, rows.first, rows.size, rows.requested, rows.start, rows.end, strict=True
    ):
        expected.append(1 + int(heard) % 11)
        spread = np.diff(prefix[first : first + size + 1])
        of_chunk = size + 1024 * (end - start) + 7 * 1024 * (start - asked) + step + size
        heard += of_chunk + ((spread - spread.mean()) ** 2).sum()
    expected[-1] = min(expected[-1], int(rows.size[-1]))
    assert rows.size.tolist() == expected
    assert len(set(expected)) > 5


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    pass\n", r"has no method size\(self, memory, n, p, remaining, step, pe\)"),
        ("    def size(self, n, p):\n        return 1\n", r"its size takes \(self, n, p\); allowed: size\("),
        (
            "    def size(self, memory, n, p, remaining, step, pe):\n        return remaining / p\n",
            "its size returns values of type float64; allowed: a whole number",
        ),
        (
            "    def size(self, memory, n, p, remaining, step, pe):\n        return 3 - step\n",
            "returned a chunk of 0 iterations at step 3 for PE",
        ),
        (
            "    def size(self, memory, n, p, remaining, step, pe):\n        return 7\n"
            "    def learn(self, memory, n, p, chunk):\n        raise ValueError(1)\n",
            "raised an exception at step",
        ),
        (
            "    def size(self, memory, n, p, remaining, step, pe):\n        return 7\n"
            "    def numbers(self, p):\n        return -1\n",
            "raised an exception at step 0",
        ),
        (
            "    def __init__(self, a):\n        self.a = a\n"
            "    def size(self, memory, n, p, remaining, step, pe):\n        return 7\n",
            "parameters.a: is missing; it takes: a",
        ),
        (
            "    def __init__(self):\n        self.a = {1: 2}\n"
            "    def size(self, memory, n, p, remaining, step, pe):\n        return 7\n",
            "its attribute a: {1: 2} cannot be compiled",
        ),
        (
            "    def __init__(self):\n        raise ValueError('no')\n"
            "    def size(self, memory, n, p, remaining, step, pe):\n        return 7\n",
            "cannot be made",
        ),
        ("    def size(self, memory, n, p, remaining, step, pe):\n        open(n)\n", "cannot be compiled"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, body: str, words: str) -> None:
    (tmp_path / "own.py").write_text(f"class Own:\n{body}")
    with pytest.raises(InputError, match=words) as error:
        run(f"{tmp_path}/own.py:Own", "cca")
    assert "own.py:Own" in str(error.value)


@pytest.mark.parametrize(
    ("model", "technique", "execution", "words"),
    [
        ("steal", "Counts", {}, "learns at a queue that many PEs share"),
        ("hdca", "Counts+SS", {"global_p": "pes"}, "learns from nodes, not from PEs"),
        ("mpi+openmp", "Counts+STATIC", {"nowait": True}, "cannot tell what .*Counts learns from"),
        ("mpi+openmp", "GSS+Counts", {}, "OpenMP has no schedule for .*Counts inside a node"),
    ],
)
def test_where_it_cannot_learn(model: str, technique: str, execution: dict[str, Any], words: str) -> None:
    levels = [f"{OWN}:{level}" if level == "Counts" else level for level in technique.split("+")]
    with pytest.raises(InputError, match=words):
        run("+".join(levels), model, execution=execution)
