"""Judges of schedules: correct ones of any features are blamed for nothing, planted faults are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.scenario import Policy
from mlsim.verify.plain_schedules import WARNING, Findings, PlainSchedule, judge_plain
from mlsim.verify.rule_walk import Reading, Rule, judge_rule
from mlsim.verify.run_schedule import Schedule, obstacles, schedule_of_run
from tests.effort import examples

Row = tuple[float, float | None, float | None, int, float]
"""Submit time, start, end, units, walltime."""
RULES = {"none": "fcfs", "easy": "easy", "conservative": "conservative"}


def plain(rows: list[Row], units: int = 4, **more: Any) -> PlainSchedule:
    """Return a schedule of jobs 1, 2, ..."""
    submit, start, end, wide, walltime = (
        np.array([np.nan if value is None else value for value in column], float)
        for column in zip(*rows, strict=True)
    )
    names = [str(number) for number in range(1, len(rows) + 1)]
    duration = np.full(len(rows), np.nan)
    columns = (submit, submit, start, end, wide.astype(np.int64), walltime, duration)
    return replace(PlainSchedule(names, *columns, units, np.arange(len(rows))), **more)


def judged(schedule: PlainSchedule, rule: str, **more: Any) -> tuple[Findings, Reading]:
    found = Findings()
    judge_plain(schedule, found)
    by_rule, reading = judge_rule(schedule, Rule(rule, **more))
    found.join(by_rule)
    return found, reading


def only(schedule: PlainSchedule, rule: str, **more: Any) -> tuple[str, float, tuple[str, ...], str]:
    """Return the only finding."""
    found, _ = judged(schedule, rule, **more)
    (one,) = found.described
    return one.kind, one.time, one.jobs, one.text


# Correct schedules of our own


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[tuple[int, int, int, int]], dict[str, Any], str, int, int]:
    units = draw(st.integers(1, 8))
    times = st.sampled_from(draw(st.sampled_from([range(12), range(60), range(0, 60, 10)])))
    estimates = draw(st.sampled_from(["exact", "over", "under"]))
    rows = []
    for _ in range(draw(st.integers(2, 14))):
        run = draw(times)
        more = {"exact": 0, "over": draw(st.integers(0, 30)), "under": draw(st.integers(-10, 10))}[estimates]
        rows.append((draw(times), run, max(1, run + more), draw(st.integers(1, units))))
    backfill = draw(st.sampled_from(sorted(RULES)))
    keys: dict[str, Any] = {
        "batch.backfill": backfill,
        "batch.policy": draw(st.sampled_from(["FCFS", "FCFS", "SPF", "LPF", "SQF", "SAF", "LCFS"])),
        "batch.on_overrun": draw(st.sampled_from(["kill", "extend"])),
        "batch.ties": draw(st.sampled_from(["drained", "drained", "per-event", "ends-first"])),
    }
    reservations = draw(st.sampled_from([1, 1, 2, 4])) if backfill == "easy" else 1
    if backfill == "easy":
        keys["batch.reservations"] = reservations
    if backfill == "conservative" and draw(st.booleans()):
        keys["batch.compression"] = "one-round"
    if draw(st.booleans()):
        keys["workload.dependencies"] = True
    return rows, keys, RULES[backfill], reservations, units


def run_of(rows: list[tuple[int, int, int, int]], keys: dict[str, Any], units: int, seed: int) -> Any:
    columns = ("submit_time", "run_time", "estimate", "processors")
    jobs = {name: [row[k] for row in rows] for k, name in enumerate(columns)}
    jobs["job_id"] = list(range(1, len(rows) + 1))
    if "workload.dependencies" in keys:
        rng = np.random.default_rng(seed)
        before = [
            int(rng.integers(1, job)) if job > 1 and rng.random() < 0.3 else -1 for job in jobs["job_id"]
        ]
        jobs |= {"preceding_job": before, "think_time": rng.integers(0, 5, len(rows)).tolist()}
    with TemporaryDirectory() as directory:
        path = Path(directory) / "jobs.csv"
        pl.DataFrame(jobs).write_csv(path)
        nodes = [{"name": "n", "count": units, "cores": 1}]
        base = {"platform": {"nodes": nodes}, "workload": {"path": str(path), "mapping": "node"}}
        return mlsim.run(base, keys)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(400))
@given(workloads(), st.integers(0, 99))
def test_what_mlsim_schedules_is_right(case, seed: int) -> None:
    rows, keys, rule, reservations, units = case
    run = run_of(rows, keys, units, seed)
    assume(not any(obstacles(Schedule(run.records, run.scenario), rule)))
    schedule = schedule_of_run(Schedule(run.records, run.scenario))
    more = {"policy": Policy(keys["batch.policy"]), "reservations": reservations}
    found, reading = judged(schedule, rule, **more)
    assert not found.counts, (found.described, reading)
    if keys["batch.ties"] == "drained":
        assert reading.events == "together"


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(150))
@given(workloads(), st.integers(0, 13), st.sampled_from([-1.0, 1.0]))
def test_a_start_moved_by_a_second_is_found(case, job: int, by: float) -> None:
    rows, keys, rule, reservations, units = case
    keys = {**keys, "batch.ties": "drained"}
    keys.pop("workload.dependencies", None)
    run = run_of(rows, keys, units, 0)
    schedule = schedule_of_run(Schedule(run.records, run.scenario))
    job %= len(rows)
    start, end = schedule.start.copy(), schedule.end.copy()
    start[job] += by
    end[job] += by
    moved = replace(schedule, start=start, end=end)
    policy = Policy(keys["batch.policy"])
    found, reading = judged(moved, rule, policy=policy, reservations=reservations)
    if (
        not found.counts
    ):  # it is another right schedule: under another reading, or a job that stood in nobody's way
        default, _ = Findings(), None
        from mlsim.verify.rule_walk import RuleWalk

        RuleWalk(moved, Rule(rule, policy, reservations), Reading.of(Rule(rule)), default).walk()
        assert default.counts or rule == "conservative" or (by < 0 and rule == "easy"), reading


# What rules leave open


def test_equal_submit_times_may_go_in_any_order() -> None:
    found, reading = judged(plain([(0, 10, 20, 4, 10), (0, 0, 10, 4, 10)]), "fcfs")
    assert not found.counts
    assert reading.ties == "start"


def test_an_end_and_a_start_of_one_time_do_not_overlap() -> None:
    found, _ = judged(plain([(0, 0, 10, 4, 10), (10, 10, 10, 4, 5), (10, 10, 20, 4, 10)]), "easy")
    assert not found.counts


def test_times_that_files_round_count_as_equal() -> None:
    rows: list[Row] = [(0, 0.0, 10.000001, 4, 10.0), (1, 10.0, 20.0, 4, 10.0)]
    assert not judged(plain(rows), "easy")[0].counts
    rows = [(0, 0.0, 10.1, 4, 10.0), (1, 10.0, 20.0, 4, 10.0)]
    assert judged(plain(rows), "easy")[0].counts["capacity"] == 1


def test_a_job_that_left_the_queue_had_its_place_until_then() -> None:
    """The head is withdrawn at 5 s, and only then the jobs behind it may start."""
    rows: list[Row] = [(0, 0, 10, 3, 10), (1, None, 5, 4, 10), (2, 5, 55, 1, 50)]
    for rule in ("fcfs", "easy", "conservative"):
        assert not judged(plain(rows), rule)[0].counts, rule
    rows[2] = (2, 4, 54, 1, 50)
    assert only(plain(rows), "fcfs")[:3] == ("order", 4.0, ("3", "2"))
    assert only(plain(rows), "easy")[:3] == ("reservation", 4.0, ("3", "2"))
    assert only(plain(rows), "conservative")[:3] == ("promise", 4.0, ("3", "2"))


def test_a_job_that_was_rejected_holds_up_nothing() -> None:
    rows: list[Row] = [(0, 0, 10, 3, 10), (1, None, None, 9, 10), (2, 2, 52, 1, 50)]
    for rule in ("fcfs", "easy", "conservative"):
        assert not judged(plain(rows), rule)[0].counts, rule


def test_a_reservation_may_be_kept_as_it_was_made() -> None:
    """Job 1 ends early, and job 4 goes by the reservation that job 3 had before."""
    rows: list[Row] = [(0, 0, 5, 2, 10), (0, 0, 7, 1, 7), (1, 10, 20, 4, 10), (6, 6, 10, 1, 4)]
    found, reading = judged(plain(rows), "easy")
    assert not found.counts
    assert reading.reservations == "kept"


def test_promises_may_stay_where_they_were_made() -> None:
    """Without compression job 2 starts at 10 s, although job 1 ends at 5 s."""
    rows: list[Row] = [(0, 0, 5, 4, 10), (1, 10, 20, 4, 10)]
    found, reading = judged(plain(rows), "conservative")
    assert not found.faults
    assert found.counts[WARNING] == 1
    assert reading.reservations == "kept"
    rows[1] = (1, 11, 21, 4, 10)
    assert judged(plain(rows), "conservative")[0].counts["promise"] == 1


def test_a_scheduler_that_acts_at_intervals_is_late() -> None:
    rows: list[Row] = [(0, 0, 10, 4, 10), (1, 29, 39, 4, 10)]
    assert only(plain(rows), "easy")[:3] == ("late", 10.0, ("2",))
    assert not judged(plain(rows), "easy", delay=30.0)[0].counts
    assert not judged(plain(rows), "conservative", delay=30.0)[0].counts


def test_machine_wide_amounts_are_reserved_too() -> None:
    """Job 2 waits for a licence that job 1 holds until 10 s; job 3 would take it, and job 4 needs none."""
    rows: list[Row] = [(0, 0, 10, 1, 10), (1, 10, 20, 1, 10), (2, 20, 40, 1, 20), (3, 3, 43, 1, 40)]
    licences = {"shares": np.array([[1], [1], [1], [0]]), "shared": {"licence": 1}}
    for rule in ("easy", "conservative"):
        assert not judged(plain(rows, **licences), rule)[0].counts, rule
        assert judged(plain(rows), rule)[0].counts, rule
    rows = [(0, 0, 10, 1, 10), (1, 20, 30, 1, 10), (2, 2, 12, 1, 10)]
    licences = {"shares": np.array([[1], [2], [1]]), "shared": {"licence": 2}}
    words = (
        "job 3 starts at 2 s on 1 units and 1 licence, expected until 12 s, and delays job 2, which needs "
    )
    words += "1 units and 2 licence and has a reservation at 10 s: it would start at 12 s (easy)"
    found, _ = judged(plain(rows, **licences), "easy")
    assert [one.text for one in found.described if one.kind == "reservation"] == [words]


def test_passes_at_intervals_see_what_happened_since() -> None:
    """Job 1 ends at 13 s; at the pass at 20 s job 3, the shorter one, has come, and goes first."""
    rows: list[Row] = [(0, 0, 13, 4, 20), (1, 30, 40, 4, 10), (15, 20, 25, 4, 5)]
    shortest = {"policy": Policy.SPF}
    for rule in ("fcfs", "easy"):
        assert not judged(plain(rows), rule, **shortest, interval=10.0)[0].counts, rule
        assert judged(plain(rows), rule, **shortest)[0].faults, rule


def test_a_job_without_length_needs_room() -> None:
    rows: list[Row] = [(0, 0, 10, 4, 10), (5, 5, 5, 1, 1)]
    assert only(plain(rows), "none")[:3] == ("capacity", 5.0, ("2",))


def test_a_fault_is_told_in_the_usual_reading() -> None:
    """No reading explains two jobs that overtake: the usual one is kept."""
    rows: list[Row] = [(0, 0, 10, 3, 10), (1, 30, 40, 4, 10), (2, 2, 30, 1, 28), (3, 40, 45, 4, 5)]
    found, reading = judged(plain(rows), "fcfs")
    assert (found.faults, reading) == (1, Reading())


def test_a_withdrawn_job_of_a_run_had_its_reservation() -> None:
    rows = [(0, 50, 50, 3), (1, -1, 10, 4), (2, 40, 80, 1)]
    columns = ("submit_time", "run_time", "walltime", "processors")
    jobs = {name: [row[k] for row in rows] for k, name in enumerate(columns)}
    jobs |= {"job_id": [1, 2, 3], "withdraw_time": [-1, 20, -1]}
    nodes = [{"name": "n", "count": 4, "cores": 2}]
    for mapping, each in (("node", 1), ("packed", 2), ("core", 2)):
        jobs["processors"] = [row[3] * each for row in rows]
        keys = {"workload.mapping": mapping, "workload.never_ran": "withdraw", "batch.backfill": "easy"}
        run = mlsim.run({"platform": {"nodes": nodes}}, keys, workload=pl.DataFrame(jobs))
        assert run.jobs["start_time"].to_list() == [0.0, None, 20.0]
        schedule = schedule_of_run(Schedule(run.records, run.scenario))
        for rule in RULES.values():
            assert not judged(schedule, rule)[0].counts, (mapping, rule)


def test_policies_count_processors_where_units_are_nodes() -> None:
    """By area, job 2 (3 processors) goes before job 3 (4), and both need two nodes."""
    rows = [(0, 10, 10, 4), (1, 10, 10, 3), (2, 8, 8, 4)]
    jobs = {name: [row[k] for row in rows] for k, name in enumerate(("submit_time", "run_time", "walltime"))}
    jobs |= {"job_id": [1, 2, 3], "processors": [row[3] for row in rows]}
    nodes = {"platform": {"nodes": [{"name": "n", "count": 2, "cores": 2}]}}
    keys = {"workload.mapping": "packed", "batch.policy": "SAF", "batch.backfill": "easy"}
    run = mlsim.run(nodes, keys, workload=pl.DataFrame(jobs))
    assert run.jobs["start_time"].to_list() == [0.0, 10.0, 20.0]
    schedule = schedule_of_run(Schedule(run.records, run.scenario))
    assert not judged(schedule, "easy", policy=Policy.SAF)[0].counts


# Planted faults, one of each kind


@pytest.mark.parametrize(
    ("rows", "rule", "kind", "time", "jobs", "words"),
    [
        (
            [(5, 4, 14, 4, 10)],
            *("fcfs", "submission", 4, ("1",), "job 1 starts at 4 s, before its submission at 5 s"),
        ),
        ([(0, 5, 4, 4, 10)], *("none", "times", 5, ("1",), "job 1 starts at 5 s and ends at 4 s")),
        (
            [(0, 0, 10, 3, 10), (1, 1, 5, 2, 9)],
            *("none", "capacity", 1, ("2",)),
            "job 2 starts at 1 s on 2 units beside job 1; then 5 units are held, and there are 4",
        ),
        (
            [(0, 0, 10, 3, 10), (1, 10, 20, 4, 10), (2, 2, 9, 1, 10)],
            *("fcfs", "order", 2, ("3", "2")),
            "job 3 starts at 2 s ahead of job 2, which waits since 1 s and starts at 10 s (fcfs: in order)",
        ),
        (
            [(0, 0, 10, 3, 10), (1, 10, 20, 4, 10), (2, 2, 9, 1, 9)],
            *("easy", "reservation", 2, ("3", "2")),
            "job 3 starts at 2 s on 1 units, expected until 11 s, and delays job 2, which needs 4 units and "
            "has a reservation at 10 s: it would start at 11 s (easy)",
        ),
        (
            [(0, 0, 10, 3, 10), (1, 10, 20, 3, 10), (2, 43, 63, 4, 20), (3, 3, 43, 1, 40)],
            *("conservative", "promise", 3, ("4", "3")),
            "job 4 starts at 3 s on 1 units, expected until 43 s, and delays job 3, which needs 4 units and "
            "has a reservation at 20 s: it would start at 43 s (conservative)",
        ),
        (
            [(0, 0, 10, 4, 10), (1, 11, 20, 4, 10)],
            *("easy", "late", 10, ("2",)),
            "job 2 could start at 10 s: it needs 4 units, 4 are free, and it is the first of the queue; it "
            "starts at 11 s (easy)",
        ),
        (
            [(0, 0, 10, 4, 10), (1, 11, 20, 4, 10)],
            *("conservative", "promise", 10, ("2",)),
            "job 2 could start at 10 s: it needs 4 units, 4 are free, and it has a reservation at 10 s; it "
            "starts at 11 s (conservative)",
        ),
        (
            [(0, 0, 10, 3, 10), (1, 10, 20, 4, 10), (2, 20, 25, 1, 5)],
            *("easy", "idle", 2, ("3",)),
            "job 3 could start at 2 s: it needs 1 units, 1 are free, and it would delay no reservation; it "
            "starts at 20 s (easy)",
        ),
        (
            [(0, 0, 10, 3, 10), (1, 2, 9, 1, 7)],
            *("none", "idle", 1, ("2",)),
            "job 2 could start at 1 s: it needs 1 units, 1 are free, and it would delay no reservation; it "
            "starts at 2 s (none)",
        ),
    ],
)
def test_a_fault_names_jobs_time_and_rule(
    rows: list[Row], rule: str, kind: str, time: float, jobs: tuple[str, ...], words: str
) -> None:
    assert only(plain(rows), rule) == (kind, time, jobs, words)


def test_a_run_time_that_differs_is_a_fault() -> None:
    schedule = plain([(0, 0, 10, 4, 20)], duration=np.array([9.0]))
    words = "job 1 starts at 0 s and runs for 10 s, until 10 s; by its run time and walltime it runs for 9 s"
    assert only(schedule, "fcfs") == ("run_time", 0.0, ("1",), words)


def test_a_node_that_two_jobs_hold_is_a_fault() -> None:
    rows: list[Row] = [(0, 0, 10, 1, 10), (0, 0, 10, 1, 10), (10, 10, 10, 1, 1), (10, 10, 20, 1, 10)]
    stays = (np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1]))
    schedule = plain(rows, stays=stays, nodes=("a", "b"))
    words = "job 2 starts at 0 s on node a, which has no room for it beside job 1"
    assert only(schedule, "fcfs") == ("node", 0.0, ("2",), words)
    assert not judged(replace(schedule, node_share=np.full(4, 0.5)), "fcfs")[0].counts
    assert judged(replace(schedule, node_share=np.full(4, 0.6)), "fcfs")[0].counts["node"] == 1


def test_many_findings_are_counted_and_some_described() -> None:
    rows: list[Row] = [(0, float(k), k + 1.0, 4, 1) for k in range(0, 200, 2)]
    found, _ = judge_rule(plain(rows), Rule("fcfs"), limit=3)
    assert found.counts["late"] == 99
    assert len(found.described) == 3


SWAPPED = [
    (rule, first, second)
    for rule in ("fcfs", "easy", "conservative")
    for first in range(9)
    for second in range(first + 1, 10)
]


def test_each_swap_of_two_jobs_is_found() -> None:
    """Ten jobs of different widths and run times: no two may change their places."""
    rows = [(k, 20 + 3 * k, 25 + 4 * k, 1 + (3 * k) % 4) for k in range(10)]
    for backfill, rule in RULES.items():
        run = run_of(rows, {"batch.backfill": backfill}, 4, 0)
        schedule = schedule_of_run(Schedule(run.records, run.scenario))
        assert not judged(schedule, rule)[0].counts
        for _, first, second in (each for each in SWAPPED if each[0] == rule):
            start = schedule.start.copy()
            if start[first] == start[second]:
                continue
            start[[first, second]] = start[[second, first]]
            swapped = replace(schedule, start=start, end=start + (schedule.end - schedule.start))
            assert judged(swapped, rule)[0].faults, (rule, first, second)
