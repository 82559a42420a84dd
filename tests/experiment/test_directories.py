"""Directories of results: reserved at the start, complete or gone, and what is finished is never lost."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mlsim.record.otf2
from mlsim.errors import InputError, OutputError, StoppedError
from mlsim.experiment import result_directories, run_directory
from mlsim.experiment.manifest import Owner, verify
from mlsim.experiment.result_directories import KeptError, NextFree, complete_or_gone, reserved
from tests.cli.conftest import JOBS, SMALL

PLAIN = {"output.trace": "none", "output.pictures": False}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "small.csv").write_text(JOBS)
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def dead() -> Owner:
    """A process of this machine that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        owner = Owner.this_process()._replace(pid=process.pid, start=start)
        assert owner.lives()
        assert process.stdin is not None
        process.stdin.close()
    return owner


def partial(directory: Path, name: str, owner: Owner) -> Path:
    path = directory / f".{name}.{owner.token}.partial"
    path.mkdir(parents=True)
    (path / "jobs.parquet").write_bytes(b"half of i")
    return path


def test_a_token_is_read_back():
    me = Owner.this_process()
    assert Owner.of_token(me.token) == me
    assert me.lives()
    assert Owner.of_token("abcd1234") is None


def test_an_ended_process_is_told_from_a_living_one_of_its_number(dead):
    assert dead.lives() is False
    me = Owner.this_process()
    assert me._replace(start=me.start + 1).lives() is False, "the number was used again"


def test_of_other_machines_and_containers_nothing_is_known(dead):
    assert dead._replace(machine="0" * 8).lives() is None
    assert dead._replace(space="0" * 8).lives() is None
    assert dead._replace(boot="0" * 8).lives() is False, "of this machine, before it was started last"


def test_numbers_count_on_past_what_is_there_or_being_written(tmp_path):
    (tmp_path / "a-001").mkdir()
    with reserved(NextFree(tmp_path, "a")) as second, reserved(NextFree(tmp_path, "a")) as third:
        assert [second.directory.name, third.directory.name] == ["a-002", "a-003"]
        second.keep()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-001", "a-002"]


def _reserve_some(arguments) -> list[str]:
    directory, number = arguments
    names = []
    for _ in range(number):
        with complete_or_gone(NextFree(directory, "a")) as place:
            (place.partial / "file").write_text("x")
        names.append(place.directory.name)
    return names


@pytest.mark.parametrize("locks", [True, False])
def test_no_two_processes_get_the_same_number(tmp_path, locks, monkeypatch):
    if not locks:

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(result_directories, "take", refuse)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        names = [name for part in pool.map(_reserve_some, [(tmp_path / "r", 15)] * 4) for name in part]
    assert sorted(names) == [f"a-{number:03d}" for number in range(1, 61)]
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == sorted(names)


def test_a_number_that_somebody_takes_by_hand_is_passed_over(tmp_path):
    with complete_or_gone(NextFree(tmp_path, "a")) as place:
        (place.partial / "file").write_text("x")
        (tmp_path / "a-001").mkdir()
        (tmp_path / "a-001" / "mine").write_text("y")
    assert place.directory == tmp_path / "a-002"
    assert (tmp_path / "a-001" / "mine").exists()


def test_left_overs_of_ended_processes_are_removed_and_told(tmp_path, dead, caplog):
    names = ("a-001", "a-017")
    gone = [partial(tmp_path, name, dead) for name in names]
    kept = [
        partial(tmp_path, "a-002", Owner.this_process()),
        partial(tmp_path, "b-001", dead),
        partial(tmp_path, "a-b-001", dead),
        partial(tmp_path, "a-003", dead._replace(machine="0" * 8)),
    ]
    with caplog.at_level(logging.WARNING, "mlsim"), reserved(NextFree(tmp_path, "a")) as place:
        assert place.directory.name == "a-001"
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in kept)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert all(
        f"left over by process {dead.pid} on {dead.host}" in text and "removed" in text for text in told
    )


def test_old_left_overs_of_others_are_told_and_left(tmp_path, dead, caplog):
    path = partial(tmp_path, "here", dead._replace(machine="0" * 8))
    os.utime(path, (0, 0))
    with caplog.at_level(logging.WARNING, "mlsim"), reserved(tmp_path / "here"):
        pass
    assert path.exists()
    assert "remove it if nobody writes it any more" in caplog.text


def test_a_directory_that_another_process_writes_is_refused_at_once(tmp_path):
    here = tmp_path / "here"
    with reserved(here), pytest.raises(InputError, match="is writing it at the moment"), reserved(here):
        pass
    assert list(tmp_path.iterdir()) == []


def test_parents_that_were_made_are_gone_again(tmp_path):
    with pytest.raises(StoppedError), reserved(tmp_path / "deep" / "er" / "here"):
        raise StoppedError(signal.SIGTERM)
    assert list(tmp_path.iterdir()) == []


def test_long_names_are_no_reason_to_lose_a_run(tmp_path):
    with complete_or_gone(tmp_path / ("x" * 250)) as place:
        (place.partial / "file").write_text("x")
    assert (tmp_path / ("x" * 250) / "file").exists()
    with pytest.raises(InputError, match=r"too long\. Give another --out"), reserved(tmp_path / ("x" * 5000)):
        pass


def test_a_place_is_reserved_before_the_simulation(scenario, tmp_path, monkeypatch):
    from mlsim.cosim import simulation

    seen = []
    simulate = simulation.simulate
    monkeypatch.setattr(
        simulation, "simulate", lambda *given: (seen.extend(tmp_path.glob(".run.*/*")), simulate(*given))[1]
    )
    mlsim.run(scenario, PLAIN, out=tmp_path / "run")
    assert sorted(path.name for path in seen) == ["scenario.yaml", "versions.json"]


