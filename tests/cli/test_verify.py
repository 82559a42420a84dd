"""``mlsim verify`` on schedules of mlsim, of other simulators and of machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CSV = """\
job_id,submit_time,start_time,end_time,processors,walltime,run_time
1,0,0,10,3,10,10
2,1,10,20,4,10,10
3,2,2,9,1,8,7
"""
MACHINE = "platform:\n  nodes: [{name: n, count: 4, cores: 1}]\nworkload: {path: jobs.swf, mapping: node}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text(CSV)
    (tmp_path / "machine.yaml").write_text(MACHINE)
    return tmp_path / "s.csv"


@pytest.mark.parametrize("rule", ["easy", "conservative", "none"])
def test_a_right_schedule_has_no_fault(mlsim, file: Path, rule: str) -> None:
    done = mlsim("verify", file, "--rule", rule, "--units", "4")
    assert done.code == 0, done.err
    assert "note" not in done.err
    assert done.out == f"{file}: 3 jobs on 4 units, rule {rule}\nno fault\n"
    assert mlsim("verify", file, "--rule", rule, "--platform", file.with_name("machine.yaml")).code == 0


def test_findings_are_sentences_and_json(mlsim, file: Path) -> None:
    done = mlsim("verify", file, "--rule", "fcfs", "--units", "4")
    assert done.code == 1
    assert done.out.splitlines()[1:] == [
        "  jobs that overtake against the rule: 1",
        "    job 3 starts at 2 s ahead of job 2, which waits since 1 s and starts at 10 s (fcfs: in order)",
        "1 faults",
    ]
    facts = json.loads(mlsim("verify", file, "--rule", "fcfs", "--units", "4", "--json").out)
    assert facts["faults"] == 1
    assert facts["counts"] == {"order": 1}
    assert facts["findings"][0] | {"text": ""} == {"kind": "order", "time": 2, "jobs": ["3", "2"], "text": ""}
    done = mlsim("verify", file, "--rule", "fcfs", "--units", "4", "--limit", "0")
    assert "... and 1 more (--limit)" in done.out


def test_times_may_be_dates(mlsim, file: Path) -> None:
    lines = CSV.splitlines()
    for row in (1, 2, 3):
        cells = lines[row].split(",")
        cells[1:4] = [f"2024-03-01 12:00:{int(cell):02}" for cell in cells[1:4]]
        lines[row] = ",".join(cells)
    file.write_text("\n".join([*lines, ""]))
    done = mlsim("verify", file, "--rule", "easy", "--units", "4")
    assert done.code == 0, done.err
    assert "note" not in done.err


def test_an_unknown_size_of_the_machine_is_said(mlsim, file: Path) -> None:
    done = mlsim("verify", file, "--rule", "easy")
    assert done.code == 0
    assert "the machine's size is unknown: 4 units, the most that are held at once" in done.err


def test_a_run_is_judged_by_the_rule_of_its_scenario(mlsim, small: Path) -> None:
    keys = (
        "--set",
        "application.model=rigid",
        "--set",
        "coordination.rca=off",
        "--set",
        "application.costs=",
    )
    keys += (
        "--set",
        "application.technique=",
        "--set",
        "application.iterations=",
        "--set",
        "output.trace=none",
    )
    assert mlsim("run", "small.yaml", *keys, "--out", "r").code == 0
    done = mlsim("verify", "r")
    assert done.code == 0, done.err
    assert "note" not in done.err
    assert "4 nodes" not in done.out
    assert "rule easy" in done.out
    assert mlsim("verify", "r", "--units", "3").code == 2


def test_batsims_jobs_are_read(mlsim, tmp_path: Path) -> None:
    """Rejected jobs never started, and nodes are judged one by one."""
    header = (
        "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,"
    )
    header += "final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,"
    header += "consumed_energy,allocated_resources,metadata"
    rows = [
        "1,w0,p,0.000000,3,10.000000,1,COMPLETED_SUCCESSFULLY,0.000000,10.0,10.000000,0,10,1,0,0-2,",
        "2,w0,p,1.000000,9,10.000000,0,REJECTED,-1.000000,-1.0,-1.000000,-1,-1,-1,0,,",
        "w0!3,w0,p,2.000000,2,8.000000,1,COMPLETED_WALLTIME_REACHED,10.000000,8.0,18.000000,8,10,1,0,1 3,",
    ]
    file = tmp_path / "out_jobs.csv"
    file.write_text("\n".join([header, *rows, ""]))
    done = mlsim("verify", file, "--rule", "fcfs", "--units", "4")
    assert (done.code, done.out.splitlines()[-1]) == (0, "no fault")
    assert "jobs that never started: 1" in done.err
    file.write_text(file.read_text().replace("10.000000,8.0,18.000000", "9.000000,8.0,17.000000"))
    done = mlsim("verify", file, "--rule", "none", "--units", "9")
    assert "job w0!3 starts at 9 s on node 1, which has no room for it beside job 1" in done.out


def test_elastisims_jobs_need_their_workload(mlsim, tmp_path: Path) -> None:
    header = "ID,Type,Submit Time,Start Time,End Time,Wait Time,Makespan,Turnaround Time,Status"
    rows = ["1,rigid,0,0,10,0,10,10,completed", "2,rigid,1,10,15,9,5,14,completed"]
    file = tmp_path / "job_statistics.csv"
    file.write_text("\n".join([header, *rows, ""]))
    done = mlsim("verify", file)
    assert done.code == 2
    assert "no column for processors" in done.err
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,run_time,estimate,processors\n1,0,10,10,4\n2,1,5,6,2\n"
    )
    done = mlsim("verify", file, "--workload", tmp_path / "jobs.csv", "--units", "4", "--rule", "easy")
    assert done.code == 0, done.err
    assert "note" not in done.err
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,run_time,estimate,processors\n1,3,8,10,4\n2,1,5,6,2\n7,1,5,6,2\n"
    )
    done = mlsim("verify", file, "--workload", tmp_path / "jobs.csv", "--units", "4", "--rule", "easy")
    for words in (
        "job 1 was submitted at 0 s, by the workload at 3 s",
        "job 1 starts at 0 s and runs for 10 s, by the workload for 8 s",
        "job 7 is missing; by the workload it came at 1 s",
    ):
        assert words in done.out


def test_logs_with_recorded_starts_are_schedules(mlsim, tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text(
        "1 0 0 10 4 -1 -1 4 10 -1 1 -1 -1 -1 -1 -1 -1 -1\n2 1 9 5 4 -1 -1 4 6 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
    )
    done = mlsim("verify", tmp_path / "a.swf", "--rule", "conservative")
    assert (done.code, done.out.splitlines()[-1]) == (0, "no fault")
    rows = [
        "1|2024-03-01T12:00:00|2024-03-01T12:00:00|600|10|4|COMPLETED|2024-03-01T12:10:00|n[1-4]",
        "2|2024-03-01T12:00:10|2024-03-01T12:09:59|60|10|2|COMPLETED|2024-03-01T12:10:59|n[1-2]",
    ]
    header = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|ReqCPUS|State|End|NodeList"
    (tmp_path / "sacct.txt").write_text("\n".join([header, *rows, ""]))
    done = mlsim("verify", tmp_path / "sacct.txt", "--units", "4")
    assert done.code == 1
    assert "then 6 units are held, and there are 4" in done.out
    assert "up to 6 units are held at once; is the machine's size right?" in done.err
    (tmp_path / "none.swf").write_text("1 0 -1 10 4 -1 -1 4 10 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
    done = mlsim("verify", tmp_path / "none.swf")
    assert done.code == 2
    assert "no job has a recorded start" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a schedule, or --suite"),
        (("s.csv", "--write", "x"), "--write is for the known schedules"),
        (("s.csv", "--units", "4", "--platform", "machine.yaml"), "both give the machine's size"),
        (("s.csv", "--policy", "WFP"), "--policy WFP: a schedule does not show the order"),
        (("bad.csv",), "no column for start, end"),
        (("worse.csv",), "job in line 3: start_time is 'soon'"),
        (("none.csv",), "there is no such file"),
        ((".",), "is no run of jobs"),
    ],
)
def test_bad_input_is_refused(mlsim, small: Path, words: tuple[str, ...], message: str) -> None:
    (small / "s.csv").write_text(CSV)
    (small / "machine.yaml").write_text(MACHINE)
    (small / "bad.csv").write_text("job_id,submit_time,processors\n1,0,1\n")
    (small / "worse.csv").write_text(CSV.replace("2,1,10,", "2,1,soon,"))
    done = mlsim("verify", *words)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
