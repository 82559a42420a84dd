"""The progress bar, on a terminal and off one."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from mlsim._runtime.work_progress import HowFar, how_far, stage
from mlsim.application.profiles import counted_costs
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


def test_what_precedes_the_work_is_shown_by_itself():
    with stage("3 loops", 3) as loops:
        loops.advance()
        with stage("iteration costs", 4, apart=True) as costs:
            costs.advance()
            with stage("a part", 2) as part:
                part.advance()
                inside = how_far()
        behind = how_far()
    assert isinstance(inside, HowFar)
    assert isinstance(behind, HowFar)
    assert inside[:2] == ("iteration costs", 0.375)
    assert behind[:2] == ("3 loops", pytest.approx(1 / 3))


def test_costs_that_are_counted_report_how_many_there_are(monkeypatch, tmp_path):
    monkeypatch.setenv("MLSIM_CACHE", str(tmp_path))
    seen = []

    def counting(name):
        of = getattr(counted_costs, name)

        def count(*values):
            seen.append(how_far()[:2])
            of(*values)

        monkeypatch.setattr(counted_costs, name, count)

    counting("count_steps")
    counting("_count_images")
    counted_costs.escape_counts(counted_costs.MandelbrotImage(4), 10)
    counted_costs.image_counts(8000, counted_costs.SpinImage(), 8000, 0)
    words = "iteration costs of mandelbrot", "iteration costs of psia"
    assert seen == [(words[0], share) for share in (0.0, 0.25, 0.5, 0.75)] + [
        (words[1], 0.0),
        (words[1], 4096 / 8000),
    ]
    assert how_far() is None
