"""Loops on real ranks. One launch does much: starting Python on eight ranks takes longer than a loop."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from mlsim.mpi.launch import Launcher, environment_to_start
from tests.mpi.conftest import execute, find

pytestmark = pytest.mark.mpi

_TECHNIQUES = """
def thirds(n, p, remaining, step, pe):
    return max(remaining // (3 * p), 1)


def by_step(n, p, remaining, step, pe):
    return step + 1


def broken(n, p, remaining, step, pe):
    return 0 if step > 3 else 5


class Learns:
    '''Gives 0, which is an error, where it was not told what it should have been.'''

    times_pieces = True

    def __init__(self, most=3, soon=1):
        self.most = most
        self.soon = soon

    def numbers(self, p):
        return 3 + p

    def begin(self, memory, n, p):
        memory[1] += n

    def learn(self, memory, n, p, chunk):
        memory[0] += chunk.size
        memory[3 + chunk.pe] += chunk.size
        wrong = chunk.seconds < 0.0 or chunk.overhead < 0.0 or chunk.spread < 0.0
        if wrong or not 1 <= chunk.pieces <= chunk.size or not -1 <= chunk.step < memory[1]:
            memory[2] = 1.0

    def size(self, memory, n, p, remaining, step, pe):
        told_of_more_than_there_was = memory[0] > memory[1] - remaining
        told_of_nothing = self.soon == 1 and step >= p and memory[0] == 0.0
        if memory[2] == 1.0 or told_of_more_than_there_was or told_of_nothing:
            return 0
        total = 0.0
        for q in range(p):
            total += memory[3 + q]
        return self.most if total == memory[0] else 0
"""


@pytest.fixture
def techniques(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(_TECHNIQUES)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_every_iteration_once(name: str, ranks: int, techniques: Path) -> None:
    done = execute(find(name), ranks, "every.py", str(techniques))
    assert done.code == 0, done.err
    assert done.out.split() == ["ok", str(ranks)]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_fine_chunks_of_nodes_are_executed_once(launcher: Launcher, ranks: int) -> None:
    done = execute(launcher, ranks, "fine.py")
    assert done.code == 0, done.err
    assert done.out.split()[:2] == ["ok", str(ranks)]


@pytest.mark.slow
def test_an_exception_ends_the_run_with_that_error(launcher: Launcher) -> None:
    done = execute(launcher, 3, "ends.py", "raise", "cca", "1")
    assert done.code != 0
    assert "ValueError: the body broke" in done.err
    assert "rank 1 of 3" in done.err
    assert 0.0 < done.seconds < 10.0


@pytest.mark.slow
def test_an_exception_on_a_coordinator_ends_the_run(any_launcher: Launcher) -> None:
    done = execute(any_launcher, 3, "ends.py", "raise", "hdca", "0")
    assert done.code != 0
    assert "ValueError: the body broke" in done.err
    assert 0.0 < done.seconds < 10.0


@pytest.mark.slow
@pytest.mark.parametrize(("what", "model"), [("kill", "dca"), ("kill", "hdca"), ("hold", "hdca")])
def test_a_killed_rank_ends_the_run(launcher: Launcher, what: str, model: str) -> None:
    done = execute(launcher, 3, "ends.py", what, model, "1")
    assert done.code != 0
    assert "signal 9" in done.out + done.err
    assert 0.0 < done.seconds < 10.0


@pytest.mark.slow
def test_an_interrupt_ends_the_run_while_ranks_wait_for_their_queue(launcher: Launcher) -> None:
    done = execute(launcher, 3, "ends.py", "interrupt", "hdca", "1")
    # MPICH's launcher exits with a code of its own; Open MPI's may lose what the rank has printed.
    assert done.code == 130 or re.search(r"rank 2 in comm.*\b130\b", done.out + done.err, re.DOTALL)
    assert 0.0 < done.seconds < 10.0


def test_an_error_that_nobody_has_foreseen_ends_the_run(launcher: Launcher) -> None:
    done = execute(launcher, 3, "unforeseen.py")
    assert done.code != 0
    assert "rank 0 of 3" in done.err
    assert "RuntimeError: no kernel can be read" in done.err
    assert 0.0 < done.seconds < 10.0


@pytest.mark.slow
@pytest.mark.parametrize("level", ["single", "multiple"])
def test_loops_of_any_size_under_any_level_of_threads(launcher: Launcher, level: str) -> None:
    """Two runs at once, which must not meet."""
    chosen = {"MPI4PY_RC_THREAD_LEVEL": level}
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(execute, launcher, ranks, "sizes.py", **chosen) for ranks in (2, 3)]
    for run in runs:
        done = run.result()
        assert done.code == 0, done.err
        assert done.out.split() == ["True", level]


def test_launches_of_open_mpi_have_directories_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else, of two that start at once, one may find the common one just made, and fail."""
    name = "OMPI_MCA_orte_tmpdir_base"
    monkeypatch.delenv(name, raising=False)
    given = Launcher("given", ("mpiexec",), {"MPI4PY_MPIABI": "openmpi"})
    with environment_to_start(given) as first, environment_to_start(given) as second:
        places = {first[name], second[name]}
        assert len(places) == 2
        assert all(Path(place).is_dir() for place in places)
    assert not any(Path(place).exists() for place in places)
    monkeypatch.setenv(name, "/chosen")
    with environment_to_start(given) as chosen:
        assert chosen[name] == "/chosen"
    monkeypatch.delenv(name)
    with environment_to_start(Launcher("mpich", ("mpiexec",))) as other:
        assert name not in other


@pytest.mark.slow
@pytest.mark.parametrize("model", ["dca", "cca"])
def test_ranks_say_for_whom_they_wait(launcher: Launcher, model: str) -> None:
    done = execute(launcher, 3, "late.py", model)
    assert done.code == 0, done.err
    late, outside, stopped, before, inter = done.out.splitlines()
    assert re.fullmatch(
        r"mlsim: after \d+ s: rank 0 of 3 waits for others: all must make loop 'late', .*", late
    )
    assert re.fullmatch(r"mlsim: after \d+ s: rank 0 of 3 .*: all must enter loop 'outside' .*", outside)
    assert re.fullmatch(
        r"mlsim: after \d+ s: rank 1 of 3, process \d+, has been stopped, and others wait", stopped
    )
    assert before.startswith("LoopScheduler: enter it before")
    assert inter == "LoopScheduler: comm is an intercommunicator; give comm.Merge()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model", "names"),
    [
        ("exhaustive", "dca", r"STATIC GSS SS .*"),
        ("exhaustive", "cca", r"STATIC GSS SS .*"),
        ("simulation", "dca", r"GSS .*"),
        ("simulation", "cca", r"GSS .*"),
        ("expert", "dca", r"STATIC (GSS|SS) .*"),
        ("rl", "cca", r"STATIC GSS SS .*"),
        ("random", "dca", r".*"),
    ],
)
def test_techniques_are_chosen_for_each_loop_of_a_chain(
    any_launcher: Launcher, method: str, model: str, names: str
) -> None:
    done = execute(any_launcher, 3, "auto.py", method, model)
    assert done.code == 0, done.err
    chosen, given, unknown = done.out.splitlines()
    assert re.fullmatch(names, chosen)
    assert set(chosen.split()) <= {"STATIC", "GSS", "SS"}
    assert len(chosen.split()) == 5
    assert "selection: goes with technique='auto', not GSS" in given
    assert "selection.method: 'guess' is not known; allowed: expert, exhaustive," in unknown


