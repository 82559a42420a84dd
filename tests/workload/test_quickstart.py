from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mlsim.scenario import WorkloadConfig
from mlsim.workload import JobBlock, open_workload, read_swf

REPOSITORY = Path(__file__).resolve().parents[2]


def make(path: Path, seed: int) -> bytes:
    tool = REPOSITORY / "tools" / "make_quickstart_workload.py"
    command = [sys.executable, str(tool), "--seed", str(seed), "--out", str(path)]
    subprocess.run(
        command, check=True, capture_output=True, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)}
    )
    return path.read_bytes()


def test_the_seed_decides_the_bytes(tmp_path: Path) -> None:
    first = make(tmp_path / "1.swf", 1)
    assert make(tmp_path / "again.swf", 1) == first
    assert make(tmp_path / "2.swf", 2) != first
    assert (REPOSITORY / "traces" / "quickstart.swf").read_bytes() == first


def test_the_file_is_what_it_says() -> None:
    path = REPOSITORY / "traces" / "quickstart.swf"
    header, _ = read_swf(path)
    workload = open_workload(WorkloadConfig.model_validate({"path": path.name}), path, 256)
    jobs = JobBlock.concatenate(list(workload.blocks()))
    assert "SYNTHETIC" in header["Note"][0]
    assert int(str(header["MaxProcs"])) == 256
    assert workload.notes == {}
    assert 150 <= workload.n_jobs <= 250
    assert jobs.submit_time[-1] <= 6 * 3600
    assert 1 <= jobs.processors.min() <= jobs.processors.max() <= 256
    assert jobs.run_time.max() <= 2 * 3600
    assert (jobs.walltime > jobs.run_time).all()
