"""Ctrl-C where Python drops exceptions, as in the callbacks of the compiler, still ends a command."""

from __future__ import annotations

import os
import signal
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

command._run = app
command.main()
"""


def _terminal() -> None:
    """Have a closed terminal end the process, as outside of nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@pytest.mark.parametrize("then", ["fails", "goes on"])
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_an_interrupt_that_was_dropped(then: str, name: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, then, name],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        preexec_fn=_terminal,
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
    assert done.stderr.startswith("mlsim: internal error: RuntimeError: no compiled object yet; ")
    assert len(done.stderr.splitlines()) == 1
    assert "`mlsim --debug`" in done.stderr


def test_the_traceback_is_shown_for_reports() -> None:
    program = _PROGRAM.replace("ctypes.CFUNCTYPE", "# ctypes.CFUNCTYPE")
    done = subprocess.run(
        [sys.executable, "-c", program, "fails", "SIGINT"],
        env={**os.environ, "MLSIM_DEBUG": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert "RuntimeError: no compiled object yet\nmlsim: internal error" in done.stderr


def test_under_nohup_a_closed_terminal_is_no_reason_to_stop() -> None:
    program = _PROGRAM.replace("time.sleep(60)", "print('done')")
    done = subprocess.run(
        [sys.executable, "-c", program, "goes on", "SIGHUP"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        preexec_fn=_nohup,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


_LAST_RESORT = """
import sys
import mlsim.cli.main as command

class PanicException(BaseException):
    pass

def app():
    raise {error}

command._run = app
command.main()
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("MemoryError('Unable to allocate 4 EiB')", "there is not enough memory"),
        ("RecursionError('maximum recursion depth exceeded')", "internal error: RecursionError: maximum"),
        ("OverflowError('int too large to convert')", "internal error: OverflowError: int too large"),
        ("OSError(28, 'No space left on device')", "a file: cannot be written: No space left on device"),
        ("OSError(13, 'Permission denied')", "internal error: PermissionError: [Errno 13] Permission"),
        ("UnicodeEncodeError('ascii', 'x', 0, 1, 'ordinal')", "internal error: UnicodeEncodeError: 'ascii'"),
        ("PanicException('index out of bounds')", "internal error: PanicException: index out of bounds"),
        ("KeyError()", "internal error: KeyError: no message"),
    ],
)
def test_the_last_resort_is_a_sentence(error: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LAST_RESORT.format(error=error)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"mlsim: {words}"), done.stderr
    assert len(done.stderr.splitlines()) == 1
