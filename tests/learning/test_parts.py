"""Learning in parts: kept, taken up again after a kill, and the same for any number of processes."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError, MlsimError
from mlsim.experiment.study.study_store import Memory
from mlsim.experiment.weekly_runs import weeks_of
from mlsim.learning.learning_parts import Part, Parts
from mlsim.learning.mixed_policies import Searching, learn_mixed
from mlsim.learning.policy_validation import PROTOCOLS, learn_transfer, phase_sums, transfer_phases
from mlsim.scenario import dump, from_mapping
from mlsim.workload import generate


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory):
    return [scenario_of(tmp_path_factory.mktemp(name), name, seed) for name, seed in (("one", 4), ("two", 5))]


def scenario_of(place, name, seed):
    path = place / f"{name}.swf"
    generate("lublin", days=42, processors=32, load=0.95, seed=seed, estimates="tsafrir").write(path)
    return from_mapping(
        {
            "name": name,
            "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
            "workload": {"path": str(path), "mapping": "node", "weeks": {"crossing": "remove"}},
            "batch": {"policy": "FCFS", "backfill": "easy", "threshold": "20 h"},
        }
    )


def files_of(scenarios, place):
    paths = [place / f"{scenario.name}.yaml" for scenario in scenarios]
    for path, scenario in zip(paths, scenarios, strict=True):
        path.write_text(dump(scenario))
    return [str(path) for path in paths]


def learn(*words):
    result = CliRunner().invoke(app, ["learn", *words])
    assert result.exit_code == 0, result.output
    return result


def tables(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def status(directory):
    result = CliRunner().invoke(app, ["study", "status", str(directory)])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def entries(directory):
    return {path.name: path.stat().st_mtime_ns for path in directory.glob("store/*/*.json")}


@pytest.mark.slow
def test_a_search_that_was_killed_goes_on_and_gives_what_two_processes_give(scenarios, tmp_path):
    (file,) = files_of(scenarios[:1], tmp_path)
    words = ["mixed", file, "--train", "0-2", "--test", "3-4", "--points", "20", "--phases", "2"]
    words += ["--phase-points", "3"]
    killed, fresh = tmp_path / "killed", tmp_path / "fresh"
    run = "from mlsim.cli.main import main; main()"
    command = [sys.executable, "-c", run, "learn", *words, "--jobs", "1", "--out", str(killed)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert any("2/7" in line for line in process.stderr), "no second week was done"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not tables(killed)
    there = entries(killed)
    assert len(there) >= 2
    assert "no process is working on it; run the same command to continue" in status(killed)
    told = learn(*words, "--jobs", "1", "--out", str(killed)).output
    assert f"{len(there)} of 7 parts done, {7 - len(there)} to do" in told
    assert "7 of 7 parts are done; 0 of them failed" in status(killed)
    assert {name: time for name, time in entries(killed).items() if name in there} == there
    learn(*words, "--jobs", "2", "--out", str(fresh))
    assert set(tables(fresh)) == {"weeks.csv", "learned.yaml", "phases.csv"}
    assert tables(killed) == tables(fresh)
    done = entries(fresh)
    learn(*words, "--jobs", "2", "--out", str(fresh))
    assert entries(fresh) == done


@pytest.mark.slow
@pytest.mark.parametrize("searching", [Searching(points=4), Searching(method="xnes", evaluations=20)])
def test_kept_searches_give_what_plain_ones_give(scenarios, searching):
    weeks = weeks_of(scenarios[0])
    parts = Parts(Memory())
    plain = learn_mixed(weeks, (0, 2), (3, 4), searching)
    for _ in range(2):  # done, and then there
        kept = learn_mixed(weeks, (0, 2), (3, 4), searching, parts)
        assert kept.learned.tobytes() == plain.learned.tobytes()
        assert all(kept.means[name].tobytes() == plain.means[name].tobytes() for name in plain.means)


def test_parts_that_differ_in_anything_are_not_taken_for_one_another(scenarios):
    ways = [Searching(("q", "p"), points=3), Searching(("q", "p"), points=5), Searching(points=3)]
    ways.append(Searching(("q", "p"), points=3, scale=np.array([1.0, 1 + 1e-15, 1, 1, 1, 1])))
    keys = {
        Parts()._task(Part({}, scenario, phase_sums, ((0, 1), (2, last), way))).key
        for scenario in scenarios
        for last in (3, 4)
        for way in ways
    }
    assert len(keys) == 16
    work = Parts()._task(Part({}, scenarios[0], phase_sums, ((0, 1), (2, 3), ways[3]))).subject
    assert pickle.loads(pickle.dumps(work)).words() == work.words()


def test_a_part_that_fails_says_which_and_is_done_once_more(scenarios):
    parts, searching = Parts(Memory()), Searching(("q", "p"), points=3)
    wrong = Part({"phase": "6 h"}, scenarios[0], phase_sums, ((0, 1), (90, 91), searching))
    good = Part({"phase": "0 h"}, scenarios[0], phase_sums, ((0, 1), (2, 3), searching))
    for _ in range(2):
        with pytest.raises(MlsimError, match="6 h: test: no week of the log"):
            list(parts.results([good, wrong]))
    (found,) = parts.results([good])
    assert found.shape == (2 * len(PROTOCOLS),)


def test_the_band_of_a_transfer_is_that_of_cuts_at_each_phase(scenarios):
    searching = Searching(("q", "p"), points=3)
    band = transfer_phases(scenarios, 2, 0.5, searching)
    for place, phase in enumerate(("0 h", "84 h")):
        moved = [
            from_mapping({**plain(scenario), "workload": {**plain(scenario)["workload"], **cut(phase)}})
            for scenario in scenarios
        ]
        found = learn_transfer({one.name: weeks_of(one) for one in moved}, 0.5, searching)
        for log, means in found.means.items():
            assert {name: values.mean() for name, values in means.items()} == {
                name: values[place] for name, values in band.means[log].items()
            }
    assert band.relative("one", "SAF", "SAF").tolist() == [0.0, 0.0]


def plain(scenario):
    import yaml

    return yaml.safe_load(dump(scenario))


def cut(phase):
    return {"weeks": {"crossing": "remove", "phase": phase}}


@pytest.mark.slow
def test_transfer_by_one_and_two_processes(scenarios, tmp_path):
    files = files_of(scenarios, tmp_path)
    words = ["transfer", *files, "--points", "3", "--features", "q,p", "--phases", "2"]
    outs = [tmp_path / "1", tmp_path / "2"]
    said = [learn(*words, "--jobs", out.name, "--out", str(out)).output for out in outs]
    assert "over 2 phases" in said[0]
    assert tables(outs[0]) == tables(outs[1])
    rows = pl.read_csv(outs[0] / "phases.csv")
    assert len(rows) == 2 * 2 * (2 + 11)
    result = CliRunner().invoke(app, ["learn", *words, "--phases", "1"])
    assert isinstance(result.exception, InputError)


@pytest.mark.slow
def test_classes_by_one_and_two_processes(scenarios, tmp_path):
    pytest.importorskip("sklearn", reason="no scikit-learn; pip install 'mlsim[learning]'")
    files = files_of(scenarios, tmp_path)
    source = tmp_path / "source.csv"
    source.write_text("log,dispatcher,gain\none,EASY++,12.5\n")
    words = ["classes", *files, "--trees", "3", "--policies", "FCFS,SAF", "--reference", str(source)]
    outs = [tmp_path / "1", tmp_path / "2"]
    for out in outs:
        learn(*words, "--jobs", out.name, "--out", str(out))
    assert tables(outs[0]) == tables(outs[1])
    rows = pl.read_csv(outs[0] / "variants.csv")
    assert len(rows) == 2 * 2 * 5
    assert rows.filter(pl.col("variant") == "base")["to base %"].to_list() == [0.0] * 4
    done = entries(outs[0])
    learn(*words, "--jobs", "1", "--out", str(outs[0]))
    assert entries(outs[0]) == done
    gains = pl.read_csv(outs[0] / "gains.csv").filter(pl.col("log") == "two")
    assert gains["dispatcher"].to_list() == ["EASY++", "FCFS-CI", "SAF", "SAF-CI"]
    keys = {"batch.predictor": "EASY++", "batch.backfill_order": "SPF"}
    means = [mlsim.run(files[1], more).summary["bounded_slowdown"]["mean"] for more in ({}, keys)]
    assert gains["mean"][0] == pytest.approx(means[1], rel=1e-9)
    assert gains["gain %"][0] == pytest.approx(100 * (1 - means[1] / means[0]), rel=1e-9)
    source.write_text("log,dispatcher,gain\none,EASY++,much\n")
    result = CliRunner().invoke(app, ["learn", *words])
    assert f"{source}:2: gain: 'much' is no number" in str(result.exception)


def test_a_directory_of_something_else_is_refused(scenarios, tmp_path):
    (file,) = files_of(scenarios[:1], tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    words = ["learn", "mixed", file, "--train", "0-2", "--test", "3-4", "--points", "3", "--out", str(other)]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, InputError)
    assert tables(other) == {"notes.txt": b"mine"}