@pytest.mark.slow
@pytest.mark.parametrize("master", ["non-dedicated", "dedicated"])
@pytest.mark.parametrize("portfolio", ["GSS,AF,SS,AWF-C", "FAC2,SS,STATIC,TSS"])
def test_techniques_are_chosen_amid_a_loop(any_launcher: Launcher, master: str, portfolio: str) -> None:
    done = execute(any_launcher, 3, "amid.py", master, portfolio)
    assert done.code == 0, done.err
    chosen, dca, library = done.out.splitlines()
    assert len(chosen.split()) > 4
    assert (
        "selection.parameters.every: 0.1 with model='dca': in a real run the master chooses amid a loop"
        in dca
    )
    assert "LB4MPI has one technique for a loop" in library


@pytest.mark.slow
def test_a_technique_that_gives_nonsense_is_an_error(any_launcher: Launcher, techniques: Path) -> None:
    done = execute(any_launcher, 2, "ends.py", "technique", "cca", "0", f"{techniques}:broken")
    assert done.code != 0
    assert "returned a chunk of 0 iterations at step 4" in done.err
    assert "mine.py:broken" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_master_answers_within_break_after_iterations(
    launcher: Launcher, ranks: int, tmp_path: Path
) -> None:
    """From the records: the master begins break_after iterations at most before it answers a request.

    Of several workers, one that loses its core amid a message holds up those of others; then the master
    begins no iteration from when MPI has given it a request.
    """
    break_after = 3
    done = execute(launcher, ranks, "breaks.py", str(break_after), str(tmp_path / "run"))
    assert done.code == 0, done.err
    told = json.loads(done.out)
    requests = pl.read_parquet(tmp_path / "run" / "requests.parquet")
    for worker in range(1, ranks):
        # the last one is told that there are no more
        assert (requests["pe"] == worker).sum() == told["chunks"][worker] + 1
    assert (requests["sent_time"] <= requests["received_time"]).all()
    assert (requests["received_time"] < requests["answered_time"]).all()
    assert told["pieces"] == told["noted"]
    assert max(told["pieces"]) == break_after
    assert told["kept"] == [0] * (ranks - 1)
    if ranks == 2:
        assert requests["master_iterations"].max() <= break_after
    _check_trace(tmp_path / "run" / "trace" / "traces.otf2", ranks, requests)
    facts = json.loads((tmp_path / "run" / "summary.json").read_text())["mpi"]["requests"]
    assert facts["count"] == len(requests)
    assert facts["most_master_iterations"] == requests["master_iterations"].max()


def _check_trace(anchor: Path, ranks: int, requests: pl.DataFrame) -> None:
    """Check that requests and replies are messages in the trace, in which nothing is wrong."""
    from mlsim.traces import opened, problems_of, survey

    with opened(anchor) as trace:
        found = survey(trace, anchor)
    assert found.sent == 2 * len(requests)
    assert found.processes == ranks
    with opened(anchor) as trace:
        assert list(problems_of(trace)) == []


@pytest.mark.slow
def test_a_million_chunks_in_flat_memory(any_launcher: Launcher) -> None:
    done = execute(any_launcher, 2, "million.py")
    assert done.code == 0, done.err
    steps, grown = map(int, done.out.split())
    assert steps == 1_000_000
    assert grown < 4_000
