"""Helpers for tests of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from mlsim.cli.main import main; main()"]

SMALL = """\
name: small
seed: 3
platform:
  nodes:
    - {name: n, count: 4, cores: 4}
workload:
  path: small.csv
  mapping: packed
batch: {policy: FCFS, backfill: easy, on_overrun: extend}
application:
  model: loop
  iterations: {per_pe: 4}
  costs: {profile: job, variation: 0.3}
  technique: GSS
coordination: {rca: on}
output: {trace: chunks}
"""

JOBS = """\
job_id,submit_time,run_time,estimate,processors
1,0,100,120,16
2,1,50,60,4
3,2,80,90,12
4,3,10,20,8
"""


@dataclass(frozen=True)
class Ended:
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


def uncounted() -> dict[str, str]:
    """Return the environment of a process whose lines are not counted.

    Coverage writes a file when a process ends, which a full disk refuses, and looks on, so that
    none ends at once.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A directory with a small scenario, ``small.yaml``, and its workload."""
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "small.csv").write_text(JOBS)
    return tmp_path


@pytest.fixture
def mlsim(small: Path):
    """Run the command line in the small scenario's directory, in a process of its own."""

    def run(*arguments: str, env: dict[str, str] | None = None, timeout: float = 120) -> Ended:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=small,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "100", **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run
