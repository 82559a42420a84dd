"""What sacct prints in all of its shapes: delimiters, orders, steps, arrays, parts of jobs, times."""

import json
import random
from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.csv_log import read_csv
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_formats import format_of
from mlsim.workload.sacct_log import read_sacct
from tests.workload.test_recorded import log

HEAD = (
    "JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State|User|JobName|"
    "ReqTRES|AllocTRES|NNodes|NodeList"
)
ROW = (
    "7|2026-03-01T08:00:00|2026-03-01T08:00:05|2026-03-01T09:00:05|3600|120|64|COMPLETED|ada|cfd|"
    "billing=64,cpu=64,mem=64G,node=2,gres/gpu=4|billing=64,cpu=64,mem=64G,node=2,gres/gpu=4|2|n[1-2]"
)


def read(place: Path, text: str, lenient: bool = False) -> WholeLog:
    path = log(place, "log.txt", text)
    assert format_of(path) is WorkloadFormat.SACCT
    return read_sacct(path, Reading(lenient=lenient))


def facts(found: WholeLog) -> list[tuple[object, ...]]:
    jobs = found.jobs
    assert jobs.asked is not None
    return list(
        zip(
            *(jobs.submit_time.tolist(), jobs.run_time.tolist(), jobs.requested_time.tolist()),
            *(jobs.requested_processors.tolist(), jobs.node_count.tolist(), jobs.recorded_start.tolist()),
            *(map(tuple, jobs.asked.totals.tolist()),),
            strict=True,
        )
    )


EXPECTED = [(0, 3600, 7200, 64, 2, 5, (68_720, 4))]


@pytest.mark.parametrize("delimiter", ["|", ",", "\t", ";", "^", "~", "@@", "^^^", "\x1f", " | ", "#"])
def test_any_delimiter_in_any_order_of_columns(tmp_path, delimiter):
    names, cells = HEAD.split("|"), ROW.split("|")
    for seed in range(4):
        order = random.Random(seed).sample(range(len(names)), len(names))
        lines = (delimiter.join(row[k] for k in order) for row in (names, cells))
        found = read(tmp_path, "\n".join(lines) + "\n")
        assert facts(found) == EXPECTED
        assert found.counts == {}


def test_names_in_lower_case_between_quotes_and_with_an_index(tmp_path):
    rows = [
        [f'"{cell}"' for cell in ["", *HEAD.lower().split("|")]],
        [f'"{cell}"' for cell in ["0", *ROW.split("|")]],
    ]
    assert facts(read(tmp_path, "\n".join(map(",".join, rows)))) == EXPECTED


@pytest.mark.parametrize(
    ("name", "lines"),
    [("a|b", 1), ("a|b|c|3|x=1", 1), ("two\nlines", 1), ("a|b\nc|d\n\te", 1), ("|", 1), ("COMPLETED|7", 1)],
)
def test_names_that_hold_the_delimiter_or_a_newline_are_joined_again(tmp_path, name, lines):
    other = ROW.replace("7|", "8|", 1)
    found = read(tmp_path, "\n".join([HEAD, ROW.replace("|cfd|", f"|{name}|"), other, ""]))
    assert facts(found) == EXPECTED * 2
    assert found.counts == {"rejoined_rows": lines}
    assert found.jobs.job_id.tolist() == [7, 8]
    joined = found.header["executable_names"][0]
    assert joined.split() == name.split()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (('"q', "a", "b", "c"), ['"q', "a", "b", "c"]),  # never closed
        (('"q', "a", 'b"', "c"), ['"q', "a", 'b"', "c"]),  # closed in the name of another job
        (('"q"', "a", '5" disk', '"x, y"'), ["q", "a", '5" disk', "x, y"]),
        (('"two\nlines"', "a", "b", "c"), ["two\nlines", "a", "b", "c"]),
    ],
)
@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_quote_that_is_none_swallows_no_jobs(tmp_path, names, found, place):
    columns = ["JobID", "Submit", "ElapsedRaw", "TimelimitRaw", "ReqCPUS", "State"]
    columns.insert(place, "JobName")
    rows = []
    for job, name in enumerate(names, 1):
        row = [str(job), str(1000 + job), "60", "9", "4", "COMPLETED"]
        row.insert(place, name)
        rows.append(",".join(row))
    log = read(tmp_path, "\n".join([",".join(columns), *rows]) + "\n")
    assert log.jobs.job_id.tolist() == [1, 2, 3, 4]
    assert log.header["executable_names"] == found


