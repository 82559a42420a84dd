from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.workload.csv_log import read_csv
from mlsim.workload.format_record import Reading, WholeLog

NAMES = "job_id,submit_time,run_time,walltime,processors"


def read(directory: Path, text: str, *, lenient: bool = False) -> WholeLog:
    path = directory / "jobs.csv"
    path.write_text(text)
    return read_csv(path, Reading(lenient))


def test_required_columns_in_any_order_with_unknown_values(tmp_path: Path) -> None:
    log = read(tmp_path, "processors,estimate,run_time,submit_time,job_id\n4, 60 ,1e1,0.5,7\n-1,,,1,8\n")
    assert log.jobs.job_id.tolist() == [7, 8]
    assert log.jobs.submit_time.tolist() == [0.5, 1]
    assert log.jobs.run_time.tolist() == [10, -1]
    assert log.jobs.requested_time.tolist() == [60, -1]
    assert log.jobs.requested_processors.tolist() == [4, -1]
    assert log.jobs.allocated_processors.tolist() == log.jobs.user.tolist() == [-1, -1]


def test_names_become_codes_in_order_of_first_appearance(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        f"{NAMES},user,executable,queue,color\n"
        "1,0,1,1,1,zoe,7,a,red\n2,0,1,1,1,adam,,,red\n3,0,1,1,1,zoe,9,b,red\n4,0,1,1,1,,9,7,red\n",
    )
    assert log.jobs.user.tolist() == [1, 2, 1, -1]
    assert log.jobs.executable.tolist() == [7, -1, 9, 9]
    assert log.jobs.queue.tolist() == [1, -1, 2, 3]
    assert log.header == {
        "user_names": ["zoe", "adam"],
        "queue_names": ["a", "b", "7"],
        "ignored_columns": ["color"],
    }


def test_loops_of_their_own(tmp_path: Path) -> None:
    log = read(tmp_path, f"{NAMES},loop_limit,loop_iterations\n1,0,1,1,1,1e3,64\n2,0,1,1,1,,-1\n")
    assert log.jobs.loop_iterations.tolist() == [64, -1]
    assert log.jobs.loop_limit.tolist() == [1000, -1]
    plain = read(tmp_path, f"{NAMES}\n1,0,1,1,1\n")
    assert plain.jobs.loop_iterations.tolist() == plain.jobs.loop_limit.tolist() == [-1]
    with pytest.raises(InputError, match="loop_limit is '0'; expected a whole number from 1 up, or -1"):
        read(tmp_path, f"{NAMES},loop_limit\n1,0,1,1,1,0\n")


def test_windows_files_quotes_blank_lines_and_compression(tmp_path: Path) -> None:
    text = f'{NAMES},user\r\n\r\n1,0,1,1,1,"a, b"\r\n\r\n2,0,1,1,1,"a ""q""\nx"\r\n\r\n'
    path = tmp_path / "jobs.csv"
    path.write_bytes(gzip.compress(("\ufeff" + text).encode()))
    log = read_csv(path)
    assert log.jobs.job_id.tolist() == [1, 2]
    assert log.header["user_names"] == ["a, b", 'a "q"\nx']


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2,0,1,1", "4 cells; expected 5"),
        ("2,0,1,1,1,1", "6 cells; expected 5"),
        ("2,0,abc,1,1", "run_time is 'abc'; expected seconds from 0 up, or -1"),
        ("2,0,nan,1,1", "run_time is 'nan'"),
        ("2,0,-7,1,1", "run_time is '-7'"),
        ("2,,1,1,1", "submit_time is 'an empty cell'"),
        ("2.5,0,1,1,1", "job_id is '2.5'; expected a whole number from 0 up"),
        ("2,0,1,1,1_0", "processors is '1_0'; expected a whole number"),
        ("2,0,1,inf,1", "walltime is 'inf'; expected a finite decimal number"),
    ],
)
def test_broken_lines(tmp_path: Path, line: str, message: str) -> None:
    text = f"{NAMES}\n1,0,1,1,1\n\n{line}\n3,0,1,1,1\n"
    with pytest.raises(InputError, match=rf"jobs\.csv:4: broken line( of job 2)?: {message}"):
        read(tmp_path, text)
    log = read(tmp_path, text, lenient=True)
    assert log.jobs.job_id.tolist() == [1, 3]
    assert log.broken_lines == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no job"),
        (NAMES + "\n", "holds no job"),
        (
            "job_id,submit_time,run_time,wall_time,processors\n1,0,1,1,1\n",
            "csv:1: column walltime is missing",
        ),
        ("job_id,submit_time,run_time,wall_time,processors\n1,0,1,1,1\n", "is wall_time meant"),
        (f"{NAMES},estimate\n1,0,1,1,1,1\n", "walltime and estimate mean the same"),
        (f"{NAMES},job_id\n1,0,1,1,1,1\n", "job_id is there twice"),
    ],
)
def test_unusable_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_other_encodings_are_told(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(f"{NAMES},user\n1,0,1,1,1,J\xf6rg\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"jobs\.csv:2: is not UTF-8"):
        read_csv(path)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (('"ada', "bob", "eve"), ['"ada', "bob", "eve"]),  # never closed
        (('"ada', "bob", 'eve"'), ['"ada', "bob", 'eve"']),  # closed two jobs later
        (('"a,\nb"', '"say ""hi"""', "eve"), ["a,\nb", 'say "hi"', "eve"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quote_that_is_none_swallows_no_jobs(
    tmp_path: Path, names: tuple[str, ...], found: list[str], end: str
) -> None:
    rows = [f"{job},{job},60,90,4,{name}" for job, name in enumerate(names, 1)]
    path = tmp_path / "log.csv"
    path.write_bytes(end.join(["job_id,submit_time,run_time,walltime,processors,user", *rows, ""]).encode())
    log = read_csv(path)
    assert log.jobs.job_id.tolist() == [1, 2, 3]
    assert log.header["user_names"] == found
