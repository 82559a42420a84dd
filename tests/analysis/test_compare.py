"""Runs against each other, against counting one by one."""

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mlsim.analysis import summarize
from mlsim.analysis.comparison_tables import comparison_table, differences_table, pairs_table
from mlsim.analysis.run_comparison import COMPARED, compare_metrics, pair_jobs, pair_summary
from tests.reference.runs import JOBS, STAYS, Job, jobs_of, records_of, rejected


def summary(rows=JOBS, stays=STAYS):
    return summarize(records_of(rows, stays, [2, 2]), scenario="s", seed=0)


QUICKER = [
    row if row.start != row.start else row._replace(start=row.submit, end=row.submit + 10) for row in JOBS
]


def by_key(rows):
    return {row["metric"]: row for row in rows}


def test_differences_are_from_the_first_run():
    rows = by_key(compare_metrics([summary(), summary(QUICKER), summary()]))
    wait = rows["wait_time.mean"]
    assert wait["values"] == [14.5, 0.0, 14.5]
    assert wait["differences"] == [-14.5, 0.0]
    assert wait["percent"] == [-100.0, 0.0]
    assert wait["verdicts"] == ["better", "same"]


def test_more_is_better_where_more_is_better():
    rows = by_key(compare_metrics([summary(), summary(QUICKER)]))
    assert rows["throughput"]["better"] == "more"
    assert rows["throughput"]["verdicts"] == ["better"]
    assert rows["makespan"]["verdicts"] == ["better"]
    assert rows["backfilled_share"]["verdicts"] == [None]
    back = by_key(compare_metrics([summary(QUICKER), summary()]))
    assert back["throughput"]["verdicts"] == ["worse"]
    assert back["wait_time.mean"]["percent"] == [None]  # of nothing
    assert back["wait_time.mean"]["verdicts"] == ["worse"]


def scaled(first, **changes):
    """Give a summary with some of its mean wait, and pass times."""
    found = {**first, "wait_time": {**first["wait_time"]}, "self": {"pass_time": {"mean": 1e-3}}}
    found["wait_time"]["mean"] *= changes.get("wait", 1.0)
    found["self"]["pass_time"]["mean"] *= changes.get("passes", 1.0)
    return found


def test_a_small_difference_of_single_runs_is_shown_and_not_judged():
    runs = [scaled(summary(), wait=factor) for factor in (1.0, 0.991, 0.989, 1.009, 1.011, 1.0)]
    wait = by_key(compare_metrics(runs))["wait_time.mean"]
    assert wait["verdicts"] == ["similar", "better", "similar", "worse", "same"]
    assert wait["percent"][0] == pytest.approx(-0.9)
    strict = by_key(compare_metrics(runs, tolerance=0.0))["wait_time.mean"]
    assert strict["verdicts"] == ["better", "better", "worse", "worse", "same"]
    wide = by_key(compare_metrics(runs, tolerance=0.02))["wait_time.mean"]
    assert wide["verdicts"] == ["similar"] * 4 + ["same"]


def test_wall_clock_times_are_shown_and_never_judged():
    passes = by_key(compare_metrics([scaled(summary()), scaled(summary(), passes=0.1)]))[
        "self.pass_time.mean"
    ]
    assert passes["percent"] == [pytest.approx(-90)]
    assert (passes["better"], passes["verdicts"]) == (None, [None])
    judged = [metric.key for metric in COMPARED if metric.better]
    assert not [key for key in judged if key.startswith("self.")]


def test_the_table_states_its_tolerance_and_stars_what_is_as_good_as_the_best():
    runs = [scaled(summary(), wait=factor) for factor in (1.0, 0.5, 0.5025, 1.0)]
    text = screen(comparison_table(["a", "b", "c", "d"], compare_metrics(runs)))
    assert "by more than 1 %" in text
    row = next(line for line in text.splitlines() if line.startswith("mean wait"))
    assert row.count("*") == 2
    near = [scaled(summary(), wait=factor) for factor in (1.0, 0.999, 1.001)]
    assert "*" not in screen(comparison_table(["a", "b", "c"], compare_metrics(near)))
    text = screen(comparison_table(["a", "b"], compare_metrics(near[:2], 0.05), 0.05))
    assert "≈ similar" in text
    assert "by 5 % or less" in text


def test_what_a_run_lacks_has_no_difference():
    rows = by_key(compare_metrics([summary(), summary([rejected(0)], [])]))
    assert rows["makespan"]["values"][1] is None
    assert rows["makespan"]["differences"] == rows["makespan"]["verdicts"] == [None]
    assert rows["self.pass_time.mean"]["values"] == [None, None]


def test_every_compared_key_is_in_the_summary():
    found = summary()
    for metric in COMPARED:
        place = found
        for part in metric.key.split("."):
            if part == "self":
                break  # measured while a run goes on
            place = place[part]