def test_rows_that_cannot_be_joined_are_broken(tmp_path):
    text = "\n".join([HEAD, ROW, "8|2026", ROW.replace("7|", "9|", 1)])
    with pytest.raises(InputError, match="line 3: 2 cells; the first line names 14 columns"):
        read(tmp_path, text)
    found = read(tmp_path, text, lenient=True)
    assert (found.jobs.job_id.tolist(), found.broken_lines) == ([7, 9], 1)


@pytest.mark.parametrize(
    ("column", "cell", "seconds"),
    [
        *(
            ("Elapsed", cell, seconds)
            for cell, seconds in {"1-02:03:04": 93_784, "26:03:04": 93_784, "03:04": 184}.items()
        ),
        *(("Elapsed", cell, seconds) for cell, seconds in {"00:01:30.250": 90, "90": 90}.items()),
        ("ElapsedRaw", "90", 90),
        ("Timelimit", "1-02:03:04", 93_784),
        *(("Timelimit", word, -1) for word in ("UNLIMITED", "Partition_Limit", "INVALID", "", "None")),
        ("Timelimit", "60", 3600),
        ("TimelimitRaw", "60", 3600),
        ("TimelimitRaw", "UNLIMITED", -1),
    ],
)
def test_times_in_every_spelling(tmp_path, column, cell, seconds):
    is_limit = column.startswith("Time")
    other = "ElapsedRaw" if is_limit else "TimelimitRaw"
    found = read(
        tmp_path,
        f"JobID|Submit|{column}|{other}|AllocCPUS|State\n1|2026-03-01T08:00:00|{cell}|7|4|COMPLETED\n",
    )
    assert (found.jobs.requested_time if is_limit else found.jobs.run_time).tolist() == [seconds]


def test_a_log_without_limits_states_and_processors(tmp_path):
    found = read(
        tmp_path,
        "JobID|Submit|Start|End|User\n1|2026-03-01T08:00:00|2026-03-01T08:00:01|2026-03-01T08:00:31|ada\n",
    )
    assert (found.jobs.run_time.tolist(), found.jobs.requested_time.tolist()) == ([30], [-1])
    assert (found.jobs.status.tolist(), found.jobs.requested_processors.tolist()) == ([-1], [-1])


def test_processors_are_those_that_are_said_anywhere(tmp_path):
    head = "JobID|Submit|ElapsedRaw|ReqCPUS|AllocCPUS|ReqTRES|State"
    rows = ["1|1000|9|0|4||COMPLETED", "2|1000|9|||billing=1,cpu=6|COMPLETED", "3|1000|9||0||COMPLETED"]
    assert read(tmp_path, "\n".join([head, *rows])).jobs.requested_processors.tolist() == [4, 6, -1]


@pytest.mark.parametrize("submit", ["Unknown", "None", ""])
def test_an_unknown_submission_is_the_time_of_eligibility_or_unknown(tmp_path, submit):
    head = "JobID|Submit|Eligible|ElapsedRaw|ReqCPUS|State"
    rows = [
        f"1|{submit}|1005|9|1|COMPLETED",
        f"2|{submit}|Unknown|9|1|COMPLETED",
        "3|1000|1000|9|1|COMPLETED",
    ]
    assert read(tmp_path, "\n".join([head, *rows])).jobs.submit_time.tolist() == [5, -1, 0]


def test_steps_rests_of_arrays_and_jobs_that_run_on_are_counted(tmp_path):
    head = "JobID|JobIDRaw|Submit|End|ElapsedRaw|ReqCPUS|State"
    rows = [
        "5354581_3|11|1000|1100|9|1|COMPLETED",
        "5354581_3.batch|11.batch|1000|1100|9|1|COMPLETED",
        "5354581_3.extern|11.extern|1000|1100|9|1|COMPLETED",
        "5354581_[4-10%2]|5354581|1000|Unknown|0|1|PENDING",
        "5354581_[11,13]|5354582|1000|1020|0|1|CANCELLED by 5",
        "6|12|1000|Unknown|40|1|RUNNING",
        "7|13|1000|Unknown|0|1|PENDING",
        "8|14|1000|Unknown|9|1|SUSPENDED",
        "9|15|1000|1100|9|1|REQUEUED",  # an attempt, with --duplicates
        "9|15|1100|1200|19|1|COMPLETED",
        "10|16|1100|1200|19|1|NODE_FAIL",
    ]
    found = read(tmp_path, "\n".join([head, *rows]))
    assert found.jobs.job_id.tolist() == [11, 15, 15, 16]
    assert found.jobs.status.tolist() == [1, 0, 1, 0]
    assert found.counts == {"steps": 2, "array_rests": 2, "unfinished_jobs": 3, "requeued_attempts": 1}


