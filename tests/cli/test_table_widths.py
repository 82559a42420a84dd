"""What commands print in terminals of several widths, against what they print into a pipe."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

import mlsim
from mlsim.cli import command_output
from mlsim.cli.main import app
from tests.cli.conftest import COMMAND, JOBS, REPOSITORY, SMALL

WIDTHS = (40, 60, 80, 120)
NUMBER = re.compile(r"(?:(?<!\w)[-+])?\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?")
STUDY = """\
of: runs
base: small.yaml
vary:
  batch.backfill: [easy, none]
  application.technique: [STATIC, GSS, FAC2]
  seeds: 3
set: {application.costs.variation: 0.9}
repetitions: seed
columns: technique
metrics: {mean wait (s): wait_time.mean, makespan (s): makespan, utilization: utilization.busy}
relative: {technique: STATIC}
"""
COMMANDS = {
    "summary and metrics": "metrics easy",
    "groups": "metrics easy conservative --by size",
    "weeks": "metrics easy --by week",
    "two runs": "compare easy none",
    "many runs": "compare easy none conservative a-run-with-a-long-name-20240131 --all --labels "
    "easy,none,conservative,a-run-with-a-long-name-20240131",
    "metrics of a section": "compare easy none --metric wait_time --metric loops",
    "loops": "loop small.yaml --run-time 100s --technique STATIC,SS,FAC2 --model cca,dca",
    "logs": "workload describe small.csv other-log-of-2024.csv",
    "predictors": "workload predict small.csv",
    "study's tables": "study study.yaml --out study",
}
SLOW = ("predictors", "study's tables")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some runs of a small scenario, a study of it, and logs."""
    place = tmp_path_factory.mktemp("widths")
    files = {"small.yaml": SMALL, "small.csv": JOBS, "other-log-of-2024.csv": JOBS, "study.yaml": STUDY}
    for name, text in files.items():
        (place / name).write_text(text)
    plain = {"output.trace": "none", "output.pictures": False, "output.passes": True}
    for name, backfill in (("easy", "easy"), ("none", "none"), ("conservative", "conservative")):
        mlsim.run(place / "small.yaml", {"batch.backfill": backfill, **plain}, out=place / name)
    named = {"batch.policy": "SJF", "coordination.rca": False, **plain}
    mlsim.run(place / "small.yaml", named, out=place / "a-run-with-a-long-name-20240131")
    return place


@pytest.fixture
def printed(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return what a command prints, in a terminal of a width or, without one, into a pipe."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")  # a terminal without escape sequences, whose width counts as well
    monkeypatch.setattr(command_output, "_terminal", [])

    def run(line: str, width: int | None) -> str:
        monkeypatch.setenv("COLUMNS", "50" if width is None else str(width))
        out = io.StringIO() if width is None else _Terminal()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", out)
            app(line.split(), standalone_mode=False)
        text = out.getvalue()
        # Lines that name files are not folded, so that they can be copied.
        return "\n".join(one for one in text.splitlines() if not one.startswith(("Results:", "Written:")))

    return run


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in COMMANDS]
)
def test_no_digit_is_cut_in_any_width(name: str, printed: Callable[..., str]) -> None:
    line = COMMANDS[name]
    whole = printed(line, None)
    for width in WIDTHS:
        shown = printed(line, width)
        assert {*NUMBER.findall(shown)} == {*NUMBER.findall(whole)}, f"{width} columns:\n{shown}"
        assert max(map(len, shown.splitlines()), default=0) <= width, f"{width} columns:\n{shown}"
        assert "…" not in shown


@pytest.mark.parametrize("name", ["summary and metrics", "many runs", "logs"])
def test_in_a_pipe_no_line_is_wrapped_whatever_the_environment_says(
    name: str, printed: Callable[..., str]
) -> None:
    whole = printed(COMMANDS[name], None)
    assert max(map(len, whole.splitlines())) > 50, "COLUMNS is 50"
    assert whole.splitlines() == [line.rstrip() for line in whole.splitlines()]
    wide = printed(COMMANDS[name], 400)
    assert whole == wide


def test_a_comparison_is_short_and_explains_its_signs(printed: Callable[..., str]) -> None:
    short = printed("compare easy none", None)
    rows = short.partition("against the first")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) <= 8
    assert "pass time" not in short
    assert "▲ better" not in short or "(--tolerance)" in short
    assert "further metrics" in short
    switched = printed("compare easy a-run-with-a-long-name-20240131", None)
    (row,) = [line.split() for line in switched.splitlines() if line.startswith("coordination.rca")]
    assert row == ["coordination.rca", "on", "off"]
    every = printed("compare easy none --all", None)
    assert len(every.splitlines()) > len(short.splitlines())
    (times,) = [line.split() for line in every.splitlines() if line.startswith("mean pass time")]
    assert len(times) == 3 + 4, "two values with units, and neither difference nor verdict"
    assert "wall-clock times depend" in every


def test_metrics_can_be_named(printed: Callable[..., str]) -> None:
    one = printed("compare easy none --metric wait_time.std", None)
    assert [line.split()[0] for line in one.splitlines() if line.startswith("wait_time")] == ["wait_time.std"]
    section = printed("compare easy none --metric queue_length", None)
    assert "mean queue length" in section
    assert "makespan" not in section
    with pytest.raises(mlsim.InputError, match=r"'wait_tim': no number of these runs.*'wait_time'"):
        printed("compare easy none --metric wait_tim", None)
    with pytest.raises(mlsim.InputError, match="--all and --metric"):
        printed("compare easy none --all --metric makespan", None)


@pytest.mark.slow
def test_a_studys_tables_have_intervals_and_the_best_marked(printed: Callable[..., str], place: Path) -> None:
    text = printed("study study.yaml --out study", None)
    assert re.search(r"\d ± \d", text)
    assert " *" in text
    assert "*: best of its row" in text
    assert "±: 95 % interval of the mean" in text
    page = (place / "study" / "table.md").read_text()
    assert "**" in page
    source = (place / "study" / "table.tex").read_text()
    assert r"\textbf{" in source
    assert r"\,$\pm$\,0." in source


def test_the_width_of_a_real_terminal_is_found(place: Path) -> None:
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 44, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [*COMMAND, "compare", "easy", "none"],
        cwd=place,
        env={**env, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=subprocess.DEVNULL,
    )
    os.close(child)
    shown = b""
    while True:
        try:
            shown += os.read(parent, 65536)
        except OSError:  # the other end has closed
            break
    os.close(parent)
    assert process.wait(timeout=120) == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert 34 < max(map(len, text.splitlines())) <= 44, text
