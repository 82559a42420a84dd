"""Ctrl-C where Python drops exceptions, as in the callbacks of the compiler, still ends a command."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, REPOSITORY

LOOP = ["--pes", "64", "--iterations", "1000000000", "--profile", "constant", "--mean", "1ms"]

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
    assert done.stderr == "mlsim: interrupted; no partial files are left\n"


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


_STUCK = """
import os, signal, sys, threading
from pathlib import Path
import numba, numpy as np
import mlsim.cli.main as command
from mlsim._runtime.places import unfinished

@numba.njit(nogil=True)
def spin(flags):
    flags[0] = 1
    while flags[1] == 0:
        flags[0] += 1

def app():
    flags = np.zeros(2, np.int64)
    spin(np.ones(2, np.int64))

    def ask_to_stop():
        while flags[0] == 0:
            pass
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))

    threading.Thread(target=ask_to_stop, daemon=True).start()
    half, directory = Path(".half.1.partial"), Path(".whole.1.partial")
    with unfinished(half, directory):
        half.write_text("a")
        Path("..half.1.partial.7.partial").write_text("b")
        (directory / "inner").mkdir(parents=True)
        spin(flags)

command._run = app
command.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_compiled_code_that_goes_on_is_ended_without_a_trace(name: str, code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STUCK, name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=_terminal,
    )
    assert (done.returncode, done.stderr) == (code, "mlsim: interrupted; no partial files are left\n")
    assert list(tmp_path.iterdir()) == []


PSIA = ("--points", "2000000", "-n", "2000000")
POINTS = "application.costs.parameters.points=2000000"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["loop", "--technique", "SS", "--out", "results", *LOOP], b"loop: "),
        (["loop", "--technique", "GSS,SS,FAC2", *LOOP], b"3 loops: "),
        (
            ["workload", "generate", "lublin", "--jobs", "100000000", "-o", "jobs.csv"],
            b"generating jobs.csv: ",
        ),
        (["workload", "profile", "psia", *PSIA, "-o", "costs.npy"], b"iteration costs of psia: "),
        (
            ["loop", "--pes", "4", "--profile", "psia", "--iterations", "2000000", "--set", POINTS],
            b"iteration costs of psia: ",
        ),
    ],
)
def test_a_command_says_how_far_it_is_and_ends_when_it_is_asked_to(
    words: list[str], said: bytes, tmp_path: Path
) -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=child,
    )
    os.close(child)
    shown = b""
    while said not in shown or b"%" not in shown.split(said)[-1]:
        shown += os.read(parent, 65536)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    shown += os.read(parent, 65536)
    assert (process.returncode, out) == (130, b""), shown
    assert b"interrupted; no partial files are left" in shown
    assert list(tmp_path.iterdir()) == []


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
