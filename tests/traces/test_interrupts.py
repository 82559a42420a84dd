"""A signal while a trace is converted: no traceback of the library that reads, and nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlsim.experiment import loop_from_mapping, run_loops
from tests.cli.conftest import COMMAND, REPOSITORY

pytest.importorskip("otf2")

SAID = "mlsim: interrupted; no partial files are left\n"
CODES = {"SIGINT": 130, "SIGTERM": 143}
_IN_CALLBACK = """
import os, signal, sys
from otf2.attribute_list import AttributeList
made, calls, number = AttributeList._construct, [], getattr(signal, sys.argv.pop(1))

def interrupted(*arguments):
    calls.append(0)
    if len(calls) == 3000:
        os.kill(os.getpid(), number)
    return made(*arguments)

AttributeList._construct = interrupted
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("traced") / "run"
    loop = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 8}]},
        "application": {
            "iterations": {"count": 40_000},
            "costs": {"profile": "constant", "mean": "1 ms"},
            "technique": "SS",
        },
        "output": {"trace": "chunks", "pictures": False},
    }
    run_loops([loop_from_mapping(loop)], out=place)
    return place


def started(program: str, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", f"{program}\n{COMMAND[2]}", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".parquet"])
def test_a_signal_amid_a_callback_of_the_library(run: Path, tmp_path: Path, suffix: str, name: str) -> None:
    process = started(_IN_CALLBACK, name, "trace", "convert", run, "-o", tmp_path / f"out{suffix}")
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (CODES[name], SAID)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", CODES)
def test_a_signal_when_the_first_bytes_are_written(run: Path, tmp_path: Path, name: str) -> None:
    process = started("", "trace", "convert", run, "-o", tmp_path / "out.json")
    end = time.monotonic() + 120
    while not any(path.stat().st_size for path in tmp_path.iterdir()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
    process.send_signal(getattr(signal, name))
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (CODES[name], SAID)
    assert not list(tmp_path.iterdir())
