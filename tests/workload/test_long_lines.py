"""A line that is too long is refused by file and line before memory holds it, also in a small archive."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlsim._files import LONGEST_LINE, bounded_lines, read_lines
from mlsim.errors import InputError
from mlsim.learning.energy_classes import read_samples
from tests.cli.conftest import COMMAND, REPOSITORY

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_MEGABYTES = 512
_BEGINNINGS = {
    "log.csv": "job_id,submit_time,run_time,walltime,processors\n1,0,10,20,2\n2,1,5,",
    "log.swf": "; Version: 2.2\n; MaxProcs: 16\n1 0 0 ",
    "sacct.txt": "JobIDRaw|Submit|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State\n"
    "7|2026-03-01T08:00:00|2026-03-01T09:00:00|3600|120|4|COMPLETED\n8|",
    "pbs": "12/21/2026 15:00:00;Q;6.host;queue=q\n12/21/2026 15:00:01;Q;7.host;queue=q\n"
    "12/21/2026 15:27:00;E;",
    "sge": "# Version: 8.1\nq:h:g:u:j:1:sge:0:1310761621:1311095354:1311095414:0:0:60:60.0:0.0:1.0:"
    "0:0:0:0:1:0:0:0.0:2:0:0:0:4:5:NONE:d:mype:2:0:60.1:7.3:0.0:-l h_rt=9 -pe mype 2:0.0:NONE:1.0:0:0\nq:h:",
}
_OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, ".zst": zstd.open, "": open}
PEAK = """\
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""Prints how much memory a command took [KiB]."""


def written(path: Path, beginning: str, megabytes: int = _MEGABYTES) -> Path:
    with _OPENERS[path.suffix if path.suffix in _OPENERS else ""](path, "wb") as file:
        file.write(beginning.encode())
        for _ in range(megabytes):
            file.write(b"7" * (1 << 20))
    return path


def refused(directory: Path, *words: str) -> str:
    """Run a command that is refused in little memory; return what it says."""
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, *COMMAND, *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 2, ended.stderr
    assert int(ended.stdout) < 300_000
    return ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("name", _BEGINNINGS)
def test_a_line_of_half_a_gigabyte_in_a_small_archive(tmp_path: Path, name: str, suffix: str) -> None:
    log = written(tmp_path / f"{name}{suffix}", _BEGINNINGS[name])
    assert log.stat().st_size < 2_000_000
    words = refused(tmp_path, "workload", "convert", log.name, "out.swf")
    assert f"{log.name}:3: has a line of more than 1,048,576 bytes" in words
    assert not (tmp_path / "out.swf").exists()


def test_a_long_line_of_costs(tmp_path: Path) -> None:
    costs = written(tmp_path / "costs.csv", "cost\n1\n")
    words = refused(tmp_path, "loop", "--pes", "2x2", "--profile", "file", "--costs", costs.name)
    assert "costs.csv:3: has a line of more than 1,048,576 bytes; is it a column of costs?" in words


@pytest.mark.parametrize("suffix", [".xz", ".bz2", ""])
def test_a_long_line_of_power(tmp_path: Path, suffix: str) -> None:
    table = written(tmp_path / f"power.csv{suffix}", "job_id,time,power\n1,0,10\n2,", 64)
    with pytest.raises(InputError, match=r":3: has a line of more than .*; is it a table of power\?"):
        read_samples(table)


def test_lines_just_as_long_as_they_may_be(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        text = "x" * LONGEST_LINE + end + "y" + end
        (tmp_path / "long").write_bytes(text.encode())
        assert read_lines(tmp_path / "long") == text.splitlines()
        pieces = [text[at : at + 7777].encode() for at in range(0, len(text), 7777)]
        assert b"".join(bounded_lines(tmp_path / "long", pieces)) == text.encode()
