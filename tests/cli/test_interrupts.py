"""Ctrl-C where Python drops exceptions, as in the callbacks of the compiler, still ends a command."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, os, signal, sys, time
import mlsim.cli.main as command

def ask_to_stop():
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))

def app():
    ctypes.CFUNCTYPE(None)(ask_to_stop)()  # what is raised in there is dropped
    if sys.argv[1] == "fails":
        raise RuntimeError("no compiled object yet")
    time.sleep(60)

command.app = app
command.main()
"""


@pytest.mark.parametrize("then", ["fails", "goes on"])
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_that_was_dropped(then: str, name: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, then, name], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == "mlsim: interrupted; nothing half-written is left\n"


def test_an_error_of_our_own_is_no_interrupt() -> None:
    program = _PROGRAM.replace("ctypes.CFUNCTYPE", "# ctypes.CFUNCTYPE")
    done = subprocess.run(
        [sys.executable, "-c", program, "fails", "SIGINT"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "RuntimeError: no compiled object yet" in done.stderr
