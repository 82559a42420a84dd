"""What commands print, where nothing can be printed, in poor encodings and in narrow terminals."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from mlsim.cli import command_output
from mlsim.experiment.manifest import verify
from tests.cli.conftest import COMMAND, REPOSITORY

FAST = "--set output.trace=none --set output.pictures=off"
POOR = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


def shell(small: Path, words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command, in which ``mlsim`` stands for the command line."""
    script = f'mlsim() {{ "{sys.executable}" -c "from mlsim.cli.main import main; main()" "$@"; }}\n{words}'
    return subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=small,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("where", "code", "told"),
    [
        ("> /dev/full", 1, "standard output cannot be written: No space left on device"),
        ("--json > /dev/full 2> /dev/full", 1, ""),
        (">&- 2>&-", 0, ""),
    ],
)
def test_results_are_kept_where_nothing_can_be_printed(small, where, code, told):
    done = shell(small, f"mlsim run small.yaml {FAST} {where}")
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert verify(small / "runs" / "small-001").damaged == ()


@pytest.mark.parametrize("command", ["schema", "--help", "check small.yaml"])
def test_no_command_fails_over_a_full_disk_behind_its_output(small, command):
    done = shell(small, f"mlsim {command} > /dev/full")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("mlsim: standard output cannot be written: No space left on device")


def test_a_reader_that_has_gone_is_told_nothing(small):
    done = shell(small, "mlsim list options | head -n 1")
    assert done.stderr == ""


@pytest.mark.parametrize(
    "command", [f"run small.yaml {FAST}", "list techniques", "run --help", "run nothing"]
)
def test_a_poor_encoding_and_a_narrow_terminal_are_no_reason_to_fail(small, command):
    done = shell(small, f"mlsim {command}", COLUMNS="1", **POOR)
    assert done.returncode == (2 if command == "run nothing" else 0), done.stderr
    text = done.stdout + done.stderr
    assert text.isascii()
    assert "Traceback" not in text
    assert "?" not in text, "a letter has no look-alike"
    if command.startswith("run small"):
        assert "4 submitted, 4 completed" in text


@pytest.mark.parametrize(
    ("given", "columns"), [("1", 40), ("60", 60), ("0", 80), ("abc", 80), ("99", 99), ("1000000000", 1000)]
)
def test_any_width_is_readable(monkeypatch, given, columns):
    monkeypatch.setenv("COLUMNS", given)
    command_output._widen()
    assert Console().width == columns


@pytest.mark.parametrize(
    ("text", "plain"),
    [("µs … 3 × 4 − 1", "us ... 3 x 4 - 1"), ("α·σ² ≤ ⌈R/P⌉", "alpha*sigma2 <= ceil(R/P)"), ("é 漢", "e ?")],
)
def test_letters_have_look_alikes(text, plain):
    codecs.register_error("look-alike", command_output._readable)
    assert text.encode("ascii", "look-alike").decode() == plain


def test_names_that_are_no_text_can_be_printed(small):
    name = os.fsdecode(b"caf\xe9.yaml")
    (small / name).write_text((small / "small.yaml").read_text())
    done = subprocess.run(
        [*COMMAND, "check", name],
        cwd=small,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0
    assert done.stdout.startswith(b"caf?.yaml: ok")
