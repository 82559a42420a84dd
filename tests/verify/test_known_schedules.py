"""Known schedules: right by the slow reference, the same in every form, and as mlsim schedules them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mlsim.cli.known_schedules import DIRECTORY
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario import Policy
from mlsim.verify.known_schedules import KnownSchedule, read_case, read_known
from mlsim.verify.plain_schedules import WARNING, Findings, PlainSchedule, judge_plain
from mlsim.verify.rule_walk import Rule, judge_rule
from mlsim.verify.schedule_files import Machine, read_schedule, read_workload
from tests.verify.known import reference_starts
from tools import known_schedules

CASES = read_known(DIRECTORY)
JUDGED = [
    (case, rule)
    for case in CASES
    if "platform.drains" not in case.keys  # a plain schedule does not tell of drains
    for rule in case.starts
    if rule != "greedy"
]


def verify(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", *map(str, words)], catch_exceptions=False)
    return done.exit_code, done.stdout


def schedule_of(case: KnownSchedule, rule: str, directory: Path) -> PlainSchedule:
    case.write(directory)
    return read_schedule(directory / f"{case.name}.{rule}.csv", Machine(case.units))


def judged(schedule: PlainSchedule, case: KnownSchedule, rule: str) -> Findings:
    found = Findings(50)
    judge_plain(schedule, found)
    policy = Policy(case.keys.get("batch.policy", "FCFS"))
    found.join(judge_rule(schedule, Rule(rule, policy, case.keys.get("batch.reservations", 1)))[0])
    return found


def moved(schedule: PlainSchedule, job: int, by: float) -> PlainSchedule:
    start, end = schedule.start.copy(), schedule.end.copy()
    start[job] += by
    end[job] += by
    return replace(schedule, start=start, end=end)


def test_there_are_cases_enough_and_each_says_what_it_asks() -> None:
    assert 30 <= len(CASES) <= 50
    assert len({case.question for case in CASES}) == len(CASES)
    for case in CASES:
        assert 2 <= len(case.jobs) <= 30
        assert case.question.endswith("?")
        assert len([text for text in case.text.split(". ") if text]) == 2, case.name
        assert "reference" in case.derived


def test_page_and_picture_are_those_of_the_declarations() -> None:
    again = "python tools/known_schedules.py writes them"
    assert known_schedules.page(CASES) == known_schedules.PAGE.read_text(encoding="utf-8"), again
    assert known_schedules.picture(CASES) == known_schedules.PICTURE.read_text(encoding="utf-8"), again


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_slow_reference_starts_jobs_as_is_known(case: KnownSchedule) -> None:
    for rule, starts in case.starts.items():
        assert reference_starts(case.units, case.jobs, rule, case.keys, case.after) == starts, rule


@pytest.mark.slow
def test_mlsim_starts_jobs_as_is_known() -> None:
    schedules = sum(len(case.starts) for case in CASES)
    assert verify("--suite") == (0, f"{schedules} of {schedules} schedules are as known\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_form_has_the_same_jobs(case: KnownSchedule, tmp_path: Path) -> None:
    case.write(tmp_path)
    for suffix in (".swf", ".json", ".csv"):
        block, names = read_workload(tmp_path / f"{case.name}{suffix}")
        rows = zip(
            block.submit_time, block.run_time, block.requested_time, block.requested_processors, strict=True
        )
        assert [tuple(row) for row in rows] == case.jobs, suffix
        assert names == [str(job) for job in range(1, len(case.jobs) + 1)]
        after = {job + 1: other for job, other in enumerate(block.preceding_job.tolist()) if other > 0}
        assert after == {job: other for job, (other, _) in case.after.items()}, suffix


@pytest.mark.parametrize(("case", "rule"), JUDGED, ids=lambda each: getattr(each, "name", each))
def test_known_schedules_have_no_fault_and_each_start_moved_by_a_second_is_one(
    case: KnownSchedule, rule: str, tmp_path: Path
) -> None:
    schedule = schedule_of(case, rule, tmp_path)
    right = judged(schedule, case, rule)
    assert not right.counts, right.described
    for job in np.flatnonzero(schedule.ran).tolist():
        for by in (1.0, -1.0):
            found = judged(moved(schedule, job, by), case, rule)
            # A backfilled job that comes later than it could delays none: a warning.
            assert found.faults or (rule == "easy" and by > 0 and found.counts[WARNING]), (job + 1, by)
            assert all(one.text.startswith("job ") and one.text.count(" s") for one in found.described)


def test_others_run_the_suite_on_their_schedules(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "second-in-the-queue.easy").mkdir(parents=True)
    header = "job_id,workload_name,submission_time,requested_number_of_resources,requested_time,final_state,"
    rows = ["1,w,0,3,10,COMPLETED_SUCCESSFULLY,0,10", "2,w,1,3,10,COMPLETED_SUCCESSFULLY,10,20"]
    rows += ["3,w,2,4,20,COMPLETED_SUCCESSFULLY,43,63", "4,w,3,1,40,COMPLETED_SUCCESSFULLY,3,43"]
    file = theirs / "second-in-the-queue.easy" / "out_jobs.csv"
    file.write_text("\n".join([header + "starting_time,finish_time", *rows, ""]))
    code, text = verify(theirs, "--suite")
    assert (code, text.partition(";")[0]) == (0, "1 of 1 schedules are as known")
    file.write_text(file.read_text().replace("43,63", "44,64"))
    code, text = verify(theirs, "--suite")
    assert code == 1
    assert "second-in-the-queue.easy: job 3 starts at 44 s, and easy starts it at 43 s" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("starts: {easy: [0, 1]}", r"starts.easy: 2 starts of 1 jobs"),
        ("starts: {sjf: [0]}", "starts.sjf: no such rule; allowed: fcfs"),
        ("starts: {easy: [0]}\nmore: 1", "more"),
        ("starts: [", "not valid YAML"),
    ],
)
def test_a_damaged_case_is_refused(text: str, words: str, tmp_path: Path) -> None:
    rest = "question: a?\ntext: b\nunits: 1\njobs: [[0, 1, 1, 1]]\nderived: by hand\n"
    (tmp_path / "case.yaml").write_text(rest + text + "\n")
    with pytest.raises(InputError, match=words):
        read_case(tmp_path / "case.yaml")
