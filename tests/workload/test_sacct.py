"""Logs that Slurm's accounting printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.format_record import Reading
from mlsim.workload.log_formats import LogReader, format_of
from mlsim.workload.sacct_log import read_sacct

RAW = """\
JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|User|Group|Partition|QOS|JobName|ReqMem
101|2024-03-01T12:00:00|100|5|4|COMPLETED|ada|cs|main|normal|train.sh|4000M
101.batch|2024-03-01T12:00:10|100||4|COMPLETED|||||batch|
101.0|2024-03-01T12:00:11|90||4|COMPLETED|||||solve|
103|2024-03-01T12:01:00|50|UNLIMITED|2|FAILED|bob|cs|main|normal|test.sh|1G
102|2024-03-01T12:00:30|300|5|8|TIMEOUT|ada|cs|gpu|high|train.sh|
104|2024-03-01T12:02:00|0|10|1|CANCELLED by 1001|bob|cs|main|normal|test.sh|1G
"""
WORDS = """\
JobID|Submit|Elapsed|Timelimit|AllocCPUS|State|Account|
7|1709294400|1-02:03:04|2-00:00:00|4|COMPLETED|physics|
7.extern|1709294400|1-02:03:04||4|COMPLETED|physics|
8|1709294460|00:01:30.250|Partition_Limit|2|OUT_OF_MEMORY|physics|
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.txt"
    path.write_text(text)
    return path


def test_columns_mean_what_sacct_says(tmp_path: Path) -> None:
    path = written(tmp_path, RAW)
    assert format_of(path) is WorkloadFormat.SACCT
    log = read_sacct(path)
    jobs = log.jobs
    assert jobs.job_id.tolist() == [101, 103, 102, 104]
    assert jobs.submit_time.tolist() == [0, 60, 30, 120]
    assert jobs.run_time.tolist() == [100, 50, 300, 0]
    assert jobs.requested_time.tolist() == [300, -1, 300, 600]
    assert jobs.requested_processors.tolist() == [4, 2, 8, 1]
    assert jobs.status.tolist() == [1, 0, 0, 5]
    assert jobs.user.tolist() == [1, 2, 1, 2]
    assert log.header["user_names"] == ["ada", "bob"]
    assert log.header["executable_names"] == ["train.sh", "test.sh"]
    assert log.header["partition_names"] == ["main", "gpu"]
    assert log.header["qos_names"] == ["normal", "high"]
    assert log.header["UnixStartTime"] == "1709294400"
    assert log.header["ignored_columns"] == ["ReqMem"]


def test_times_in_words_seconds_since_1970_and_a_last_bar(tmp_path: Path) -> None:
    log = read_sacct(written(tmp_path, WORDS))
    assert log.jobs.job_id.tolist() == [7, 8]
    assert log.jobs.submit_time.tolist() == [0, 60]
    assert log.jobs.run_time.tolist() == [93784, 90]
    assert log.jobs.requested_time.tolist() == [172800, -1]
    assert log.header["group_names"] == ["physics"]


def test_a_run_reads_it_with_columns_of_ones_own(tmp_path: Path) -> None:
    written(tmp_path, RAW)
    (tmp_path / "s.yaml").write_text(
        "platform: {nodes: [{name: n, count: 1, cores: 8}]}\n"
        "workload:\n  {path: log.txt, mapping: core, columns: [ReqMem],\n"
        "  select: {dates: {start: 2024-03-01 12:00:30}}}\n"
        "output: {pictures: off}\n"
    )
    jobs = mlsim.run(tmp_path / "s.yaml").jobs
    assert jobs["job_id"].to_list() == [102, 103, 104]
    assert jobs["ReqMem"].to_list() == [None, "1G", "1G"]


