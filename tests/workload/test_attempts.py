"""Jobs that returned to the queue: each attempt a job, or one job; records that files repeat."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlsim
from mlsim.workload import JobBlock, Workload, open_workload
from mlsim.workload.format_record import Reading
from mlsim.workload.log_attempts import settle_attempts
from mlsim.workload.log_fields import DAY
from mlsim.workload.log_formats import LogReader
from mlsim.workload.workload_jobs import LogBlock
from tests.workload.test_accounting import BEGIN, text_of
from tests.workload.test_recorded import log

# Attempts: job, submission that the batch system records, start, end, its end returned the job to the queue.
SLURM = [
    (7, 0, 10, 100, True),
    (8, 5, 20, 30, False),
    (7, 101, 150, 160, True),
    (7, 170, 400, 460, False),
    (9, 200, 210, 220, True),  # and none follows
]
ONE_SUBMISSION = [(job, 0 if job == 7 else submit, *rest) for job, submit, *rest in SLURM]


def sacct(rows: list[tuple[int, int, int, int, bool]], state: str = "REQUEUED") -> str:
    head = "JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State"
    return text_of(
        [head]
        + [
            f"{job}|{BEGIN + submit}|{BEGIN + start}|{BEGIN + end}|{end - start}|10|4|"
            + (state if again else "COMPLETED")
            for job, submit, start, end, again in rows
        ]
    )


def sacct_json(rows: list[tuple[int, int, int, int, bool]]) -> str:
    jobs = [
        {
            "job_id": job,
            "state": {"current": ["REQUEUED" if again else "COMPLETED"]},
            "time": {"submission": BEGIN + submit, "start": BEGIN + start, "end": BEGIN + end}
            | {"elapsed": end - start, "limit": {"set": True, "number": 10}},
            "required": {"CPUs": 4},
        }
        for job, submit, start, end, again in rows
    ]
    return json.dumps({"meta": {"plugin": {}}, "jobs": jobs})


def pbs(rows: list[tuple[int, int, int, int, bool]]) -> str:
    return text_of(
        [
            f"01/01/2024 00:00:00;{'R' if again else 'E'};{job}.host;user=ada ctime={BEGIN + submit} "
            f"start={BEGIN + start} end={BEGIN + end} Resource_List.ncpus=4 Resource_List.walltime=00:10:00"
            for job, submit, start, end, again in rows
        ]
        + ["01/01/2024 00:00:00;R;11.host;"]  # Torque's, which says nothing of the run
    )


def sge(rows: list[tuple[int, int, int, int, bool]]) -> str:
    return text_of(
        [
            f"all.q:n1:project:ada:run:{job}:sge:0:{BEGIN + submit}:{BEGIN + start}:{BEGIN + end}:"
            f"{25 if again else 0}:0:{'0:' * 18}NONE:dep:mpi:4:0:0.0:0.0:0.0:-l h_rt=600:0.0:NONE:0.0:0:0"
            for job, submit, start, end, again in rows
        ]
    )


READERS: dict[str, tuple[Callable[..., str], list[tuple[int, int, int, int, bool]]]] = {
    "sacct": (sacct, SLURM),
    "sacct-json": (sacct_json, SLURM),
    "pbs": (pbs, ONE_SUBMISSION),
    "sge": (sge, ONE_SUBMISSION),
}


def facts(place: Path, text: str, join: bool) -> tuple[list[tuple[float, ...]], dict[str, int]]:
    reader = LogReader(log(place, "log.txt", text), "auto", Reading(join_attempts=join))
    jobs = LogBlock.concatenate(list(reader.blocks()))
    columns = (jobs.job_id, jobs.submit_time, jobs.recorded_start, jobs.run_time, jobs.wait_time)
    return sorted(zip(*(column.tolist() for column in columns), strict=True)), dict(reader.counts)


@pytest.mark.parametrize("name", READERS)
def test_each_attempt_is_a_job_that_is_submitted_when_the_one_before_it_ended(tmp_path, name):
    text, rows = READERS[name]
    found, counts = facts(tmp_path, text(rows), join=False)
    second, third = (101, 170) if rows is SLURM else (100, 160)
    assert found == [
        (7, 0, 10, 90, 10),
        (7, second, 150, 10, 150 - second),
        (7, third, 400, 60, 400 - third),
        (8, 5, 20, 10, 15),
        (9, 200, 210, 10, 10),
    ]
    assert counts["requeued_attempts"] == 2


@pytest.mark.parametrize("name", READERS)
def test_joined_they_are_one_job_of_the_first_submission_and_the_last_run(tmp_path, name):
    text, rows = READERS[name]
    found, counts = facts(tmp_path, text(rows), join=True)
    assert found == [(7, 0, 400, 60, 400), (8, 5, 20, 10, 15), (9, 200, 210, 10, 10)]
    assert counts["joined_attempts"] == 2


@pytest.mark.parametrize(
    ("state", "follows"),
    [("REQUEUED", True), ("NODE_FAIL", True), ("PREEMPTED", True), ("NF", True), ("FAILED", False)]
    + [("RESIZING", False), ("COMPLETED", False)],
)
def test_states_after_which_a_job_returns(tmp_path, state, follows):
    found, counts = facts(tmp_path, sacct(SLURM[:4], state), join=True)
    assert len(found) == (2 if follows else 4)
    assert counts.get("joined_attempts", 0) == 2 * follows


def test_an_identifier_that_comes_back_later_is_of_another_job(tmp_path):
    rows = [SLURM[0], (7, int(100 + DAY) + 1, int(DAY) + 200, int(DAY) + 300, False)]
    for join in (True, False):
        found, counts = facts(tmp_path, sacct(rows), join)
        assert (len(found), counts) == (2, {})


def test_parts_of_a_job_that_returned_are_joined_within_each_attempt(tmp_path):
    head = "JobID|JobIDRaw|Submit|Start|ElapsedRaw|ReqCPUS|State"
    rows = [f"20+{k}|2{k}|1000|1010|50|4|PREEMPTED" for k in range(2)]
    rows += [f"20+{k}|2{k}|1060|1100|70|4|COMPLETED" for k in range(2)]
    reader = LogReader(log(tmp_path, "log.txt", text_of([head, *rows])), "auto", Reading(join_attempts=True))
    (jobs,) = reader.blocks()
    assert (jobs.submit_time.tolist(), jobs.run_time.tolist()) == ([0], [70])
    assert jobs.requested_processors.tolist() == [8]
    assert reader.counts == {"joined_parts": 2, "joined_attempts": 1}


@pytest.mark.parametrize("name", READERS)
def test_files_that_overlap_have_each_record_once(tmp_path, name):
    text, rows = READERS[name]
    if name == "sacct-json":
        return
    lines = text(rows).splitlines()
    head = [lines.pop(0)] if name == "sacct" else []
    twice = text_of([*head, *lines, *head, *lines[2:]])
    for join in (True, False):
        once, counts = facts(tmp_path, text(rows), join)
        assert facts(tmp_path, twice, join) == (once, counts | {"repeated_records": 3})


def test_scenarios_decide_and_runs_say_it(tmp_path):
    path = log(tmp_path, "log.txt", sacct(SLURM))
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 4}]},
        "workload": {"path": str(path), "mapping": "core"},
        "output": {"pictures": "off"},
    }
    result = mlsim.run(scenario)
    assert result.jobs["job_id"].to_list() == [7, 8, 7, 7, 9]
    assert result.summary["workload"]["log"]["requeued_attempts"] == 2
    scenario["workload"]["requeued"] = "join"
    result = mlsim.run(scenario)
    assert result.jobs["job_id"].to_list() == [7, 8, 9]
    assert result.jobs["start_time"].to_list() == [0, 60, 200]
    assert result.jobs["recorded_start"].to_list() == [400, 20, 210]
    assert result.summary["workload"]["log"]["joined_attempts"] == 2


@st.composite
def histories(draw):
    """Jobs with several attempts each, of which the first ones returned; rows in any order."""
    rows = []
    for job in range(1, draw(st.integers(1, 4)) + 1):
        now = draw(st.integers(0, 50))
        submit, attempts = now, draw(st.integers(1, 4))
        own = draw(st.booleans())  # whether each attempt has a submission of its own
        for k in range(attempts):
            submit = now + draw(st.integers(0, 3)) if own else submit
            start = max(submit, now) + draw(st.integers(0, 9))
            now = start + draw(st.integers(1, 20))
            rows.append((job, submit, start, now, k < attempts - 1))
    return draw(st.permutations(rows))


@given(histories())
def test_attempts_are_those_of_a_slow_rule(rows):
    job, submit, start, end, again = (np.array(column) for column in zip(*rows, strict=True))
    columns = np.full((24, len(rows)), -1.0)
    columns[0], columns[1], columns[2], columns[3] = job, submit, start - submit, end - start
    columns[23] = start
    block = LogBlock.from_columns(columns)
    expected = {True: [], False: []}
    for number in set(job.tolist()):
        before, first = None, None
        for _, at, begin, stop, returned in sorted(
            (row for row in rows if row[0] == number), key=lambda row: row[3]
        ):
            first = at if first is None else first
            arrives = at if before is None else max(at, before)
            expected[False].append((number, arrives, begin, stop - begin, begin - arrives))
            before = stop
            if not returned:
                expected[True].append((number, first, begin, stop - begin, begin - first))
    for join, wanted in expected.items():
        found, counts = settle_attempts(block, again.astype(np.bool_), join=join)
        of = (found.job_id, found.submit_time, found.recorded_start, found.run_time, found.wait_time)
        assert sorted(zip(*(column.tolist() for column in of), strict=True)) == sorted(wanted)
        assert sum(counts.values()) == int(again.sum())


def opened(path: Path, **options: object) -> tuple[JobBlock, Workload]:
    from mlsim.scenario import WorkloadConfig

    workload = open_workload(WorkloadConfig.model_validate({"path": str(path), **options}), path, 64)
    return JobBlock.concatenate(list(workload.blocks())), workload


def test_the_recorded_schedule_of_attempts_is_one(tmp_path):
    """No attempt starts before it is submitted, so that `dispatcher: recorded` can follow both readings."""
    for name, (text, rows) in READERS.items():
        path = log(tmp_path, f"{name}.txt", text(rows))
        for rule in ("separate", "join"):
            jobs, _ = opened(path, requeued=rule)
            assert (jobs.recorded_start >= jobs.submit_time).all()


@pytest.mark.parametrize("rule", ["separate", "join"])
@pytest.mark.parametrize("name", READERS)
def test_the_recorded_dispatcher_follows_both_readings(tmp_path, name, rule):
    text, rows = READERS[name]
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]},
        "workload": {"path": str(log(tmp_path, "log.txt", text(rows))), "mapping": "core", "requeued": rule},
        "batch": {"dispatcher": "recorded"},
        "output": {"pictures": "off"},
    }
    jobs = mlsim.run(scenario).jobs
    assert jobs["start_time"].to_list() == jobs["recorded_start"].to_list()
    starts = [10, 20, 150, 400, 210] if rule == "separate" else [400, 20, 210]
    assert sorted(jobs["start_time"].to_list()) == sorted(starts)
    assert (jobs["wait_time"] >= 0).all()
