"""Runs that were written: found, read back, measured and compared, without simulating again."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import mlsim
from mlsim.analysis.job_metrics import GROUPINGS
from mlsim.errors import InputError, OutputError
from mlsim.experiment.manifest import write_manifest
from mlsim.experiment.stored_runs import (
    differences_of,
    find_runs,
    measure_run,
    name_runs,
    read_run,
    summary_of,
)
from mlsim.scenario import from_mapping

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
FAST = {"output.pictures": False, "output.trace": "none", "output.passes": True}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two runs of one scenario, that differ in policy."""
    directory = tmp_path_factory.mktemp("runs")
    for policy in ("FCFS", "SAF"):
        mlsim.run(QUICKSTART, FAST | {"batch.policy": policy}, out=directory / policy.lower())
    return directory


def test_the_summary_computed_from_disk_is_the_stored_one(runs):
    run = read_run(runs / "fcfs")
    assert summary_of(run) == run.summary
    assert summary_of(run, tau=60.0)["bounded_slowdown"]["mean"] < run.summary["bounded_slowdown"]["mean"]


def test_a_summary_from_disk_knows_failures_power_and_rejections(tmp_path):
    path = tmp_path / "jobs.csv"
    lines = [f"{k},{40 * k},{300 + 7 * k},900,{1 + k % 5}" for k in range(1, 200)]
    path.write_text("job_id,submit_time,run_time,walltime,processors\n" + "\n".join(lines))
    power = {"idle": "100 W", "busy": "250 W", "off": "7 W"}
    scenario = {
        "platform": {
            "nodes": [{"name": "n", "count": 4, "cores": 1, "power": power}],
            "random_failures": [{"mtbf": "1 h", "mttr": "5 min"}],
            "drains": [{"nodes": 3, "start": "1 h", "end": "2 h"}],
        },
        "workload": {"path": str(path), "mapping": "node"},
        "batch": {"backfill": "easy", "on_failure": "restart"},
        "output": {"pictures": False},
    }
    made = mlsim.run(from_mapping(scenario), out=tmp_path / "run")
    assert made.summary["failures"]["restarts"] > 3
    assert made.summary["failures"]["node_drains"] == 1
    assert sum(made.summary["rejected_because"].values()) == 40
    assert summary_of(read_run(tmp_path / "run")) == read_run(tmp_path / "run").summary


@pytest.mark.parametrize("by", GROUPINGS)
def test_groups_from_disk_are_those_of_the_result(runs, by):
    result = mlsim.run(QUICKSTART, FAST)
    assert measure_run(read_run(runs / "fcfs"), by).groups.equals(result.by(by))
    assert result.by(by)["jobs"].sum() == 200


def test_a_result_knows_no_other_groups():
    result = mlsim.run(QUICKSTART, FAST)
    with pytest.raises(InputError, match="partition, qos, application, technique, week"):
        result.by("colour")


def test_plain_values_and_rows(runs):
    found = measure_run(read_run(runs / "fcfs"), "size")
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["run"] == "fcfs"
    assert sum(group["jobs"] for group in plain["by_size"]) == 200
    assert plain["by_class"][0]["wait_time"]["p90"] > 0
    assert sum(row["passes"] for row in plain["pass_time_by_queue_length"]) == plain["passes"]["count"]
    assert found.rows()["run"].to_list() == ["fcfs"] * len(plain["by_size"])
    (row,) = measure_run(read_run(runs / "fcfs")).rows().to_dicts()
    assert row["wait_time.mean"] == plain["wait_time"]["mean"]
    assert row["slowdown_histogram.slowdown.>100"] == plain["slowdown_histogram"]["slowdown"][">100"]


def test_runs_are_found_in_a_directory_of_runs(runs):
    assert find_runs([runs]) == [runs / "fcfs", runs / "saf"]
    assert find_runs([runs / "saf"]) == [runs / "saf"]
    with pytest.raises(InputError, match="given twice"):
        find_runs([runs, runs / "saf"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda d: None, "there is no such directory"),
        (lambda d: d.write_text("x"), "a file; give the directory of a run"),
        (lambda d: d.mkdir(), "no run: there is no summary.json"),
        (lambda d: (d.mkdir(), (d / "study.yaml").write_text("")), "results of a study"),
        (lambda d: (d.mkdir(), (d / "summary.json").write_text("{")), "summary.json: cannot be read"),
        (lambda d: (d.mkdir(), (d / "summary.json").write_text("{}")), "no summary of mlsim"),
        (
            lambda d: (d.mkdir(), (d / "summary.json").write_text('{"schema_version": 99, "jobs": {}}')),
            "has schema_version 99, and this mlsim reads 1",
        ),
        (
            lambda d: (
                d.mkdir(),
                (d / "summary.json").write_text(
                    '{"schema_version": 1, "scenario": "x", "seed": 0, "loops": []}'
                ),
            ),
            "results of loops alone",
        ),
        (
            lambda d: (
                d.mkdir(),
                (d / "summary.json").write_text(
                    '{"schema_version": 1, "scenario": "x", "seed": 0, "jobs": {}}'
                ),
            ),
            "jobs.parquet: there is no such file",
        ),
    ],
)
def test_what_is_no_run_is_said_to_be_none(tmp_path, make, words):
    make(tmp_path / "it")
    with pytest.raises(InputError, match=words):
        [read_run(directory) for directory in find_runs([tmp_path / "it"])]


