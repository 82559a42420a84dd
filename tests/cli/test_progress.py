"""The progress bar, on a terminal and off one."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.cli.conftest import COMMAND, REPOSITORY

LOG = "".join(f"{k} {k * 10} 0 50 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n" for k in range(1, 3000))


@pytest.mark.slow
def test_on_a_terminal_it_tells_jobs_queue_and_time(small):
    (small / "log.swf").write_text(LOG)
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "run", "small.yaml", "--set", "workload.path=log.swf", "--set", "output.trace=none"],
        cwd=small,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.DEVNULL,
        stderr=child,
    )
    os.close(child)
    shown = b""
    while True:
        try:
            shown += os.read(parent, 65536)
        except OSError:  # the other end has closed
            break
    assert process.wait(timeout=120) == 0, shown
    assert b"/2,999 jobs" in shown
    assert b"waiting" in shown


def test_off_a_terminal_there_is_none(mlsim):
    done = mlsim("run", "small.yaml")
    assert "waiting" not in done.err
