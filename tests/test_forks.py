"""Pools of processes that call mlsim: by spawn and forkserver; after a fork an error, and never a hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

POOL = """
import sys
from multiprocessing import get_context
import polars as pl
import mlsim

MACHINE = {"platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}]}, "workload": {"mapping": "node"}}

def one(k):
    jobs = pl.DataFrame({"job_id": [1], "submit_time": [0], "run_time": [100 + k], "walltime": [500],
                         "processors": [2]})
    return mlsim.run(MACHINE, workload=jobs).summary["makespan"]

def other(_):
    return mlsim.run("none.yaml")

if __name__ == "__main__":
    how, before, function = sys.argv[1], sys.argv[2], sys.argv[3]
    if before == "run":
        one(0)
    elif before == "polars":
        pl.DataFrame({"a": [1, 2]}).write_parquet("x.parquet")
    with get_context(how).Pool(2) as pool:
        try:
            print(pool.map(globals()[function], range(4)))
        except mlsim.InputError as error:
            print("refused:", error)
"""


def pool(directory: Path, *words: str) -> str:
    (directory / "pool.py").write_text(POOL)
    ended = subprocess.run(
        [sys.executable, "pool.py", *words], cwd=directory, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_spawn_and_forkserver_give_the_values(tmp_path: Path, how: str) -> None:
    assert pool(tmp_path, how, "run", "one") == "[100.0, 101.0, 102.0, 103.0]"


@pytest.mark.slow
def test_a_fork_before_anything_has_run_gives_the_values(tmp_path: Path) -> None:
    assert pool(tmp_path, "fork", "nothing", "one") == "[100.0, 101.0, 102.0, 103.0]"


@pytest.mark.parametrize("before", ["run", "polars"])
@pytest.mark.parametrize("function", ["one", "other"])
def test_a_fork_after_a_run_is_refused(tmp_path: Path, before: str, function: str) -> None:
    said = pool(tmp_path, "fork", before, function)
    assert said.startswith("refused: this process (")
    assert "was forked" in said
    assert "spawn or forkserver" in said
