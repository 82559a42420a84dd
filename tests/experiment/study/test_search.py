"""Searches: each method on a known optimum, whoever does the runs and however often it ends."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.experiment import load_study, read_study, run, run_study
from mlsim.experiment.study import study_executors
from mlsim.experiment.study.search_file import SEARCH_KEYS
from mlsim.experiment.study.search_methods import Range
from mlsim.experiment.study.study_executors import Processes
from mlsim.experiment.study.study_file import study_schema
from mlsim.experiment.study.study_runner import missing_tasks
from mlsim.scenario import load

# The one job runs as long as the reader says: the makespan is known for every candidate.
READER = """\
import os
from pathlib import Path

def read(path, x=0.0, y=1.0, fails=2.0, shift=0.0, hang=False, stop=""):
    if x > fails:
        raise ValueError("x is too large today")
    if stop and x > 0.45 and not Path(stop).exists():
        Path(stop).touch()
        os.kill(os.getpid(), 9)
    seconds = 100 + 1000 * ((x - 0.3 - shift) ** 2 + (y / 10 - 0.5) ** 2)
    return {"job_id": [1], "submit_time": [0], "run_time": [seconds], "walltime": [10_000], "processors": [1]}
"""
RUN = """\
platform: {nodes: [{name: n, count: 1, cores: 1}]}
workload: {path: jobs.txt, format: {function: ./reader.py:read, parameters: {x: 0.0}}, mapping: core}
"""
X, Y = "workload.format.parameters.x", "workload.format.parameters.y"
SHIFT = "workload.format.parameters.shift"
SEARCH: dict[str, Any] = {
    "minimise": "makespan",
    "over": {X: {"from": 0, "to": 1}, Y: {"from": 1, "to": 10}},
    "method": "random",
    "evaluations": 20,
}
STUDY: dict[str, Any] = {"of": "runs", "name": "demo", "base": "run.yaml", "search": SEARCH}
ORDER: dict[str, Any] = {"0": {SHIFT: 0.0}, "1": {SHIFT: 0.2}}
REPEATED: dict[str, Any] = {
    **STUDY,
    "vary": {"order": ORDER},
    "repetitions": "order",
    "search": {
        **SEARCH,
        "baselines": {"as it is": {}, "near": {X: 0.35, Y: 5}},
        "validate": {"order": {str(n): {SHIFT: 0.05 * n} for n in range(5, 10)}},
    },
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (("run.yaml", RUN), ("reader.py", READER), ("jobs.txt", "\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a formula stand for the simulation, where all is in this process."""

    def simulated(task: Any) -> Any:
        keys = {key.rsplit(".", 1)[-1]: value for key, value in task.overrides.items()}
        given = {name: keys.get(name, default) for name, default in (("x", 0.0), ("y", 1.0), ("shift", 0.0))}
        if given["x"] > keys.get("fails", 2.0):
            raise ValueError("x is too large today")
        summary = {"makespan": makespan(**given), "utilization": {"busy": 1.0}}
        return SimpleNamespace(summary=summary, scenario=None, records=None)

    monkeypatch.setattr(study_executors, "_simulated", simulated)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of the runs that are simulated, in order."""
    keys: list[str] = []
    simulated = study_executors._simulated

    def noting(task: Any) -> Any:
        keys.append(task.key)
        return simulated(task)

    monkeypatch.setattr(study_executors, "_simulated", noting)
    return keys


def with_search(study: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a study with other keys of its search; None takes one away."""
    search = {key: value for key, value in (study["search"] | keys).items() if value is not None}
    return study | {"search": search}


def loaded(place: Path, study: dict[str, Any]) -> Any:
    (place / "study.yaml").write_text(json.dumps(study))
    return load_study(place)


def results_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def do(place: Path, study: dict[str, Any], out: str = "out", **options: Any) -> pl.DataFrame:
    """Do a search; return its candidates."""
    run_study(loaded(place, study), out=place / out, **options)
    candidates = read_study(place / out).search
    assert candidates is not None
    return candidates


