from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.workload import Field, JobBlock, Workload, log_formats, log_source, open_workload, write_swf

MACHINE = 16
APART = ("asked", "after", "own", "node_sets", "number")
COLUMNS = [field.name for field in dataclasses.fields(JobBlock) if field.name not in APART]


def config_of(**values: object) -> WorkloadConfig:
    return WorkloadConfig.model_validate({"path": "log.swf", **values})


def write_log(
    directory: Path, submits: list[float], ids: list[int] | None = None, **columns: list[float]
) -> Path:
    path = directory / "log.swf"
    normal = {"run_time": 60, "requested_processors": 4, "requested_time": 90, "status": 1}
    table = {Field[name.upper()]: np.full(len(submits), value) for name, value in normal.items()}
    table |= {Field[name.upper()]: np.array(values) for name, values in columns.items()}
    numbers = ids if ids is not None else list(range(len(submits)))
    header = {"MaxProcs": "16"}
    write_swf(path, header, {Field.JOB_ID: numbers, Field.SUBMIT_TIME: submits, **table})
    return path


def all_jobs(workload: Workload) -> dict[str, list[float]]:
    jobs = JobBlock.concatenate(list(workload.blocks()))
    assert all(getattr(jobs, name).flags.c_contiguous for name in COLUMNS)
    return {name: getattr(jobs, name).tolist() for name in COLUMNS}


def test_jobs_arrive_in_order_from_time_0(tmp_path: Path) -> None:
    path = write_log(tmp_path, [50, 20, 20, 40.5, -1], [1, 5, 3, 4, 2], user=[7, 8, 9, 10, 11])
    workload = open_workload(config_of(), path, MACHINE)
    jobs = all_jobs(workload)
    assert jobs["job_id"] == [3, 5, 4, 1]
    assert jobs["submit_time"] == [0, 0, 20.5, 30]
    assert jobs["user"] == [9, 8, 10, 7]
    assert jobs["queue"] == [-1] * 4
    assert (workload.n_jobs, workload.jobs_in_log, workload.origin) == (4, 5, 20)
    assert workload.notes == {"out_of_order": 2, "unknown_submit_time": 1}
    assert workload.header == {"MaxProcs": "16"}
    assert all_jobs(workload) == jobs


def test_selection_counts_from_the_first_job_that_cleaning_left(tmp_path: Path) -> None:
    path = write_log(tmp_path, [5, 100, 105, 110, 111], run_time=[-1, 60, 60, 60, 60])
    window = {"window": {"start": 5, "end": 11}}
    assert all_jobs(open_workload(config_of(select=window), path, MACHINE))["job_id"] == [2, 3]
    assert all_jobs(open_workload(config_of(select=window | {"first": 1}), path, MACHINE))["job_id"] == [2]
    workload = open_workload(config_of(select={"most_intensive": "6 s"}), path, MACHINE)
    assert all_jobs(workload)["job_id"] == [1, 2]
    workload = open_workload(config_of(select={"most_intensive": "7 s"}), path, MACHINE)
    assert (all_jobs(workload)["job_id"], workload.origin) == ([2, 3, 4], 105)
    assert all_jobs(workload)["submit_time"] == [0, 5, 6]


logs = st.lists(
    st.tuples(
        st.one_of(st.just(-1.0), st.integers(0, 40).map(float), st.floats(0, 40)),
        st.integers(0, 9),
        st.sampled_from([-1, 0, 60, 100]),
    ),
    min_size=1,
    max_size=40,
)
selections = st.fixed_dictionaries(
    {"first": st.one_of(st.none(), st.integers(1, 20))},
    optional={"most_intensive": st.sampled_from([1.0, 5.0, 60.0])},
) | st.just({"window": {"start": 3.0, "end": 20.0}})


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    log=logs, select=selections, block=st.integers(1, 7), look_ahead=st.integers(0, 40), nearly=st.booleans()
)
def test_streaming_gives_what_holding_gives(
    tmp_path: Path,
    log: list[tuple[float, int, int]],
    select: dict[str, object],
    block: int,
    look_ahead: int,
    nearly: bool,
) -> None:
    rows = sorted(log) if nearly else log
    path = write_log(
        tmp_path, [row[0] for row in rows], [row[1] for row in rows], run_time=[row[2] for row in rows]
    )
    config = config_of(select=select)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_formats, "_BLOCK_JOBS", block)
        try:
            held = open_workload(config, path, MACHINE)
        except InputError as error:
            held_error = str(error)
            patch.setattr(log_source, "HELD_JOBS", 0)
            patch.setattr(log_source, "LOOK_AHEAD", look_ahead)
            with pytest.raises(InputError) as caught:
                open_workload(config, path, MACHINE)
            assert str(caught.value) == held_error
            return
        patch.setattr(log_source, "HELD_JOBS", 0)
        patch.setattr(log_source, "LOOK_AHEAD", look_ahead)
        streamed = open_workload(config, path, MACHINE)
        assert all_jobs(streamed) == all_jobs(held)
        assert all_jobs(streamed) == all_jobs(held)  # a second walk is the same
    for name in ("n_jobs", "jobs_in_log", "notes", "header", "origin"):
        assert getattr(streamed, name) == getattr(held, name), name
    assert held.n_jobs == len(all_jobs(held)["job_id"])
    assert all_jobs(held)["submit_time"][0] == 0


