"""``mlsim workload predict`` and ``batch.predictor`` on the command line."""

from __future__ import annotations

import json

import pytest

CSV = """job_id,submit_time,run_time,walltime,processors,user,executable
1,0,100,1000,1,anna,md1
2,200,100,1000,1,anna,md2
3,400,90,1000,1,anna,md3
4,500,50,1000,1,ben,md1
"""


HALF = """
class Half:
    def predict(self, job):
        return job.walltime / 2
    def learn(self, job, run_time):
        pass
"""
SCENARIO = """
platform: {nodes: [{name: n, count: 4, cores: 1}]}
workload: {path: log.csv, mapping: core}
"""


@pytest.fixture
def log(small):
    (small / "log.csv").write_text(CSV)
    (small / "log.yaml").write_text(SCENARIO)
    return small


@pytest.mark.slow
def test_the_table_of_all_predictors(mlsim, log):
    out = mlsim("workload", "predict", "log.csv").out
    assert "4 jobs" in out
    assert "4 of unknown wait" in out
    for name in ("walltime", "actual", "D", "D2", "L2", "EASY++"):
        assert any(line.split()[:1] == [name] for line in out.splitlines())


def test_as_json(mlsim, log):
    found = json.loads(mlsim("workload", "predict", "log.csv", "-p", "d", "-p", "W", "--json").out)
    assert list(found["predictors"]) == ["D", "walltime"]
    row = found["predictors"]["D"]  # 1000, 100, 100 by the prefix, and 1000: ben is new
    assert row["mae"] == pytest.approx((900 + 0 + 10 + 950) / 4)
    assert row["within_25"] == 0.5


@pytest.mark.slow
def test_logs_are_looked_up_in_the_directory_of_logs(mlsim, log, tmp_path_factory):
    directory = tmp_path_factory.mktemp("logs")
    (log / "log.csv").rename(directory / "there.csv")
    assert "4 jobs" in mlsim("workload", "predict", "there.csv", env={"MLSIM_TRACES": str(directory)}).out


def test_what_is_not_there_is_told(mlsim, log):
    done = mlsim("workload", "predict", "log.csv", "-p", "L22")
    assert done.code == 2
    assert "did you mean" in done.err
    assert "allowed" in done.err
    done = mlsim("workload", "predict", "none.swf")
    assert done.code == 2
    assert "no such file" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(("predictor", "mae"), [("./half.py:Half", 415.0), ("D", 465.0)])
def test_a_scenario_with_a_predictor(mlsim, log, predictor, mae):
    (log / "half.py").write_text(HALF)
    done = mlsim("run", "log.yaml", "--json", "--set", f"batch.predictor={predictor}")
    assert done.code == 0, done.err
    estimates = json.loads(done.out)["estimates"]
    assert estimates["predictor"] == predictor
    assert estimates["prediction"]["mae"] == mae
    assert estimates["walltime"]["mae"] == 915.0


@pytest.mark.parametrize(
    ("predictor", "words"),
    [
        ("./other.py:Half", "there is no file 'other.py'"),
        ("./half.py:Third", "the file has: Half"),
        ("L3", "batch.predictor"),
        ("3", "batch.predictor"),
    ],
)
def test_check_finds_what_is_wrong_with_a_predictor(mlsim, log, predictor, words):
    (log / "half.py").write_text(HALF)
    done = mlsim("check", "log.yaml", "--set", f"batch.predictor={predictor}")
    assert done.code == 2
    assert words in done.err


def test_the_list_of_predictors(mlsim):
    out = mlsim("list", "predictors").out
    assert "EASY++" in out
    assert "./file.py:Class" in out
