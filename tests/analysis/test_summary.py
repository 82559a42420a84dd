import io
import json

import numpy as np
import pytest
from rich.console import Console

from mlsim.analysis import summarize
from mlsim.analysis.run_summary import json_safe
from mlsim.analysis.terminal_tables import summary_table
from tests.reference.runs import JOBS, STAYS, loops_of, records_of, rejected

AGGREGATE = {"mean", "std", "median", "p90", "p99", "max"}
LOOPS = [
    {
        "job": 1,
        "steps": 7,
        "t_loop": 19,
        "mean_finish": 15,
        "max_finish": 18,
        "busy": 50,
        "overhead": 3,
        "idle": 7,
    }
]


def run(**tables):
    return records_of(JOBS, STAYS, [2, 2], **tables)


def screen(summary, width=80):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(summary_table(summary))
    return console.file.getvalue()


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def test_the_summary_has_the_promised_keys():
    summary = summarize(run(), scenario="demo", seed=3, technique="GSS", measured={"wall_time": 1.5})
    assert summary["schema_version"] == 1
    assert (summary["scenario"], summary["seed"], summary["technique"]) == ("demo", 3, "GSS")
    assert set(summary["jobs"]) == {"submitted", "completed", "killed", "failed", "rejected", "backfilled"}
    for name in ("wait_time", "response_time", "slowdown", "bounded_slowdown"):
        assert set(summary[name]) >= AGGREGATE
    assert set(summary["queue_length"]) == AGGREGATE
    assert set(summary["utilization"]) == {"busy", "allocated"}
    assert summary["makespan"] == 34
    assert summary["self"] == {"wall_time": 1.5}
    assert set(summary["loops"]) >= {"count", "t_loop", "cov", "imbalance", "max_over_mean", "overhead"}
    assert set(summary["coordination"]) >= {"messages", "releases", "released_node_seconds"}


def test_values_of_a_small_run():
    summary = summarize(run(), scenario="demo", seed=3)
    assert summary["wait_time"]["mean"] == pytest.approx((0 + 10 + 25 + 23) / 4)
    assert summary["slowdown"]["undefined"] == 1
    assert summary["slowdown"]["max"] == 29 / 4
    assert summary["bounded_slowdown"]["max"] == 2.9
    assert summarize(run(), scenario="demo", seed=3, tau=1.0)["bounded_slowdown"]["max"] == 23


@pytest.mark.parametrize("records", [records_of(), records_of([rejected(0), rejected(5)]), run()])
def test_the_summary_is_strict_json(records):
    summary = summarize(records, scenario="demo", seed=0)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_run_without_jobs_has_no_numbers_but_counts():
    summary = summarize(records_of(), scenario="demo", seed=0)
    for name in ("wait_time", "slowdown", "queue_length", "utilization"):
        assert set(leaves({key: value for key, value in summary[name].items() if key != "undefined"})) == {
            None
        }
    assert summary["makespan"] is None
    assert summary["throughput"] is None
    assert set(summary["jobs"].values()) == {0}


def test_json_safe_replaces_what_json_cannot_hold():
    value = {"a": [float("nan"), np.float64("inf"), np.int64(3)], "b": np.array([1.0, np.nan]), "c": "x"}
    assert json_safe(value) == {"a": [None, None, 3], "b": [1.0, None], "c": "x"}


def test_the_report_fits_one_screen_and_cuts_nothing_off():
    summary = summarize(run(loops=loops_of(LOOPS)), scenario="demo", seed=3, technique="GSS")
    text = screen(summary)
    assert text.count("\n") <= 35
    assert "…" not in text
    for words in (
        "5 submitted",
        "1 rejected",
        "34 s",
        "54.4 % busy",
        "max/mean",
        "1 node released early by 1 job",
    ):
        assert words in text


def test_blocks_appear_only_where_there_is_something():
    text = screen(summarize(records_of(JOBS, STAYS[:1], [2, 2]), scenario="demo", seed=3))
    assert "loop" not in text
    assert "coordination" not in text
    assert "wait time" in text


def test_an_empty_run_can_be_reported():
    assert "0 submitted" in screen(summarize(records_of(), scenario="demo", seed=0))