def test_parts_of_a_heterogeneous_job_are_one_job_with_all_requests(tmp_path):
    head = "JobID|JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|ReqCPUS|State|ReqTRES|NodeList"
    rows = [
        "20+0|20|1000|1010|50|2|4|COMPLETED|cpu=4,mem=2G,node=1,gres/gpu=1|n1",
        "20+0.0|20.0|1000|1010|50||4|COMPLETED||n1",
        "20+1|21|1000|1010|49|2|16|COMPLETED|cpu=16,mem=6G,node=2|n[4-5]",
        "22|22|1000|1010|5|1|1|COMPLETED|cpu=1,mem=1G,node=1|n9",
    ]
    found = read(tmp_path, "\n".join([head, *rows]))
    assert found.jobs.job_id.tolist() == [20, 22]
    assert found.jobs.requested_processors.tolist() == [20, 1]
    assert (found.jobs.run_time.tolist(), found.jobs.node_count.tolist()) == ([50, 5], [3, 1])
    assert found.jobs.asked is not None
    assert found.jobs.asked.totals[:, 1].tolist() == [1, -1]
    assert found.jobs.asked.exact is not None
    assert found.jobs.asked.exact.tolist() == [8 * 2**30, 2**30]
    assert found.jobs.own is not None
    assert found.jobs.own.of["recorded_nodes"].tolist() == ["n1,n[4-5]", "n9"]
    assert found.counts == {"steps": 1, "joined_parts": 1}


def test_json_of_arrays_parts_and_old_parsers(tmp_path):
    def job(number: int, **more: object) -> dict[str, object]:
        return {
            "job_id": number,
            "state": {"current": "COMPLETED", "reason": "None"},  # a text, before Slurm 23.11
            "time": {
                "submission": 1000,
                "start": 1005,
                "elapsed": 60,
                "end": 1065,
                "limit": {"set": True, "number": 2},
            },
            "required": {"CPUs": 4, "memory": 1},
            "nodes": "n1",
            "user": "ada",
            **more,
        }

    jobs = [
        job(1, array={"job_id": 1, "task": "", "task_id": 3}),
        job(2, array={"job_id": 2, "task": "4-9%2"}, state={"current": ["PENDING"]}),
        job(3, het={"job_id": 3, "job_offset": {"set": True, "number": 0}}),
        job(4, het={"job_id": 3, "job_offset": {"set": True, "number": 1}}),
        job(5, state={"current": ["RUNNING"]}),
    ]
    found = read(
        tmp_path, json.dumps({"meta": {"plugin": {"type": "openapi/dbv0.0.36"}}, "errors": [], "jobs": jobs})
    )
    assert found.jobs.job_id.tolist() == [1, 3]
    assert found.jobs.requested_processors.tolist() == [4, 8]
    assert found.jobs.recorded_start.tolist() == [5, 5]
    assert found.counts == {"array_rests": 1, "joined_parts": 1, "unfinished_jobs": 1}


@pytest.mark.parametrize("early", [1, 2, 172])
def test_a_start_before_the_first_submission_is_one_at_it(tmp_path, early):
    start = f"2026-03-01T00:{(600 - early) // 60:02}:{(600 - early) % 60:02}"
    rows = [
        ("1", "2026-03-01T00:10:00", start, "2026-03-01T01:10:00", "3600", "4", "1"),
        ("2", "2026-03-01T00:10:20", "2026-03-01T00:10:30", "2026-03-01T01:10:30", "3600", "4", "1"),
    ]
    names = ("JobIDRaw", "Submit", "Start", "End", "ElapsedRaw", "ReqCPUS", "State")
    text = [f"{'|'.join(names)}\n", *("|".join([*row[:-1], "COMPLETED"]) + "\n" for row in rows)]
    (tmp_path / "log.txt").write_text("".join(text))
    names = ("job_id", "submit_time", "recorded_start", "run_time", "processors", "status")
    (tmp_path / "log.csv").write_text(
        "\n".join([",".join(names), *(",".join((*row[:3], *row[4:])) for row in rows), ""])
    )
    for name, reader in (("log.txt", read_sacct), ("log.csv", read_csv)):
        log = reader(tmp_path / name).jobs
        assert (log.submit_time.tolist(), log.recorded_start.tolist()) == ([0, 20], [0, 30])