def test_it_is_converted_from_and_not_to(tmp_path: Path) -> None:
    path = written(tmp_path, RAW)
    done = CliRunner().invoke(app, ["workload", "convert", str(path), str(tmp_path / "log.swf")])
    assert done.exit_code == 0, (done.output, done.exception)
    reader = LogReader(tmp_path / "log.swf", WorkloadFormat.SWF, Reading())
    assert sum(len(block) for block in reader.blocks()) == 4
    done = CliRunner().invoke(app, ["workload", "convert", str(path), str(tmp_path / "b"), "--to", "sacct"])
    assert isinstance(done.exception, InputError)
    assert str(done.exception) == "--to sacct; allowed: swf, csv, parquet, batsim, wfformat, run"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "103|2024",
            "103|x2024",
            "line 5: Submit is 'x2024-03-01T12:01:00'; expected a date and time such as",
        ),
        ("|50|", "|50s|", "line 5: ElapsedRaw is '50s'; expected a time such as 1-02:30:00"),
        ("\n103|", "\n|", "line 5: JobIDRaw is ''; expected an identifier"),
        ("|50|UNLIMITED|", "|50|", "line 5: 11 cells; the first line names 12 columns"),
        ("UNLIMITED", "5:", "line 5: TimelimitRaw is '5:'; expected a time such as 1-02:30:00"),
    ],
)
def test_broken_lines_are_errors_or_skipped_and_counted(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    path = written(tmp_path, RAW.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_sacct(path)
    assert told in str(caught.value)
    log = read_sacct(path, Reading(lenient=True))
    assert (len(log.jobs.job_id), log.broken_lines) == (3, 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            RAW.replace("ElapsedRaw", "Start"),
            "column ElapsedRaw or Elapsed is missing; found: JobIDRaw, Submit",
        ),
        (RAW.replace("QOS", "User"), "column User is there twice"),
        (RAW.splitlines()[0] + "\n", "holds no job"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_sacct(written(tmp_path, text))


TRES = """\
JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|ReqCPUS|State|ReqTRES|AllocTRES
11|2024-03-01T12:00:00|100|5|4|COMPLETED|billing=4,cpu=4,gres/gpu:a100=1,gres/gpu:v100=2,mem=1.5G,node=1|cpu=8
12|2024-03-01T12:00:01|100|5|2|COMPLETED|cpu=2,gres/gpu:a100=2,gres/gpu=2,mem=100K,node=1|
13|2024-03-01T12:00:02|100|5|2|COMPLETED||
14|2024-03-01T12:00:02|100|5|2|COMPLETED|cpu=2,mem=2T,node=2|
"""


def test_memory_and_gpus_are_those_that_the_job_asked_for(tmp_path: Path) -> None:
    log = read_sacct(written(tmp_path, TRES))
    assert log.jobs.asked is not None
    assert log.jobs.asked.names == ("memory", "gpu")
    assert log.jobs.asked.totals.tolist() == [[1611, 3], [1, 2], [-1, -1], [2199024, -1]]
    assert log.jobs.asked.units.tolist() == [-1] * 4


def test_resources_that_no_job_asks_for_are_not_needed(tmp_path: Path) -> None:
    text = "\n".join(line.replace(",mem=", ",m=") for line in TRES.splitlines() if "gpu" not in line)
    assert read_sacct(written(tmp_path, text)).jobs.asked is None


@pytest.mark.parametrize("cell", ["cpu=4,mem=", "mem=much", "gres/gpu=x", "cpu"])
def test_resources_that_are_none(tmp_path: Path, cell: str) -> None:
    text = TRES.replace("cpu=2,mem=2T,node=2", cell)
    with pytest.raises(InputError, match="line 5: ReqTRES is"):
        read_sacct(written(tmp_path, text))
    assert read_sacct(written(tmp_path, text), Reading(lenient=True)).broken_lines == 1


def test_a_machine_with_gpus_runs_them(tmp_path: Path) -> None:
    written(tmp_path, TRES.replace("2T", "2G"))
    (tmp_path / "s.yaml").write_text(
        "platform: {nodes: [{name: n, count: 2, cores: 4, memory: 8 GB, resources: {gpu: 3}}]}\n"
        "workload: {path: log.txt, mapping: core}\n"
        "output: {pictures: off}\n"
    )
    assert mlsim.run(tmp_path / "s.yaml").summary["jobs"]["completed"] == 4
