"""Loops on real ranks. One launch does much: starting Python on eight ranks takes longer than a loop."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mlsim.mpi.launch import Launcher
from tests.mpi.conftest import execute, find

pytestmark = pytest.mark.mpi

_TECHNIQUES = """
def thirds(n, p, remaining, step, pe):
    return max(remaining // (3 * p), 1)


def by_step(n, p, remaining, step, pe):
    return step + 1


def broken(n, p, remaining, step, pe):
    return 0 if step > 3 else 5
"""


@pytest.fixture
def techniques(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(_TECHNIQUES)
    return path


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_every_iteration_once(name: str, ranks: int, techniques: Path) -> None:
    done = execute(find(name), ranks, "every.py", str(techniques))
    assert done.code == 0, done.err
    assert done.out.split() == ["ok", str(ranks)]


def test_an_exception_ends_the_run_with_that_error(launcher: Launcher) -> None:
    done = execute(launcher, 3, "ends.py", "raise", "cca", "1")
    assert done.code != 0
    assert "ValueError: the body broke" in done.err
    assert "rank 1 of 3" in done.err
    assert 0.0 < done.seconds < 10.0


def test_an_exception_on_a_coordinator_ends_the_run(any_launcher: Launcher) -> None:
    done = execute(any_launcher, 3, "ends.py", "raise", "hdca", "0")
    assert done.code != 0
    assert "ValueError: the body broke" in done.err
    assert 0.0 < done.seconds < 10.0


def test_a_killed_rank_ends_the_run(launcher: Launcher) -> None:
    done = execute(launcher, 3, "ends.py", "kill", "dca", "1")
    assert done.code != 0
    assert "signal 9" in done.out + done.err
    assert 0.0 < done.seconds < 10.0


def test_a_technique_that_gives_nonsense_is_an_error(any_launcher: Launcher, techniques: Path) -> None:
    done = execute(any_launcher, 2, "ends.py", "technique", "cca", "0", f"{techniques}:broken")
    assert done.code != 0
    assert "gave a chunk of 0 iterations at step 4" in done.err
    assert "mine.py:broken" in done.err


def test_a_master_answers_within_break_after_iterations(any_launcher: Launcher) -> None:
    """From the trace: between a request and its answer the master begins break_after iterations at most."""
    break_after = 3
    done = execute(any_launcher, 3, "breaks.py", str(break_after))
    assert done.code == 0, done.err
    told = json.loads(done.out)
    begun = []
    for worker in (1, 2):
        asked = sorted(time for pe, time in told["requests"] if pe == worker)
        replied = [time for rank, time in told["replies"] if rank == worker]
        assert len(replied) == len(asked) + 1  # the last one is told that there are no more
        for request, reply in zip(asked, replied, strict=False):
            assert reply > request
            begun.append(sum(size for start, size in told["iterations"] if request < start < reply))
    assert max(size for _, size in told["iterations"]) == break_after
    assert max(begun) > 0, "no request met a master that computes"
    # A worker that loses its core between noting the time and sending waits longer; few do.
    assert np.quantile(begun, 0.9) <= break_after, begun


@pytest.mark.slow
def test_a_million_chunks_in_flat_memory(any_launcher: Launcher) -> None:
    done = execute(any_launcher, 2, "million.py")
    assert done.code == 0, done.err
    steps, grown = map(int, done.out.split())
    assert steps == 1_000_000
    assert grown < 4_000
