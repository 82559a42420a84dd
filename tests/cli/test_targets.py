"""Where results go, whatever the user's code does; what kills leave; and what messages may contain."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlsim.cli import command_output
from mlsim.errors import printable
from mlsim.experiment.manifest import Owner
from mlsim.traces import opened

WANDERS = """\
import os

class Wanders:
    def __init__(self):
        os.chdir("elsewhere")
    def key(self, now, jobs):
        return jobs.submit_time
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "study"])
def test_a_plugin_that_changes_the_directory(small: Path, mlsim, command: str) -> None:
    (small / "elsewhere").mkdir()
    (small / "wanders.py").write_text(WANDERS)
    policy = "batch.policy=./wanders.py:Wanders"
    if command == "run":
        ended = mlsim("run", "small.yaml", "--set", policy, "--out", "out", "-q", timeout=300)
    else:
        (small / "study.yaml").write_text(
            "of: runs\nbase: small.yaml\nset: {batch.policy: ./wanders.py:Wanders, output.trace: none}\n"
            "vary: {seed: [1, 2]}\n"
        )
        ended = mlsim("study", ".", "--out", "out", "-q", "-j", "1", timeout=300)
    assert ended.code == 0, ended.err
    assert (small / "out" / ("summary.json" if command == "run" else "table.md")).is_file()
    assert not list((small / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "log.swf.gz", "log.csv.xz"])
def test_what_a_killed_command_leaves_is_removed_by_the_next_one(tmp_path: Path, name: str) -> None:
    code = (
        "import os, sys, signal\n"
        "import mlsim.workload.workload_jobs as named\n"
        "def killed(block):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "named.log_of = killed\n"
        "sys.argv = ['mlsim', 'workload', 'generate', 'poisson', '--jobs', '50', '-o', sys.argv[1]]\n"
        "from mlsim.cli.main import main; main()\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / name)], capture_output=True, timeout=120
    )
    assert killed.returncode == -9, killed.stderr
    assert list(tmp_path.iterdir())
    command_output._clear(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_names_that_a_writer_gives_meanwhile_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    token = Owner.this_process().token.replace(str(os.getpid()), str(ended.pid), 1)
    ended.wait()
    for left in (f".log.{token}.partial.csv", f"..log.{token}.partial.csv.{ended.pid}.partial"):
        (tmp_path / left).touch()
    command_output._clear(tmp_path / "log.csv")
    assert not list(tmp_path.iterdir())


def test_messages_do_not_change_the_terminal() -> None:
    assert printable("a \x1b[31m b\u202ec\x9b\n  d\te … é") == "a \\x1b[31m b\\u202ec\\x9b\n  d\te … é"


def test_a_command_escapes_what_the_user_wrote(small: Path, mlsim) -> None:
    ended = mlsim("check", "no\x1b[31mred\u202e.yaml")
    assert ended.code == 2
    assert "\\x1b[31mred\\u202e" in ended.err
    assert "\x1b" not in ended.err
    assert "\u202e" not in ended.err


def test_a_full_disk_names_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    otf2 = pytest.importorskip("otf2")
    (tmp_path / "t.otf2").touch()

    class Trace:
        def __enter__(self) -> Trace:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(otf2.reader, "open", lambda _: Trace())
    monkeypatch.setattr("mlsim.traces.trace_reader.Trace", lambda trace, _: trace)
    with pytest.raises(OSError, match="No space left") as raised, opened(tmp_path / "t.otf2"):
        raise OSError(errno.ENOSPC, "No space left on device", "target.json")
    assert raised.value.filename == "target.json"