def test_a_missing_run_names_those_beside_it(runs):
    with pytest.raises(InputError, match=r"There are .*fcfs, .*saf"):
        find_runs([runs / "easy"])


def test_names_are_as_short_as_can_be():
    paths = [Path("/a/x/one"), Path("/b/x/one"), Path("/b/x/two"), Path("/b/y/two")]
    assert name_runs(paths) == ["a/x/one", "b/x/one", "x/two", "y/two"]
    assert name_runs([]) == []


def test_scenarios_differ_in_what_was_set(runs):
    found = [read_run(runs / name) for name in ("fcfs", "saf")]
    assert differences_of([run.scenario for run in found]) == {"batch.policy": ["FCFS", "SAF"]}
    assert differences_of([found[0].scenario] * 2) == {}


@pytest.mark.slow
def test_runs_on_disk_and_in_memory_compare_alike(runs):
    first, other = (mlsim.run(QUICKSTART, FAST | {"batch.policy": policy}) for policy in ("FCFS", "SAF"))
    mixed = mlsim.compare(first, runs / "saf", labels=["fcfs", "saf"])
    stored = mlsim.compare(runs)
    assert stored.labels == ["fcfs", "saf"]
    assert mixed.differences == stored.differences == {"batch.policy": ["FCFS", "SAF"]}
    assert mixed.pairs == stored.pairs
    by_clock = pl.col("metric").str.starts_with("self")
    assert mixed.table.filter(~by_clock).equals(stored.table.filter(~by_clock))
    assert mixed.jobs("saf").equals(stored.jobs(1))
    assert stored.pairs[0]["same_workload"]
    assert stored.notes == []
    verdict = stored.table.filter(pl.col("metric") == "wait_time.mean")["saf: verdict"][0]
    means = [result.summary["wait_time"]["mean"] for result in (first, other)]
    assert verdict == ("better" if means[1] < means[0] else "worse")
    assert mlsim.compare(first, other).labels == ["quickstart", "quickstart #2"]


def test_different_workloads_and_machines_are_noted(runs):
    small = {"workload.select.first": 50, "platform.nodes.0.count": 4, "batch.count_dispatch_time": True}
    other = mlsim.run(QUICKSTART, FAST | small)
    comparison = mlsim.compare(runs / "fcfs", other, labels=["all", "few"])
    workload, machine, counting = comparison.notes
    # Two of the 50 ask for more nodes than the smaller machine has.
    assert workload == "all and few have different workloads (150 only in all): 48 jobs are paired."
    assert "all 256, few 192" in machine
    assert "in few only" in counting


@pytest.mark.parametrize("labels", [["a"], ["a", "a"], ["a", ""]])
def test_labels_must_fit(runs, labels):
    with pytest.raises(InputError, match="2 runs need as many different names"):
        mlsim.compare(runs, labels=labels)


def test_one_run_is_no_comparison(runs):
    with pytest.raises(InputError, match="two runs or more; given: saf"):
        mlsim.compare(runs / "saf")
    with pytest.raises(InputError, match="two runs or more; given: none"):
        mlsim.compare()
    result = mlsim.run(QUICKSTART, FAST)
    stored = mlsim.compare(result, runs / "saf")  # a run is no other for being in memory
    assert stored.labels == ["quickstart", "saf"]


def test_a_comparison_is_written_whole(runs, tmp_path):
    comparison = mlsim.compare(runs)
    comparison.write(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"comparison.json", "table.csv", "jobs-1.parquet", "slowdown.png", "pass-time.pdf"} <= names
    assert json.loads((tmp_path / "out" / "comparison.json").read_text()) == comparison.to_dict()
    assert pl.read_parquet(tmp_path / "out" / "jobs-1.parquet").equals(comparison.jobs())
    with pytest.raises(InputError, match="already exists"):
        comparison.write(tmp_path / "out")
    with pytest.raises(InputError, match="already exists"):
        comparison.draw(tmp_path / "out")


def test_a_comparison_that_cannot_be_written_leaves_nothing(runs, tmp_path, monkeypatch):
    comparison = mlsim.compare(runs)
    monkeypatch.setattr(type(comparison), "_draw", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(OutputError, match="No space"):
        comparison.write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_scenario_is_named(runs, tmp_path):
    shutil.copytree(runs / "saf", tmp_path / "saf")
    (tmp_path / "saf" / "scenario.yaml").write_text("a: [")
    with pytest.raises(InputError, match=r"scenario\.yaml: is damaged"):
        read_run(tmp_path / "saf")
    write_manifest(tmp_path / "saf")
    with pytest.raises(InputError, match=r"scenario\.yaml:1: not valid YAML"):
        read_run(tmp_path / "saf")