def test_what_a_run_needs_at_its_end_is_looked_at_before_it_begins(scenario, tmp_path, monkeypatch):

    from mlsim.cosim import simulation

    def too_late(*_: object) -> None:
        pytest.fail("simulated")

    monkeypatch.setattr(simulation, "simulate", too_late)
    monkeypatch.setitem(sys.modules, "mlsim.record.otf2.trace_writer", None)
    with pytest.raises(InputError, match=r"output\.trace: chunks, but the OTF2 library cannot be used"):
        mlsim.run(scenario, out=tmp_path / "run")
    monkeypatch.setattr(run_directory, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"output\.pictures: on, but there is no matplotlib"):
        mlsim.run(scenario, {"output.trace": "none"}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_only_traces_need_the_otf2_library(scenario, tmp_path, monkeypatch):
    monkeypatch.setattr(mlsim.record, "otf2", mlsim.record.otf2)  # the package itself is put back, too
    for name in [name for name in sys.modules if name.startswith("mlsim.record.otf2")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("otf2", "_otf2"):
        monkeypatch.setitem(sys.modules, name, None)
    mlsim.run(scenario, PLAIN, out=tmp_path / "run")
    assert (tmp_path / "run" / "summary.json").exists()
    with pytest.raises(InputError, match=r"output\.trace: jobs, but .*pip install 'mlsim\[otf2\]'"):
        mlsim.run(scenario, PLAIN | {"output.trace": "jobs"}, out=tmp_path / "traced")
    assert not (tmp_path / "traced").exists()
    kept_in_memory = mlsim.run(scenario, PLAIN | {"output.trace": "jobs"})  # no file, so no trace
    assert kept_in_memory.summary["jobs"]["completed"] > 0


def test_libraries_without_metadata_have_unknown_versions(monkeypatch):
    def none(name: str) -> str:
        raise run_directory.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(run_directory.metadata, "version", none)
    found = run_directory.versions()
    assert found["mlsim"] == mlsim.__version__
    assert set(found.values()) - {found["python"], found["mlsim"]} == {"unknown"}


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _defect(*_: object, **__: object) -> None:
    raise RuntimeError("a defect")


@pytest.mark.parametrize(
    ("failure", "words"), [(_no_space, "No space left"), (_defect, "RuntimeError: a defect")]
)
@pytest.mark.parametrize(("part", "missing"), [("gantt", "gantt.png"), ("trace", "trace")])
def test_a_picture_or_trace_that_fails_loses_nothing_else(
    scenario, tmp_path, monkeypatch, part, missing, failure, words
):
    if part == "trace":
        monkeypatch.setattr(run_directory, "write_trace", lambda path, *_: (path.mkdir(), failure()))
    else:
        monkeypatch.setattr("mlsim.analysis.plots.gantt", failure)
    with pytest.raises(KeptError, match=rf"run/{missing}: cannot be written: {words}.*All else is in .*/run"):
        mlsim.run(scenario, out=tmp_path / "run")
    assert not (tmp_path / "run" / missing).exists()
    found = verify(tmp_path / "run")
    assert (found.damaged, found.missing, found.foreign) == ((), (), ())
    assert mlsim.compare(tmp_path / "run", mlsim.run(scenario, PLAIN)).pairs[0]["paired"] == 4


def test_a_run_whose_tables_cannot_be_written_is_kept_elsewhere(scenario, tmp_path, monkeypatch):
    """On a disk that fills up while tables are written, as long as there is another."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(result_directories, "gettempdir", lambda: str(tmp_path / "tmp"))
    write = run_directory.write_summary
    calls = []

    def full(path: Path, *rest: object) -> None:
        calls.append(path)
        if len(calls) == 1:
            _no_space()
        write(path, *rest)

    monkeypatch.setattr(run_directory, "write_summary", full)
    with pytest.raises(KeptError, match=r"No space left.*The results are in .*/tmp/run-001"):
        mlsim.run(scenario, PLAIN, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert verify(tmp_path / "tmp" / "run-001").whole > 5
    assert not list(tmp_path.rglob("*.partial"))


def test_nothing_half_written_is_left_where_nothing_can_be_written(scenario, tmp_path, monkeypatch):
    monkeypatch.setattr("mlsim.record.parquet_tables.write_tables", _no_space)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(result_directories, "gettempdir", lambda: str(tmp_path / "tmp"))
    with pytest.raises(OutputError, match=r"No space left on device\. Nothing was kept"):
        mlsim.run(scenario, PLAIN, out=tmp_path / "results" / "run")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["small.csv", "small.yaml", "tmp"]


def test_results_are_kept_where_a_directory_appears_in_the_meantime(scenario, tmp_path, monkeypatch):
    from mlsim.cosim import simulation

    simulate = simulation.simulate

    def take(*given: object):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "other").write_text("mine")
        return simulate(*given)

    monkeypatch.setattr(simulation, "simulate", take)
    with pytest.raises(KeptError, match=r"run: appeared while .*The results are in .*/run-001"):
        mlsim.run(scenario, PLAIN, out=tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["other"]
    assert verify(tmp_path / "run-001").whole > 5


def test_a_mapping_is_told_how_to_become_a_scenario():
    with pytest.raises(InputError, match=r"found dict; allowed: the path .* mlsim\.scenario\.from_mapping"):
        mlsim.load({"platform": {}})
    with pytest.raises(InputError, match="found int; allowed"):
        mlsim.load(3)