@st.composite
def two_runs(draw):
    """Jobs of two runs: ids may be in one only, differ in size, or never start."""
    runs = []
    for _ in range(2):
        ids = sorted(draw(st.sets(st.integers(1, 8))))
        rows = []
        for job_id in ids:
            size = draw(st.sampled_from((2, 2, 2, 3)))
            start = float("nan") if draw(st.integers(0, 4)) == 0 else job_id + draw(st.integers(0, 3))
            rows.append(Job(job_id, start, start + 5, size, size, job_id=job_id))
        runs.append([Job(0, 0, 5, job_id=0), *rows])  # both have the same first submission
    return runs


@settings(deadline=None)
@given(two_runs())
def test_pairs_against_the_obvious(runs):
    first, other = ({row.job_id: row for row in rows} for rows in runs)
    both = [job for job in first if job in other]

    def run_time(row):
        return row.end - row.start if row.start >= 0 else 0

    same = [
        job
        for job in both
        if first[job].processors == other[job].processors and run_time(first[job]) == run_time(other[job])
    ]
    started = [
        job for job in same if first[job].start == first[job].start and other[job].start == other[job].start
    ]
    gains = [first[job].start - other[job].start for job in started]
    pairs = pair_jobs(*(jobs_of(rows) for rows in runs))
    found = pair_summary(pairs)
    assert found == {
        "paired": len(gains),
        "earlier": sum(gain > 0 for gain in gains),
        "later": sum(gain < 0 for gain in gains),
        "same": sum(gain == 0 for gain in gains),
        "seconds_earlier": sum(gain for gain in gains if gain > 0),
        "seconds_later": sum(-gain for gain in gains if gain < 0),
        "mean_earlier": pytest.approx(np.mean(gains)),
        "only_in_first": len(first) - len(both),
        "only_in_other": len(other) - len(both),
        "changed": len(both) - len(same),
        "started_in_one": 0,  # the builder's run time in the workload is 0 for a job that never starts
        "same_workload": first.keys() == other.keys() and both == same,
    }
    assert pairs.filter("in_first")["job_id"].to_list() == list(first)
    assert dict(zip(pairs["job_id"], pairs["same_job"], strict=True)) == {
        job: job in same for job in {**first, **other}
    }


def test_a_job_that_starts_in_one_run_only_is_not_paired():
    jobs = jobs_of([Job(0, 0, 5), Job(0, 0, 5)])
    never = replace(jobs, start_time=np.array([0, np.nan]), end_time=np.array([5, np.nan]))
    found = pair_summary(pair_jobs(jobs, never))
    assert (found["paired"], found["started_in_one"], found["same_workload"]) == (1, 1, True)


def test_submissions_count_from_the_first_of_the_run():
    early, late = ([Job(t, t + 1, t + 2), Job(t + 9, t + 9, t + 10)] for t in (0, 100))
    found = pair_summary(pair_jobs(jobs_of(early), jobs_of(late)))
    assert (found["paired"], found["same"]) == (2, 2)


def test_jobs_of_one_identifier_are_paired_in_order():
    rows = [Job(0, 0, 5, job_id=7), Job(1, 3, 8, job_id=7)]
    sooner = [rows[0], rows[1]._replace(start=2, end=7)]
    assert pair_jobs(jobs_of(rows), jobs_of(sooner))["earlier"].to_list() == [0, 1]


def test_pairs_do_not_count_the_dispatchers_time():
    jobs = jobs_of([Job(0, 3, 5)])
    counting = replace(jobs, dispatch_time=np.array([0.5]))
    assert pair_jobs(jobs, counting)["earlier"].to_list() == [0]


def screen(block, width=80):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(block)
    return console.file.getvalue()


def test_tables_of_two_runs():
    text = screen(comparison_table(["slow", "quick"], compare_metrics([summary(), summary(QUICKER)])))
    assert "mean wait" in text
    assert "▲ better" in text
    assert "-14.5 s" in text
    assert "…" not in text
    assert "all runs" not in text


def test_tables_of_many_runs_show_the_best_of_all():
    labels = [f"a-run-with-a-long-name-{number}" for number in range(6)]
    found = [summary()] * 5 + [summary(QUICKER)]
    text = screen(comparison_table(labels, compare_metrics(found)))
    assert text.count("all runs") >= 2, "six runs do not fit beside each other"
    assert text.count("against the first") >= 5
    assert "0 s *" in text
    assert "14.5 s *" not in text
    assert "…" not in text


def test_table_of_pairs():
    first, other = jobs_of(JOBS), jobs_of([JOBS[0], JOBS[1]._replace(start=0, end=20), *JOBS[2:]])
    text = screen(pairs_table(["first", "other"], [pair_summary(pair_jobs(first, other))]))
    assert "than in first" in text
    assert "other" in text


def test_scenarios_that_differ_in_everything_are_not_laid_out():
    assert "policy" in screen(differences_table(["a", "b"], {"batch.policy": ["FCFS", None]}))
    many = {f"key.{number}": [1, 2] for number in range(40)}
    assert "differ in 40 keys" in screen(differences_table(["a", "b"], many))
