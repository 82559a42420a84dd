"""Breakdowns, histograms, weeks and passes against counting one by one."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mlsim.analysis import breakdowns, job_metrics
from mlsim.analysis.terminal_tables import breakdown_table
from mlsim.record import Passes
from tests.reference import metrics as slow
from tests.reference.runs import Job, jobs_of, rejected

LENGTHS = (0, 1, 9, 3599, 3600, 18000, 18001, 700_000)


@st.composite
def runs(draw):
    """Jobs, and a user of each."""
    rows = []
    for submit in sorted(draw(st.lists(st.integers(0, 2_000_000), max_size=15))):
        if draw(st.integers(0, 5)) == 0:
            rows.append(rejected(submit))
            continue
        start = submit + draw(st.sampled_from((0, 0, 1, 50, 4000, 500_000)))
        end = start + draw(st.sampled_from(LENGTHS))
        size, back = draw(st.integers(1, 40)), draw(st.booleans())
        rows.append(Job(submit, start, end, size, min(size, 7), backfilled=back))
    users = draw(st.lists(st.sampled_from((-1, 3, 12)), min_size=len(rows), max_size=len(rows)))
    return rows, users


CODED = (*job_metrics.CODED, "application", "technique")


def made(rows, users=None):
    jobs = jobs_of(rows)
    if users is None:
        return jobs
    columns = {column: np.array(users, np.int64) for column in CODED}
    return replace(jobs, **columns | {"queue": np.array(users, np.int64)[::-1].copy()})


def expected_groups(rows, users, by):
    if by in CODED:
        users = users if by != "queue" else users[::-1]
        named = {id(row): user for row, user in zip(rows, users, strict=True)}
        found = slow.groups(rows, lambda row: named[id(row)])
        unknown = "none" if by == "technique" else "unknown"
        return {unknown if key < 0 else str(key): found[key] for key in sorted(found)}
    if by == "class":
        found = slow.groups(rows, slow.job_class)
        return {key: found[key] for key in ("short", "medium", "long") if key in found}
    if by == "size":
        found = slow.groups(rows, slow.size)
        return {key: found[key] for key in sorted(found, key=lambda name: int(name.split("-")[0]))}
    found = slow.groups(rows, slow.week)
    return {str(key): found.get(key, []) for key in range(min(found, default=1), max(found, default=0) + 1)}


@settings(deadline=None)
@given(runs(), st.sampled_from(job_metrics.GROUPINGS), st.integers(1, 20))
def test_breakdowns_against_the_obvious(run, by, tau):
    rows, users = run
    table = breakdowns.breakdown(made(rows, users), by, float(tau))
    groups = expected_groups(rows, users, by)
    assert table[by].to_list() == list(groups)
    for found in table.to_dicts():
        here = groups[found[by]]
        hours = sum(row.cores * (row.end - row.start) for row in here) / 3600
        assert found["jobs"] == len(here)
        assert found["share"] == pytest.approx(len(here) / max(len(slow.started(rows)), 1))
        assert found["backfilled"] == sum(row.backfilled for row in here)
        assert found["core_hours"] == pytest.approx(hours)
        for name in slow.METRICS:
            values = slow.values(here, name, tau)
            for part, value in slow.aggregate(values).items():
                assert found[f"{name}.{part}"] == pytest.approx(value, abs=1e-6), (name, part)
            assert found[f"{name}.sum"] == (pytest.approx(sum(values)) if values else None)


def test_groups_are_called_by_their_names():
    jobs = made([Job(0, 0, 1)] * 5, [3, -1, 12, 7, 3])
    names = {"user": {3: "ada", 12: "same", 13: "same"}}
    assert breakdowns.breakdown(jobs, "user", names=names)["user"].to_list() == [
        "unknown",
        "ada",
        "7",
        "same (12)",
    ]
    assert breakdowns.breakdown(jobs, "group", names=names)["group"].to_list() == ["unknown", "3", "7", "12"]


def test_long_names_cut_no_numbers_from_the_screen():
    jobs = made([Job(0, 271_234, 271_235, 9_000_000)] * 3, [3, 4, 4])
    names = {"user": {3: "a name that is far too long for the screen", 4: "of middling length"}}
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(breakdown_table(breakdowns.breakdown(jobs, "user", names=names), "user"))
    first, *rest = [line for line in console.file.getvalue().splitlines() if "27,12" in line]
    assert first.count("27,12") == len(re.findall(r"27,12\d(?!\d)", first))
    assert "a name that" in console.file.getvalue().replace("\n", " ")
    assert "of middling" in rest[0]


def test_what_the_workload_does_not_say_is_one_group():
    jobs = jobs_of([Job(0, 0, 1), Job(0, 0, 2)])
    assert breakdowns.breakdown(jobs, "qos").select("qos", "jobs").rows() == [("unknown", 2)]


@settings(deadline=None)
@given(runs(), st.sampled_from(sorted(slow.METRICS)))
def test_weeks_against_the_obvious(run, name):
    rows, _ = run
    jobs = made(rows)
    weeks = job_metrics.weekly(jobs, job_metrics.JOB_METRICS[name].values(jobs, 10.0))
    wanted = slow.weekly(rows, name, 10.0)
    assert weeks.week.tolist() == list(wanted)
    for row, number in enumerate(weeks.week.tolist()):
        for part, value in wanted[number].items():
            found = float(getattr(weeks, part)[row])
            assert found != found if value is None else found == pytest.approx(value), (number, part)
    table = breakdowns.breakdown(jobs, "week")
    for part in ("cumulative_mean", "band_low", "band_high"):
        assert table[f"{name}.{part}"].to_list() == pytest.approx([week[part] for week in wanted.values()])


@pytest.mark.parametrize("by", job_metrics.GROUPINGS)
def test_a_run_without_jobs_has_no_groups_but_all_columns(by):
    empty, full = (breakdowns.breakdown(jobs_of(rows), by) for rows in ([rejected(3)], [Job(0, 1, 2)]))
    assert empty.height == 0
    assert empty.columns == full.columns
    assert empty.schema == full.schema


@given(st.lists(st.one_of(st.just(1.0), st.just(10.0), st.just(100.0), st.floats(1, 1e9)), max_size=30))
def test_histograms_against_the_obvious(values):
    assert job_metrics.slowdown_histogram(np.array([*values, np.nan])) == slow.histogram(values)


def test_backfilled_share_is_of_the_started_jobs():
    rows = [Job(0, 0, 1, backfilled=True), Job(0, 0, 1), rejected(0)]
    assert job_metrics.backfilled_share(jobs_of(rows)) == 0.5
    assert job_metrics.backfilled_share(jobs_of([rejected(0)])) is None


def passes_of(rows):
    """Passes from (queue length, wall time)."""
    n = len(rows)
    whole = np.zeros(n, np.int64)
    lengths, seconds = (np.array([row[place] for row in rows]) for place in range(2))
    return Passes(np.arange(n) * 1.0, lengths.astype(np.int64), whole, whole, whole, seconds.astype(float))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.floats(1e-6, 1)), max_size=40), st.integers(1, 4))
def test_pass_times_by_queue_length_against_the_obvious(rows, parts):
    table = breakdowns.pass_time_by_queue_length(passes_of(rows), parts)
    assert table["passes"].sum() == len(rows)
    assert all(table["high"][:-1] < table["low"][1:]) if table.height > 1 else True
    for found in table.to_dicts():
        here = [seconds for length, seconds in rows if found["low"] <= length <= found["high"]]
        assert found["passes"] == len(here) > 0
        wanted = slow.aggregate(here)
        for part in ("mean", "median", "p90", "p99", "max"):
            assert found[part] == pytest.approx(wanted[part]), part
        if parts == 1:
            high = found["high"]
            assert high & (high - 1) == 0
            assert found["low"] == (high // 2 + 1 if high > 1 else high)


def test_queue_length_at_passes_counts_every_pass_once():
    rows = [(0, 1.0), (4, 1.0), (4, 1.0), (0, 1.0)]
    found = job_metrics.pass_metrics(passes_of(rows))
    assert found["count"] == 4
    assert (found["queue_length"]["mean"], found["queue_length"]["max"]) == (2, 4)
    assert job_metrics.pass_metrics(passes_of([])) is None
