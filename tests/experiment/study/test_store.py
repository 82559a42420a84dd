"""The store of a study: what is there is not done again, what is damaged is, and nothing is lost."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mlsim.errors import InputError, OutputError
from mlsim.experiment import load_study, read_study, run_study
from mlsim.experiment.study import study_executors, study_store
from mlsim.experiment.study.study_runner import missing_tasks
from mlsim.experiment.study.study_store import Store, holder, locked, write_whole
from tests.effort import THOROUGH

LOOP = """\
name: base
description: of all
platform:
  nodes: [{name: n, count: 2, cores: 2, speed: 1 GFLOP/s}]
application:
  costs: {profile: file, path: costs.csv}
"""
STUDY = """\
name: demo
base: loop.yaml
vary:
  application.technique: [SS, GSS]
  application.min_chunk: [1, 2, 3]
timelines: [{technique: SS, min_chunk: 2}]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (("loop.yaml", LOOP), ("study.yaml", STUDY), ("costs.csv", "0.1\n0.2\n0.3\n0.4\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def done(monkeypatch) -> list[str]:
    """Labels of the runs that are simulated, in order."""
    labels: list[str] = []
    simulated = study_executors._simulated

    def noting(task):
        labels.append(" ".join(task.labels.values()))
        return simulated(task)

    monkeypatch.setattr(study_executors, "_simulated", noting)
    return labels


def results_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def do(place: Path, **options):
    return run_study(load_study(place), out=place / "out", **options)


def entries_of(place: Path) -> list[Path]:
    return sorted((place / "out/store").glob("??/*.json"))


def test_what_is_there_is_not_done_again(place, done):
    first = do(place)
    before = results_of(place / "out")
    assert len(done) == 6
    done.clear()
    again = do(place)
    assert done == []
    assert results_of(place / "out") == before
    assert [row.facts for row in again] == [row.facts for row in first]
    do(place, force=True)
    assert len(done) == 6
    assert results_of(place / "out") == before


def test_a_changed_axis_does_the_new_runs_only(place, done):
    do(place)
    done.clear()
    (place / "study.yaml").write_text(STUDY.replace("[1, 2, 3]", "[1, 2, 4]"))
    rows = do(place)
    assert done == ["SS 4", "GSS 4"]
    assert [row.labels["min_chunk"] for row in rows] == ["1", "2", "4"] * 2
    assert read_study(place / "out").runs["min_chunk"].to_list() == ["1", "2", "4"] * 2


@pytest.mark.parametrize(
    ("file", "right", "wrong", "runs"),
    [
        ("loop.yaml", "of all", "of none", 0),
        ("loop.yaml", "name: base", "name: other", 0),
        ("loop.yaml", "count: 2", "count: 3", 6),
        ("costs.csv", "0.4", "0.5", 6),
        ("study.yaml", "timelines", "description: new\ntimelines", 0),
        ("study.yaml", "technique: SS, min_chunk: 2", "technique: SS, min_chunk: 3", 1),
        ("study.yaml", "timelines", "keep: tables\ntimelines", 6),
        ("study.yaml", "timelines", "set: {output.csv: true}\ntimelines", 0),
        ("study.yaml", "timelines", "set: {seed: 3}\ntimelines", 6),
    ],
)
def test_what_the_results_depend_on(place, done, file, right, wrong, runs):
    do(place)
    done.clear()
    text = (place / file).read_text()
    assert right in text
    (place / file).write_text(text.replace(right, wrong))
    do(place)
    assert len(done) == runs


def test_code_of_the_user_and_what_it_imports(place, done):
    (place / "mine.py").write_text("def rule(remaining, pes, step):\n    return max(1, remaining // pes)\n")
    from mlsim.experiment.study.study_plan import Digests

    given = {"application": {"technique": "GSS+./mine.py:rule"}}
    before = Digests("loops", place).of(given)
    assert Digests("loops", place).of(given) == before
    (place / "mine.py").write_text("import other\n" + (place / "mine.py").read_text())
    with_import = Digests("loops", place).of(given)
    (place / "other.py").write_text("A = 1\n")
    with_other = Digests("loops", place).of(given)
    (place / "other.py").write_text("A = 2\n")
    assert len({before, with_import, with_other, Digests("loops", place).of(given)}) == 4
    assert Digests("runs", place).of(given) != Digests("loops", place).of(given)


def test_an_entry_cut_short_is_said_and_done_again(place, done, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("mlsim"), "propagate", True)  # commands have it end with them
    caplog.set_level(logging.WARNING, logger="mlsim")  # a command with --quiet raises it
    do(place)
    before = results_of(place / "out")
    done.clear()
    cut, lost, *_ = entries_of(place)
    cut.write_bytes(cut.read_bytes()[:-20])
    lost.write_bytes(b"")
    do(place)
    assert len(done) == 2
    assert f"{cut}: is damaged or was cut short" in caplog.text
    assert results_of(place / "out") == before


def test_a_picture_of_a_run_that_is_gone_is_drawn_again(place, done):
    do(place)
    before = results_of(place / "out")
    assert "pes-SS-2.png" in before
    done.clear()
    (picture,) = (place / "out/store").glob("??/*.png")
    picture.unlink()
    do(place)
    assert done == ["SS 2"]
    assert results_of(place / "out") == before


def test_results_of_an_earlier_version_go_and_files_of_others_stay(place):
    do(place)
    (place / "out/notes.txt").write_text("mine")
    (place / "study.yaml").write_text(STUDY.replace("timelines", "#"))
    do(place)
    names = results_of(place / "out")
    assert "notes.txt" in names
    assert "pes-SS-2.png" not in names


def test_a_store_of_another_version(place, done):
    do(place)
    done.clear()
    mark = place / "out/store/store.json"
    mark.write_text(mark.read_text().replace('"store_version": 1', '"store_version": 2'))
    with pytest.raises(InputError, match=r"is a store of version 2, and this mlsim has version 1"):
        do(place)
    assert done == []


def test_another_study_or_no_store_at_all(place):
    do(place)
    (place / "study.yaml").write_text(STUDY.replace("name: demo", "name: other"))
    with pytest.raises(InputError, match=r"has the results of another study: 'demo'"):
        do(place)
    (place / "full").mkdir()
    (place / "full/file").write_text("")
    with pytest.raises(InputError, match=r"already exists, and is no store of a study"):
        run_study(load_study(place), out=place / "full")


def test_two_starts_at_once(place, done):
    study = load_study(place)
    store = Store.open(place / "out", "demo", "loops")
    with locked(store):
        with pytest.raises(InputError, match=rf"process {os.getpid()} on .* is running this study"):
            run_study(study, out=place / "out")
        assert str(os.getpid()) in holder(store)
    assert holder(store) == ""
    assert done == []
    run_study(study, out=place / "out")


def test_a_full_disk_loses_nothing_that_is_finished(place, done, monkeypatch):
    put, room = Store.put, [3]

    def full(store, key, content):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        put(store, key, content)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full)
        with pytest.raises(OutputError, match=r"No space left on device\. All runs that were finished"):
            do(place)
    assert len(done) == 4
    done.clear()
    do(place)
    assert len(done) == 3


def test_a_full_disk_while_tables_are_written(place, monkeypatch):
    do(place)
    before = results_of(place / "out")
    (place / "study.yaml").write_text(STUDY.replace("[1, 2, 3]", "[1, 2]"))

    def full(path, data):
        if path.name == "table.md":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_whole(path, data)

    monkeypatch.setattr(study_store, "write_whole", full)
    with pytest.raises(OutputError, match="No space left on device"):
        do(place)
    assert (place / "out/table.md").read_bytes() == before["table.md"]
    assert not list((place / "out").glob(".*"))


def test_nothing_is_written_that_is_not_whole(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"):
        write_whole(tmp_path / "a", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("keep", ["tables", "all"])
def test_whole_runs_are_kept_and_can_be_read(place, keep, done):
    from mlsim.experiment.manifest import verify

    (place / "study.yaml").write_text(STUDY + f"keep: {keep}\n")
    do(place)
    runs = sorted((place / "out/store").glob("??/*.run"))
    assert len(runs) == 6
    for run in runs:
        found = verify(run)
        assert (found.damaged, found.missing, found.foreign) == ((), (), ())
        assert (run / "pes.parquet").exists()
        assert (run / "pes.png").exists() == (keep == "all")
        assert json.loads((run / "summary.json").read_text())["loops"]
    done.clear()
    (place / "study.yaml").write_text(STUDY)
    do(place)
    assert done == []  # what is kept is more than enough


def test_no_more_files_in_a_directory_than_a_share(place):
    do(place)
    assert all(len(path.relative_to(place / "out/store").parts) == 2 for path in entries_of(place))


def test_what_would_be_done(place):
    study = load_study(place)
    _, tasks, _ = missing_tasks(study, place / "out")
    assert len(tasks) == 6
    assert not (place / "out").exists()
    do(place)
    _, tasks, _ = missing_tasks(study, place / "out")
    assert tasks == []
    _, tasks, _ = missing_tasks(study, place / "out", force=True)
    assert len(tasks) == 6


def test_a_repetition_axis_as_the_column_is_an_error_before_the_first_run(place, done):
    (place / "study.yaml").write_text(STUDY + "repetitions: min_chunk\ncolumns: min_chunk\n")
    with pytest.raises(InputError, match="columns: min_chunk: is the axis of repetitions"):
        do(place)
    assert done == []


KILLS = 50 if THOROUGH else 5


@pytest.mark.slow
def test_killed_at_any_time_and_started_again(place):
    """The same bytes as undisturbed, and no finished run done twice, whenever it is killed."""
    chunks = list(range(1, 2 * KILLS))
    (place / "study.yaml").write_text(STUDY.replace("[1, 2, 3]", str(chunks)))
    do(place)
    undisturbed = results_of(place / "out")
    code = (
        "import sys, os; from mlsim.experiment import load_study, run_study\n"
        "from mlsim.experiment.study import study_executors\n"
        "simulated = study_executors._simulated\n"
        "def slowly(task):\n"
        "    with open('log', 'a') as log: log.write(task.key + '\\n')\n"
        "    print('begun', flush=True); return simulated(task)\n"
        "study_executors._simulated = slowly\n"
        "run_study(load_study('.'), out='killed')\n"
    )
    random, kills = np.random.default_rng(None if THOROUGH else 1), 0
    while kills < KILLS:
        process = subprocess.Popen([sys.executable, "-c", code], cwd=place, stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(random.integers(1, 4)):
            process.stdout.readline()
        with suppress(
            subprocess.TimeoutExpired
        ):  # at any instant of a run, of keeping it, of writing results
            process.wait(float(random.exponential(0.003)))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        if process.wait() == 0:
            break
    subprocess.run([sys.executable, "-c", code], cwd=place, stdout=subprocess.DEVNULL, check=True)
    assert kills >= KILLS // 2
    assert results_of(place / "killed") == undisturbed
    begun = (place / "log").read_text().split()
    assert len(set(begun)) == 2 * len(chunks)
    assert len(begun) <= len(set(begun)) + kills  # what was running when it was killed, and nothing else
