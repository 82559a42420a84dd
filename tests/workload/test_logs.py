"""Facts about public logs that the Parallel Workloads Archive and the logs themselves state."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pytest

from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.workload import Field, JobBlock, SwfReader, log_source, open_workload, read_swf, write_swf
from tests.reference.swf import parse

pytestmark = pytest.mark.logs

JOBS = {
    "hpc2n-3k.swf": 3_170,
    "KTH-SP2-1996-2.1-cln.swf.gz": 28_476,
    "SDSC-SP2-1998-4.2-cln.swf.gz": 59_715,
    "HPC2N-2002-2.2-cln.swf.gz": 202_871,
    "LLNL-Thunder-2007-1.1-cln.swf.gz": 121_039,
    "CEA-Curie-2011-2.1-cln.swf.gz": 312_826,
    "UniLu-Gaia-2014-1.swf.gz": 51_987,
    "NASA-iPSC-1993-3.1-cln.swf.gz": 18_239,
}


def log(directory: Path, name: str) -> Path:
    path = directory / name
    if not path.exists():
        pytest.skip(f"there is no {name} in {directory}")
    return path


def config_of(**values: object) -> WorkloadConfig:
    return WorkloadConfig.model_validate({"path": "log.swf", **values})


@pytest.mark.parametrize("name", JOBS)
def test_every_job_is_read(logs_dir: Path, name: str) -> None:
    reader = SwfReader(log(logs_dir, name))
    assert sum(map(len, reader.blocks())) == JOBS[name]
    assert "MaxProcs" in reader.header


def test_the_log_with_extra_columns(logs_dir: Path) -> None:
    path = log(logs_dir, "wagap-2013.swf.xz")
    with pytest.raises(InputError, match=r"run_time \(column 4\).*seconds from 0 up, or -1"):
        read_swf(path)
    reader = SwfReader(path, lenient=True, extras=True)
    blocks = list(reader.blocks())
    assert sum(map(len, blocks)) + reader.broken_lines == 17_900
    assert reader.broken_lines == 2
    assert {len(words) for block in blocks for words in block.extras} == {3}


def test_agrees_with_the_obvious_reader(logs_dir: Path) -> None:
    path = log(logs_dir, "hpc2n-3k.swf")
    rows, lines, broken = parse(path.read_text())
    block = read_swf(path)[1]
    assert broken == []
    assert block.lines.tolist() == lines
    np.testing.assert_array_equal(block.columns.T, rows)


def test_a_real_log_reads_back_equal(logs_dir: Path, tmp_path: Path) -> None:
    header, block = read_swf(log(logs_dir, "SDSC-SP2-1998-4.2-cln.swf.gz"))
    write_swf(tmp_path / "again.swf.gz", header, {field: block.column(field) for field in Field})
    again_header, again = read_swf(tmp_path / "again.swf.gz")
    assert again_header == header
    np.testing.assert_array_equal(again.columns, block.columns)


def test_jobs_without_run_time_are_dropped(logs_dir: Path) -> None:
    path = log(logs_dir, "hpc2n-3k.swf")
    workload = open_workload(
        config_of(cleaning={"zero_run_time": "drop", "underestimate": "clamp"}), path, 240
    )
    jobs = JobBlock.concatenate(list(workload.blocks()))
    assert workload.n_jobs == len(jobs) == 3_145
    assert workload.notes == {"unknown_run_time": 25, "underestimate": 320}
    assert jobs.submit_time[0] == 0
    assert jobs.is_ordered()
    assert (jobs.walltime >= jobs.run_time).all()


def test_the_log_that_is_not_sorted(logs_dir: Path) -> None:
    workload = open_workload(config_of(), log(logs_dir, "LLNL-Thunder-2007-1.1-cln.swf.gz"), 4_008)
    assert workload.notes["out_of_order"] == 808
    assert workload.notes["no_processors"] + workload.notes["unknown_submit_time"] == 2_248
    jobs = JobBlock.concatenate(list(workload.blocks()))
    assert jobs.is_ordered()
    assert (jobs.processors >= 1).all()


def test_most_intensive_day_by_a_sliding_walk(logs_dir: Path) -> None:
    path = log(logs_dir, "CEA-Curie-2011-2.1-cln.swf.gz")
    all_of_it = open_workload(config_of(), path, 93_312)
    inside: deque[float] = deque()
    most = 0
    for block in all_of_it.blocks():
        for time in block.submit_time.tolist():
            inside.append(time)
            while inside[0] <= time - 86_400:
                inside.popleft()
            most = max(most, len(inside))
    workload = open_workload(config_of(select={"most_intensive": "24 h"}), path, 93_312)
    jobs = JobBlock.concatenate(list(workload.blocks()))
    assert workload.n_jobs == len(jobs) == most
    assert jobs.submit_time[0] == 0
    assert jobs.submit_time[-1] < 86_400


@pytest.mark.parametrize("name", ["HPC2N-2002-2.2-cln.swf.gz", "LLNL-Thunder-2007-1.1-cln.swf.gz"])
def test_streaming_gives_what_holding_gives(
    logs_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(logs_dir, name)
    held = open_workload(config_of(), path, 240)
    monkeypatch.setattr(log_source, "HELD_JOBS", 1_000)
    streamed = open_workload(config_of(), path, 240)
    assert (streamed.n_jobs, streamed.notes, streamed.origin) == (held.n_jobs, held.notes, held.origin)
    one, other = (JobBlock.concatenate(list(workload.blocks())) for workload in (held, streamed))
    for column in ("job_id", "submit_time", "run_time", "walltime", "processors", "user", "status"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))
