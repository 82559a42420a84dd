"""Weeks simulated alone: the same as a run of each, and as the source's table."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.analysis.job_metrics import JOB_METRICS
from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from mlsim.experiment.study.axes import week_axis
from mlsim.experiment.weekly_runs import WEEKLY_AGGREGATES, empty_weekly, run_weekly
from mlsim.scenario import from_mapping
from mlsim.workload import generate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.swf"
    generate("lublin", days=35, processors=32, load=0.9, seed=4, estimates="tsafrir").write(path)
    return path


def mapping(log, **batch):
    return {
        "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
        "workload": {
            "path": str(log),
            "mapping": "node",
            "weeks": {"begin": "Monday", "crossing": "remove"},
            "select": {"weeks": "0-3"},
        },
        "batch": {"policy": "SAF", "backfill": "easy", **batch},
    }


@pytest.mark.parametrize(
    "batch", [{}, {"policy": "WFP", "threshold": "20 h"}, {"policy": "F3", "on_overrun": "kill"}]
)
def test_weeks_in_one_call_are_runs_of_each(log, batch):
    summary = run_weekly(from_mapping(mapping(log, **batch)))
    runs = [mlsim.run(mapping(log, **batch), keys).summary for keys in week_axis(range(4)).points.values()]
    assert summary["weeks"]["count"] == 4
    assert summary["weeks"]["jobs"] == sum(run["jobs"]["submitted"] for run in runs)
    for key in JOB_METRICS:
        assert summary[key]["sum"] == pytest.approx(sum(run[key]["mean"] for run in runs), rel=1e-12)
    backfilled = [run["jobs"]["backfilled"] for run in runs]
    assert summary["backfilled"]["sum"] == sum(backfilled)
    assert summary["backfilled"]["max"] == max(backfilled)


def test_the_load_is_scaled_within_the_weeks_of_the_log(log):
    keys = {"workload.select.scale_load": 1.5}
    scaled = run_weekly(from_mapping(mapping(log), overrides=keys))
    runs = [mlsim.run(mapping(log), keys | week).summary for week in week_axis(range(4)).points.values()]
    assert scaled["weeks"]["jobs"] == sum(run["jobs"]["submitted"] for run in runs)
    assert scaled["wait_time"]["sum"] == pytest.approx(
        sum(run["wait_time"]["mean"] for run in runs), rel=1e-9
    )


def test_the_summary_of_no_weeks_has_the_keys_of_any(log):
    found, nothing = run_weekly(from_mapping(mapping(log))), empty_weekly()
    assert {key: set(part) for key, part in found.items() if isinstance(part, dict)} == {
        key: set(part) for key, part in nothing.items() if isinstance(part, dict)
    }
    assert set(found["slowdown"]) == set(WEEKLY_AGGREGATES)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"workload.weeks": None}, "workload.weeks: missing"),
        ({"batch.policy": "fairshare"}, "fairshare"),
        ({"workload.select.first": 3}, "workload.select.first"),
        ({"batch.predictor": "D"}, "batch.predictor"),
        ({"workload.mapping": "packed", "platform.nodes.0.cores": 2}, "mapping: core or node"),
    ],
)
def test_what_cannot_be_simulated_in_weeks_is_refused(log, keys, message):
    with pytest.raises(InputError, match=message):
        run_weekly(from_mapping(mapping(log), overrides={"workload.select.weeks": None} | keys))


STUDY = """
of: weeks
base: base.yaml
vary:
  batch.policy: [FCFS, SAF]
  workload.weeks.phase: [0 h, 84 h]
