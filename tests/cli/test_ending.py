"""How a process ends: at once where nothing is left to do, else as Python ends others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import REPOSITORY, Ended, uncounted

_PROGRAM = """
import atexit, os, sys
import mlsim.cli.main as command

class Late:
    def __del__(self, write=os.write):
        write(1, b"taken apart\\n")

late = Late()
atexit.register(print, "registered")

def app():
    print("printed")
    {before}
    sys.exit(3)

command._run = app
command.main()
"""
_PLAIN = ("--set", "output.trace=none", "--set", "output.pictures=off")


def told(before: str, **env: str) -> list[str]:
    """Run a command that ends with 3; return what is printed, at last by objects that Python destroys."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(before=before)],
        capture_output=True,
        text=True,
        check=False,
        env={**uncounted(), "PYTHONPATH": str(REPOSITORY), **env},
    )
    assert done.returncode == 3, done.stderr
    return done.stdout.split("\n")[:-1]


def test_a_command_ends_at_once_when_all_is_written() -> None:
    assert told("") == ["printed", "registered"]


def test_a_command_that_wrote_tables_ends_at_once() -> None:
    """Threads of Polars ask for the frames, and are threads to Python from then on."""
    write = "import io, threading, polars as pl; from mlsim._files.parquet import write_frames; "
    write += (
        "write_frames(io.BytesIO(), (threading.current_thread() and pl.DataFrame({'a': [1]}) for _ in 'ab'))"
    )
    assert told(write) == ["printed", "registered"]


@pytest.mark.parametrize(
    "before",
    [
        "sys.setprofile(lambda *_: None)",
        "sys.settrace(lambda *_: None)",
        "sys.modules['mpi4py'] = sys",
        "import threading, time; threading.Thread(target=time.sleep, args=(0.1,)).start()",
        "import mlsim.plugins; mlsim.plugins._loaded.add('mine')",
    ],
)
def test_who_needs_python_to_end_as_usual_gets_it(before: str) -> None:
    assert told(before) == ["printed", "registered", "taken apart"]


def test_what_the_users_code_leaves_open_is_written(mlsim: Callable[..., Ended], small: Path) -> None:
    left = small / "left.txt"
    (small / "mine.py").write_text(
        f"file = open({str(left)!r}, 'w')\nfile.write('all of it')\n"
        "class Mine:\n    def key(self, now, jobs):\n        return jobs.submit_time\n"
    )
    done = mlsim("run", "small.yaml", "--quiet", *_PLAIN, "--set", "batch.policy=./mine.py:Mine")
    assert done.code == 0, done.err
    assert left.read_text() == "all of it"


@pytest.mark.parametrize("name", [None, "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"])
def test_numpy_starts_no_threads_unless_told_to(name: str | None) -> None:
    own = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "GOTO_NUM_THREADS")
    environment = {key: value for key, value in os.environ.items() if key not in own}
    program = (
        "import os\nfrom mlsim._runtime.memory import start_no_threads\nstart_no_threads()\n"
        f"print(*(os.environ.get(name) for name in {own[:2]}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment | ({name: "4"} if name else {}) | {"PYTHONPATH": str(REPOSITORY)},
    )
    expected = {None: "1 None", own[0]: "4 None", own[1]: "None 4"}
    assert done.stdout.strip() == expected[name]