def test_long_logs_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_formats, "_BLOCK_JOBS", 10)
    monkeypatch.setattr(log_source, "HELD_JOBS", 100)
    monkeypatch.setattr(log_source, "LOOK_AHEAD", 20)
    path = write_log(tmp_path, list(range(1000)))
    sizes = [len(block) for block in open_workload(config_of(), path, MACHINE).blocks()]
    assert sum(sizes) == 1000
    assert max(sizes) <= 30


def test_held_logs_come_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_source, "BLOCK_JOBS", 4)
    path = write_log(tmp_path, list(range(10)))
    assert [len(block) for block in open_workload(config_of(), path, MACHINE).blocks()] == [4, 4, 2]


def test_formats_are_told_by_content(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        "\n job_id,submit_time,run_time,walltime,processors,user\n4,10,60,,4,zoe\n3,7,1,2,3,adam\n"
    )
    workload = open_workload(config_of(), path, MACHINE)
    assert all_jobs(workload)["job_id"] == [3, 4]
    assert all_jobs(workload)["walltime"] == [2, 60]
    assert all_jobs(workload)["user"] == [2, 1]
    assert workload.header == {"user_names": ["zoe", "adam"]}
    assert workload.notes == {"estimate_from_run_time": 1, "out_of_order": 1}
    with pytest.raises(InputError, match=r"log\.swf:2: broken line"):
        open_workload(config_of(format="swf"), path, MACHINE)
    swf = write_log(tmp_path, [1, 2])
    with pytest.raises(InputError, match="column job_id"):
        open_workload(config_of(format="csv"), swf, MACHINE)


def test_broken_lines_are_errors_or_notes(tmp_path: Path) -> None:
    path = write_log(tmp_path, [1, 2])
    path.write_text(path.read_text() + "1 2 3\n")
    with pytest.raises(InputError, match=r"log\.swf:4: broken line: 3 columns"):
        open_workload(config_of(), path, MACHINE)
    workload = open_workload(config_of(lenient=True), path, MACHINE)
    assert (workload.n_jobs, workload.notes) == (2, {"broken_lines": 1})


def test_cleaning_and_estimates_reach_the_jobs(tmp_path: Path) -> None:
    path = write_log(tmp_path, [1, 2, 3], run_time=[100, 60, 60], requested_processors=[4, 17, 4])
    config = config_of(estimates="actual", cleaning={"oversize": "clamp"})
    workload = open_workload(config, path, MACHINE)
    assert all_jobs(workload)["walltime"] == [100, 60, 60]
    assert all_jobs(workload)["processors"] == [4, 16, 4]
    assert workload.notes == {"oversize": 1}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "holds no job"),
        ("; Version: 2.2\n", {}, "holds no job"),
        ("1 2 3\n", {"lenient": True}, "holds no job(.|\n)*broken_lines 1"),
        (None, {"cleaning": {"cancelled": "drop"}}, "of 2 jobs none is left(.|\n)*cancelled 2"),
        (
            None,
            {"select": {"window": {"start": 10, "end": 20}}},
            "of 2 jobs none is left(.|\n)*workload.select",
        ),
    ],
)
def test_no_job_left_is_told(
    tmp_path: Path, text: str | None, options: dict[str, object], message: str
) -> None:
    path = write_log(tmp_path, [1, 2], status=[5, 5])
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        open_workload(config_of(**options), path, MACHINE)
