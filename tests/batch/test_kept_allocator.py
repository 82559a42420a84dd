"""Allocators of the user's own are asked by kernels that are kept on disk, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = Path(__file__).parents[2] / "scenarios" / "custom" / "allocator.yaml"


@pytest.mark.slow
def test_a_process_with_kept_kernels_asks_the_allocator(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from mlsim.cli.main import main; main()",
        "run",
        str(SCENARIO),
        "--quiet",
        "--set",
        "output.pictures=off",
    ]
    for name in ("first", "second"):  # the first keeps what the second calls
        done = subprocess.run(
            [*command, "--out", str(tmp_path / name)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    first, second = (tmp_path / name / "jobs.parquet" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