repetitions: phase
columns: policy
metrics: {bounded slowdown: bounded_slowdown.sum, weeks: weeks.count}
"""


def test_a_study_of_weeks_has_a_band_over_phases(log, tmp_path):
    from mlsim.scenario import dump

    (tmp_path / "base.yaml").write_text(dump(from_mapping(mapping(log))))
    (tmp_path / "study.yaml").write_text(STUDY)
    rows = run_study(load_study(tmp_path / "study.yaml"), out=tmp_path / "out", jobs=1)
    assert [row.labels["policy"] for row in rows] == ["FCFS", "FCFS", "SAF", "SAF"]
    values = np.array([row.metrics["bounded slowdown"] for row in rows])
    assert np.all(values >= 4)
    assert values[0] != values[1]
    alone = run_weekly(from_mapping(mapping(log)))
    assert values[2] == alone["bounded_slowdown"]["sum"]
    assert "| SAF | 2 |" in (tmp_path / "out" / "statistics.md").read_text()


TABLE = {  # Zrigui 2021, Table 5.1 (train, test), as this reading of the protocol gives it
    "SAF": (679, 710),
    "SPF": (718, 716),
    "SQF": (934, 854),
    "FCFS": (1173, 1447),
}


@pytest.mark.logs
@pytest.mark.parametrize("policy", TABLE)
def test_table_5_1_of_the_source(policy, logs_dir, monkeypatch):
    monkeypatch.setenv("MLSIM_TRACES", str(logs_dir))
    for weeks, expected in zip(("28-64", "65-100"), TABLE[policy], strict=True):
        keys = {"batch.policy": policy, "workload.select.weeks": weeks}
        scenario = mlsim.scenario.load("scenarios/studies/policies/sdsc-sp2.yaml", keys)
        assert run_weekly(scenario)["bounded_slowdown"]["sum"] == pytest.approx(expected, abs=0.5)


def test_a_reading_is_selected_on_one_log_and_tested_on_the_others(capsys):
    """The selected reading is the nearest one on its own log; its checks are those of the other logs."""
    readings = runpy.run_path(str(ROOT / "scenarios/studies/policies/readings.py"))
    rows = [
        {"log": log, "processors": size, "overruns": overruns, "by": "start", "crossing": "keep"}
        | {"phase": phase, "policy": policy, "part": "all", "sum": 100.0 * factor, "source": 100.0}
        for log, size, factors in (("A", 10, (1.0, 2.0)), ("B", 10, (1.5, 1.1)), ("KTH-SP2", 100, (3.0, 4.0)))
        for overruns, factor in zip(("drop", "clamp"), factors, strict=True)
        for phase in (0.0, 12.0)
        for policy in ("SAF", "FCFS")
    ]
    with pl.Config(tbl_rows=-1, tbl_cols=-1, float_precision=2):
        readings["report"](pl.DataFrame(rows))
    told = capsys.readouterr().out
    of_a = told[told.index("selected on A: drop") : told.index("selected on B: clamp")]
    assert re.findall(r"│ (\S+) +┆ ([\d.]+) +┆ ([\d.]+) +│", of_a) == [
        ("A", "1.00", "0.00"),
        ("B", "1.50", "50.00"),
        ("KTH-SP2", "3.00", "200.00"),
    ]
    assert set(readings["sources"]()) == {"Table 5.1", *readings["LOGS"]}
    assert all(len(numbers) in (12, 22) for numbers in readings["sources"]().values())


@pytest.mark.logs
def test_a_reading_that_other_logs_select_is_held_out(logs_dir, monkeypatch):
    """The source has 487 and 358 under FCFS: sums are near without overruns, twice as high with them."""
    monkeypatch.setenv("MLSIM_TRACES", str(logs_dir))
    readings = runpy.run_path(str(ROOT / "scenarios/studies/policies/readings.py"))
    for log, left_out, raised in (("SDSC-BLUE", 554.6, 1117.2), ("CTC-SP2", 401.8, 910.9)):
        for reading, expected in (
            (("drop", "start", "keep"), left_out),
            (("clamp", "start", "remove"), raised),
        ):
            rows = readings["simulated"](log, reading, 0.0, readings["LOGS"][log][1])
            found = {row["policy"]: row["sum"] for row in rows}
            assert found["FCFS"] == pytest.approx(expected, abs=0.5)