def makespan(x: float, y: float, shift: float = 0.0) -> float:
    return 100 + 1000 * ((x - 0.3 - shift) ** 2 + (y / 10 - 0.5) ** 2)


METHODS: dict[str, dict[str, Any]] = {
    "grid": {"points": {"x": 11, "y": 10}, "evaluations": None},
    "random": {"evaluations": 200},
    "cma-es": {"evaluations": 150},
    "optuna": {"evaluations": 60},
}
PACKAGES = {"cma-es": "cmaes", "optuna": "optuna"}


def needs(method: str) -> None:
    if method in PACKAGES:
        pytest.importorskip(PACKAGES[method], reason=f"{PACKAGES[method]} is not installed")


@pytest.mark.parametrize("method", METHODS)
def test_each_method_finds_the_known_optimum(
    method: str, place: Path, cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(method)
    candidates = do(place, with_search(STUDY, method=method, **METHODS[method]))
    monkeypatch.undo()
    values = candidates["objective"].to_numpy()
    expected = [makespan(x, y) for x, y in candidates.select("x", "y").iter_rows()]
    assert values == pytest.approx(expected)
    bar = {"grid": 100, "random": 110, "cma-es": 100.01, "optuna": 105}[method]
    assert values.min() <= bar + 1e-6
    best = run(load(place / "out" / "best.yaml"))
    assert best.summary["makespan"] == pytest.approx(values.min())


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("method", ["random", "cma-es", "optuna"])
def test_a_seed_gives_one_search_and_another_seed_another(method: str, place: Path) -> None:
    needs(method)
    first, again, other = (
        do(place, with_search(STUDY, method=method, seed=seed), out)
        for seed, out in ((3, "a"), (3, "b"), (4, "c"))
    )
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("log", [False, True])
def test_whole_numbers_are_found_and_kept_within_their_range(method: str, log: bool, place: Path) -> None:
    needs(method)
    over = {
        X: {"from": 0.1, "to": 1, "scale": "log" if log else "linear"},
        Y: {"from": 1, "to": 10, "integer": True, "scale": "log" if log else "linear"},
    }
    found = do(place, with_search(STUDY, method=method, **METHODS[method], over=over))
    assert found["y"].dtype == pl.Int64
    assert set(found["y"]) <= set(range(1, 11))
    assert found.sort("objective")["y"][0] == 5
    assert found["x"].is_between(0.1, 1).all()


def test_choices_and_names_in_set(place: Path) -> None:
    study = with_search(
        STUDY | {"set": {X: "{left}", "name": "run-{left}-{height}"}},
        over={"left": {"from": 0, "to": 1}, "height": {"low": {Y: 1}, "middle": {Y: 5}}},
        evaluations=30,
    )
    found = do(place, study)
    assert set(found["height"]) == {"low", "middle"}
    expected = [
        makespan(x, {"low": 1, "middle": 5}[y]) for x, y in found.select("left", "height").iter_rows()
    ]
    assert found["objective"].to_list() == pytest.approx(expected)
    best = load(place / "out" / "best.yaml")
    assert best.name == f"run-{found.sort('objective')['left'][0]:g}-middle"


def test_maximise(place: Path) -> None:
    found = do(
        place,
        with_search(STUDY, minimise=None, maximise="makespan", method="grid", points=3, evaluations=None),
    )
    assert found.height == 9
    best = (place / "out" / "best.yaml").read_text()
    assert run(load(place / "out" / "best.yaml")).summary["makespan"] == found["objective"].max()
    assert f"{found['objective'].max():.6g}" in best


@pytest.mark.usefixtures("cheap")
def test_every_candidate_is_evaluated_on_all_repetitions(place: Path) -> None:
    for average, expected in (("mean", lambda a, b: (a + b) / 2), ("median", lambda a, b: (a + b) / 2)):
        found = do(place, with_search(REPEATED, average=average), average)
        for x, y, value in found.select("x", "y", "objective").iter_rows():
            assert value == pytest.approx(expected(makespan(x, y), makespan(x, y, 0.2)))
    runs = read_study(place / "mean").runs.filter(pl.col("part") == "search")
    assert runs.height == 2 * (20 + 2)
    assert runs["order"].to_list() == ["0", "1"] * 22


@pytest.mark.usefixtures("cheap")
def test_the_median_is_not_the_mean(place: Path) -> None:
    study = REPEATED | {"vary": {"order": {**ORDER, "2": {SHIFT: 1.0}}}}
    found = do(place, with_search(study, average="median", validate=None))
    for x, y, value in found.select("x", "y", "objective").iter_rows():
        assert value == pytest.approx(sorted(makespan(x, y, shift) for shift in (0.0, 0.2, 1.0))[1])


@pytest.mark.usefixtures("cheap")
def test_values_relative_to_a_baseline(place: Path) -> None:
    found = do(place, with_search(REPEATED, relative="near"))
    for x, y, value in found.select("x", "y", "objective").iter_rows():
        ratios = [makespan(x, y, shift) / makespan(0.35, 5, shift) for shift in (0.0, 0.2)]
        assert value == pytest.approx(sum(ratios) / 2)


@pytest.mark.usefixtures("cheap")
def test_what_is_held_out_is_seen_by_the_best_and_the_baselines_alone(place: Path) -> None:
    found = do(place, REPEATED)
    tables = read_study(place / "out")
    held_out = tables.runs.filter(pl.col("part") == "held out")
    best = found.sort("objective")["candidate"][0]
    assert held_out["candidate"].to_list() == [str(best)] * 5 + ["as it is"] * 5 + ["near"] * 5
    assert set(held_out["order"]) == set("56789")
    compared = tables.comparison
    assert compared is not None
    rows = {
        (row["part"], row["candidate"]): row
        for row in compared.iter_rows(named=True)
        if row["metric"] == "mean makespan (s)"
    }
    x, y = found.sort("objective").select("x", "y").row(0)
    mine = [makespan(x, y, 0.05 * n) for n in range(5, 10)]
    theirs = [makespan(0.35, 5, 0.05 * n) for n in range(5, 10)]
    differences = [own - other for own, other in zip(mine, theirs, strict=True)]
    near = rows["held out", "near"]
    assert near["mean"] == pytest.approx(sum(theirs) / 5)
    assert near["difference"] == pytest.approx(sum(differences) / 5)
    assert (near["pairs"], near["runs"]) == (5, 5)
    assert near["difference_low"] <= near["difference"] <= near["difference_high"]
    assert 0 < near["p"] <= 1
    assert rows["search", "best"]["mean"] == pytest.approx(found["objective"].min())
    text = (place / "out" / "search.md").read_text()
    assert "This number was fitted" in text
    assert "Held out: 5 runs" in text


@pytest.mark.usefixtures("cheap")
def test_nothing_held_out_is_said(place: Path) -> None:
    do(place, STUDY)
    assert "Nothing was held out" in (place / "out" / "search.md").read_text()
    assert read_study(place / "out").comparison is None


def test_the_best_scenario_runs_from_anywhere(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = do(place, REPEATED)
    monkeypatch.chdir("/")
    best = load(place / "out" / "best.yaml")
    row = found.sort("objective").row(0, named=True)
    assert run(best).summary["makespan"] == pytest.approx(makespan(row["x"], row["y"]))


class TestFailures:
    def test_a_failed_run_counts_as_the_worst(self, place: Path) -> None:
        needs("cma-es")
        study = with_search(
            STUDY | {"set": {"workload.format.parameters.fails": 0.6}}, method="cma-es", evaluations=60
        )
        found = do(place, study)
        failed = found.filter(pl.col("failed") > 0)
        assert failed.height
        assert failed["objective"].null_count() == failed.height
        assert set(failed["message"].str.contains("x is too large today")) == {True}
        assert (found["x"] > 0.6).to_list() == (found["failed"] > 0).to_list()
        assert found["objective"].min() < 101
        assert (
            f"Of {failed.height} candidates at least one run failed"
            in (place / "out" / "search.md").read_text()
        )

    def test_all_failed_is_an_error(self, place: Path) -> None:
        study = with_search(STUDY | {"set": {"workload.format.parameters.fails": -1}})
        with pytest.raises(InputError, match=r"none of the 20 candidates .* judged: .*too large today"):
            do(place, study)

    def test_a_candidate_that_is_no_scenario_has_failed(self, place: Path) -> None:
        over = {"platform.nodes.0.cores": {"from": 1, "to": 2}}
        with pytest.raises(InputError, match=r"cores.*\(search: .*cores: 1\.6"):
            do(place, with_search(STUDY, over=over))

    def test_the_command_says_which_and_ends_with_1(self, place: Path) -> None:
        study = with_search(STUDY, over={X: {"from": 0, "to": 1}}, method="grid", points=11, evaluations=None)
        loaded(place, study | {"set": {"workload.format.parameters.fails": 0.95}})
        answer = CliRunner().invoke(app, ["study", str(place), "--out", str(place / "out"), "-j", "1"])
        assert answer.exit_code == 1
        assert "1 of 11 runs have failed" in answer.output
        assert "candidate: 11" in answer.output


@pytest.mark.usefixtures("cheap")
class TestTakenUpAgain:
    @pytest.mark.parametrize("method", METHODS)
    def test_what_is_there_is_not_done_again(self, method: str, place: Path, done: list[str]) -> None:
        needs(method)
        study = with_search(REPEATED, method=method, **METHODS[method])
        do(place, study)
        first = results_of(place / "out")
        count = len(done)
        assert count == len(set(done))
        do(place, study)
        assert len(done) == count
        assert results_of(place / "out") == first

    @pytest.mark.parametrize("method", ["random", "cma-es", "optuna"])
    @pytest.mark.parametrize("after", [1, 7, 20, 41])
    def test_ended_after_any_run_it_gives_the_same_bytes(
        self, method: str, after: int, place: Path, done: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        needs(method)
        study = with_search(REPEATED, method=method, population=None if method == "random" else 5)
        do(place, study, "undisturbed")
        total = len(done)
        done.clear()

        def ending(*_: object) -> None:
            if len(done) >= after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            do(place, study, progress=ending)
        assert len(done) == after
        do(place, study)
        assert len(done) == len(set(done)) == total
        assert results_of(place / "out") == results_of(place / "undisturbed")

    @pytest.mark.parametrize("method", ["random", "cma-es", "optuna"])
    def test_more_evaluations_do_the_new_runs_alone(self, method: str, place: Path, done: list[str]) -> None:
        needs(method)
        study = with_search(STUDY, method=method, population=None if method == "random" else 5)
        do(place, with_search(study, evaluations=18))
        do(place, with_search(study, evaluations=30))
        assert len(done) == len(set(done)) == 30

    def test_a_budget_that_cuts_a_generation_is_used_to_the_end(self, place: Path) -> None:
        needs("cma-es")
        found = do(place, with_search(STUDY, method="cma-es", population=6, evaluations=20))
        assert found["generation"].to_list() == [1] * 6 + [2] * 6 + [3] * 6 + [4] * 2

    def test_force_does_each_run_once_more(self, place: Path, done: list[str]) -> None:
        do(place, REPEATED)
        count = len(done)
        do(place, REPEATED, force=True)
        assert len(done) == 2 * count
        assert len(set(done)) == count

    def test_failed_runs_are_done_again_when_asked(self, place: Path, done: list[str]) -> None:
        study = with_search(STUDY | {"set": {"workload.format.parameters.fails": 0.6}})
        found = do(place, study)
        failed = found["failed"].sum()
        assert 0 < failed < 20
        count = len(done)
        do(place, study, retry_failed=True)
        assert len(done) == count + failed

    def test_what_would_be_done(self, place: Path) -> None:
        needs("cma-es")
        study = with_search(REPEATED, method="cma-es", population=5)
        _, tasks, _ = missing_tasks(loaded(place, study), place / "out")
        assert len(tasks) == 2 * 2  # the baselines
        assert not (place / "out").exists()

        def ending(row: Any, _: int) -> None:
            if row.labels["candidate"] == "7":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            do(place, study, progress=ending)
        total, tasks, _ = missing_tasks(loaded(place, study), place / "out")
        assert {task.labels["generation"] for task in tasks} == {"2"}
        assert len(tasks) == 2 * 5 - 3
        assert total == 2 * (2 + 10)
        do(place, study)
        assert missing_tasks(loaded(place, study), place / "out")[1] == []


class TestWhoeverDoesTheRuns:
    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["random", "cma-es"])
    def test_processes_give_the_same_bytes(self, method: str, place: Path) -> None:
        needs(method)
        study = with_search(REPEATED, method=method)
        do(place, study, "serial")
        do(place, study, "two", executor=Processes(2))
        assert results_of(place / "two") == results_of(place / "serial")

    def test_processes_stay_from_one_generation_to_the_next(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        needs("cma-es")
        started: list[int] = []
        popen = subprocess.Popen

        def starting(*words: Any, **more: Any) -> Any:
            process = popen(*words, **more)
            if "serve" in str(words[0]):
                started.append(process.pid)
            return process

        monkeypatch.setattr(subprocess, "Popen", starting)
        do(place, with_search(STUDY, method="cma-es", population=4), executor=Processes(2))
        assert len(started) == 2
        assert not any(Path(f"/proc/{pid}").exists() for pid in started)

    @pytest.mark.slow
    def test_a_killed_search_goes_on(self, place: Path) -> None:
        needs("cma-es")
        study = with_search(REPEATED, method="cma-es", population=5)
        do(place, study, "undisturbed")
        stop = place / "stopped"
        loaded(place, study | {"set": {"workload.format.parameters.stop": str(stop)}})
        code = (
            "import sys; from mlsim.experiment import load_study, run_study; "
            "run_study(load_study(sys.argv[1]), out=sys.argv[2])"
        )
        process = subprocess.run(
            [sys.executable, "-c", code, str(place), str(place / "out")],
            cwd=Path(__file__).parents[3],
            check=False,
        )
        assert process.returncode == -signal.SIGKILL
        assert stop.exists()
        subprocess.run(
            [sys.executable, "-c", code, str(place), str(place / "out")],
            cwd=Path(__file__).parents[3],
            check=True,
        )
        ours = pl.read_csv(place / "out" / "search.csv")
        assert ours.equals(pl.read_csv(place / "undisturbed" / "search.csv"))

    @pytest.mark.usefixtures("cheap")
    def test_from_memory_alone(self, place: Path) -> None:
        rows = run_study(loaded(place, REPEATED))
        assert len(rows) == 2 * 22 + 3 * 5
        assert not (place / "out").exists()


MESSAGES: list[tuple[dict[str, Any], str]] = [
    (with_search(STUDY, minimise="makespam"), r"search: minimise: makespam: not in the summary.*makespan"),
    (with_search(STUDY, minimise="self.wall_time"), r"minimise: self.wall_time: is measured of the tool"),
    (with_search(STUDY, minimise=None), r"search: minimise, maximise: missing"),
    (with_search(STUDY, maximise="makespan"), r"search: minimise, maximise: both are there"),
    (with_search(STUDY, over={X: {"from": 1, "to": 0}}), r"over: .*\.x: from 1 to 0; allowed: from below to"),
    (
        with_search(STUDY, over={X: {"from": 0, "to": 1, "scale": "log"}}),
        r"\.x: from: 0; allowed with scale log: above 0",
    ),
    (with_search(STUDY, over={X: {"from": 0.2, "to": 0.8, "integer": True}}), r"allowed: whole numbers"),
    (with_search(STUDY, over={X: {"from": 0, "to": "5 us"}}), r"\.x: to: '5 us'; allowed: a number.*in set"),
    (with_search(STUDY, over={X: {"from": 0, "to": 1, "scale": "cubic"}}), r"scale: 'cubic' is not known"),
    (with_search(STUDY, over={X: {"from": 0, "to": 1, "step": 1}}), r"\.x: 'step' is not known"),
    (with_search(STUDY, over={X: [0.5]}), r"\.x: is one choice"),
    (with_search(STUDY, over={}), r"over: \{\}; allowed: a mapping of parameters"),
    (with_search(STUDY, over={"lag": {"from": 0, "to": 1}}), r"over: lag: sets nothing"),
    (with_search(STUDY, over={X: {"from": 0, "to": 1}, "a.x": {"from": 0, "to": 1}}), r"x: names 2 columns"),
    (with_search(STUDY, over={"a.candidate": {"from": 0, "to": 1}}), r"candidate: names 2 columns"),
    (with_search(STUDY, method="anneal"), r"method: 'anneal' is not known;.* allowed: grid, random"),
    (with_search(STUDY, method=None), r"search: method: missing; allowed: grid, random, cma-es, optuna"),
    (with_search(STUDY, points=5), r"search: points: random does not read it; read by grid"),
    (with_search(STUDY, evaluation=5), r"search: 'evaluation' is not known; did you mean"),
    (with_search(STUDY, evaluations=None), r"search: evaluations: missing"),
    (with_search(STUDY, evaluations=0), r"evaluations: 0 is too small; allowed: a whole number, 1 to"),
    (with_search(STUDY, method="grid", evaluations=None), r"points: missing; allowed: how many values"),
    (with_search(STUDY, method="grid", points=5), r"evaluations: 20, and the grid has 25 candidates"),
    (with_search(STUDY, method="grid", points={"x": 5}, evaluations=None), r"points: y: missing"),
    (
        with_search(
            STUDY, method="grid", points=5, evaluations=None, over={Y: {"from": 1, "to": 3, "integer": True}}
        ),
        r"points: y: 5, and there are 3 whole numbers from 1 to 3",
    ),
    (with_search(STUDY, method="cma-es", evaluations=4, population=5), r"less than one population of 5"),
    (with_search(STUDY, method="cma-es", over={X: [1, 2]}), r"over: x: choices have no order"),
    (
        with_search(STUDY, method="cma-es", sigma=0),
        r"sigma: 0 is out of range; allowed: a number, more than 0 and at most 1",
    ),
    (with_search(STUDY, method="cma-es", start={"x": 2}), r"start: x: 2; allowed: 0 to 1"),
    (with_search(STUDY, method="cma-es", start={"z": 2}), r"start: 'z' is not known"),
    (with_search(STUDY, average="mode"), r"average: 'mode' is not known"),
    (with_search(STUDY, relative="SAF"), r"relative: 'SAF' is not known"),
    (with_search(STUDY, baselines={"a": 1}), r"baselines: .*; allowed: labels"),
    (with_search(STUDY, baselines={"7": {}}), r"baselines: '7': candidates are called so"),
    (with_search(STUDY, validate={"seeds": 3}), r"search: baselines: missing; validate compares"),
    (
        with_search(STUDY, validate={"seeds": 3}, baselines={"a": {}}),
        r"validate: has seed; allowed: .*no repetitions",
    ),
    (with_search(REPEATED, validate={"order": ORDER}), r"validate: order: 0: is among those"),
    (
        with_search(REPEATED, validate={"order": {"9": {SHIFT: 0.2}}}),
        r"validate: order: 9: is among those that candidates are chosen by",
    ),
    (STUDY | {"vary": {"batch.policy": ["FCFS", "SPF"]}}, r"vary: policy: is not known to be a repetition"),
    (STUDY | {"repetitions": "week"}, r"repetitions: 'week' is not known"),
    (STUDY | {"columns": "x"}, r"columns: does not go with search"),
    (STUDY | {"pictures": []}, r"pictures: does not go with search"),
    (STUDY | {"search": 5}, r"search: 5; allowed: a mapping"),
    (STUDY | {"set": {"name": "{z}"}}, r"set: name: 'z': is no parameter or axis"),
    (
        with_search(REPEATED, over={SHIFT: {"from": 0, "to": 1}}),
        r"over: shift: sets workload.format.parameters.shift, as an axis of vary does",
    ),
    (with_search(STUDY, over={"batch.polcy": ["FCFS", "SPF"]}), r"polcy.*\(search: .*polcy: FCFS"),
]


@pytest.mark.parametrize(("study", "message"), MESSAGES)
def test_what_is_wrong_is_said_before_the_first_run(study: dict[str, Any], message: str, place: Path) -> None:
    with pytest.raises(InputError, match=message):
        loaded(place, study)


def test_a_missing_package_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsim.experiment.study import study_runner

    monkeypatch.setattr(study_runner, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"cma-es: needs the package cmaes.*pip install 'mlsim\[search\]'"):
        do(place, with_search(STUDY, method="cma-es"))
    with pytest.raises(InputError, match=r"optuna: needs the package optuna.*pip install 'mlsim\[optuna\]'"):
        do(place, with_search(STUDY, method="optuna"))


# Another value of each key of ``search``, with the keys that it is compared under.
KEY_VALUES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "minimise": ({}, {"minimise": "utilization.busy"}),
    "maximise": ({}, {"minimise": None, "maximise": "makespan"}),
    "over": ({}, {"over": {X: {"from": 0, "to": 1}, Y: {"from": 2, "to": 10}}}),
    "method": ({}, {"method": "cma-es"}),
    "average": ({}, {"average": "median"}),
    "relative": ({}, {"relative": "near"}),
    "validate": ({}, {"validate": {"order": {"7": {SHIFT: 0.7}}}}),
    "baselines": ({}, {"baselines": {"near": {X: 0.35, Y: 5}}}),
    "evaluations": ({}, {"evaluations": 21}),
    "seed": ({}, {"seed": 1}),
    "points": ({"method": "grid", "evaluations": None, "points": 3}, {"points": {"x": 3, "y": 4}}),
    "population": ({"method": "cma-es"}, {"population": 7}),
    "sigma": ({"method": "cma-es"}, {"sigma": 0.1}),
    "start": ({"method": "cma-es"}, {"start": {"x": 0.9}}),
}


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("key", SEARCH_KEYS)
def test_no_key_of_a_search_is_left_aside(key: str, place: Path) -> None:
    under, other = KEY_VALUES[key]
    for method in (under.get("method"), other.get("method")):
        needs(method or "")
    study = REPEATED | {"vary": {"order": {**ORDER, "2": {SHIFT: 1.0}}}}
    do(place, with_search(study, **under), "before")
    do(place, with_search(study, **{**under, **other}), "after")
    assert all(
        (place / "before" / name).read_bytes() != (place / "after" / name).read_bytes()
        for name in ("search.md", "search.png" if key != "validate" else "comparison.csv")
    )


def test_the_schema_knows_searches() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema")
    validator = jsonschema.Draft202012Validator(study_schema())
    for method, keys in METHODS.items():
        assert validator.is_valid(with_search(REPEATED, method=method, **keys))
    for wrong in (
        with_search(STUDY, minimise=None),
        with_search(STUDY, maximise="makespan"),
        with_search(STUDY, points=5),
        with_search(STUDY, method="anneal"),
        with_search(STUDY, evaluations=None),
        with_search(STUDY, over={X: {"from": 1}}),
        with_search(STUDY, over={X: [1]}),
        STUDY | {"columns": "x"},
        {key: value for key, value in STUDY.items() if key != "search"},
    ):
        assert not validator.is_valid(wrong), wrong


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("log", [False, True])
def test_values_of_a_range_can_be_written_and_read(integer: bool, log: bool) -> None:
    one = Range("x", "", 1 if integer else 0.123456789, 12345678, log, integer)
    shares = [place / 1000 for place in range(1001)]
    for found in ([one.at(share) for share in shares], [one.between(share) for share in shares]):
        assert [one.value(one.label(value)) for value in found] == found
        assert found == sorted(found)
        assert found[0] == pytest.approx(one.low, rel=5e-6)
        assert found[-1] == one.high
        assert one.low <= found[0]
    assert all(
        math.isclose(float(one.between(one.share(float(v)))), float(v), rel_tol=2e-6) for v in found[1:-1]
    )


def test_every_whole_number_is_as_likely() -> None:
    one = Range("x", "", 1, 4, log=False, integer=True)
    drawn = [one.at((place + 0.5) / 400) for place in range(400)]
    assert [drawn.count(number) for number in (1, 2, 3, 4)] == [100, 100, 100, 100]
