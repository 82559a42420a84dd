"""Processes that mlsim starts: where they are started, what they see, and what becomes of their failures."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import mlsim
from mlsim._runtime.processes import DEVNULL, Helper, HelperEndedError, call, has_children, python, start
from mlsim.errors import MlsimError
from mlsim.experiment.study import load_study, run_study

PACKAGE = Path(mlsim.__file__).parent
STARTS = re.compile(r"\bsubprocess\b|\bmultiprocessing\b|ProcessPoolExecutor|os\.fork|os\.spawn|os\.exec")
ELSEWHERE = {
    "_runtime/processes.py",
    "experiment/background_compile.py",  # asks whether it is one of several processes
    "mpi/rca/agent.py",  # the user's commands, by asyncio
    "_runtime/forks.py",  # says in a message what to use
}
STUDY = """\
of: loops
base: loop.yaml
vary: {application.technique: [SS, GSS], seed: [1, 2]}
"""
LOOP = """\
platform: {nodes: [{name: n, count: 1, cores: 2}]}
application: {iterations: {count: 40}, costs: {profile: constant, mean: 1 ms}}
"""


def test_one_module_starts_processes() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if STARTS.search(path.read_text(encoding="utf-8"))
    }
    assert found == ELSEWHERE


@pytest.mark.parametrize("name", ["mlsim", "numpy", "socket", "polars"])
def test_workers_of_a_study_execute_no_file_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "loop.yaml").write_text(LOOP)
    (tmp_path / f"{name}.py").write_text("open('executed', 'w').close()\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    rows = run_study(load_study(tmp_path), out=tmp_path / "out", jobs=2)
    assert [row.failed for row in rows] == [""] * 4
    assert not (tmp_path / "executed").exists()


def test_the_reason_of_a_failure_reaches_the_parent() -> None:
    helper = Helper("mlsim._runtime.processes:no_such_function")
    helper.send(1)
    with pytest.raises(MlsimError, match=r"AttributeError: .*no_such_function"):
        helper.receive()
    helper.kill()
    helper = Helper("mlsim.errors:OutputError")
    helper.send("what it says")
    assert str(helper.receive()) == "what it says"
    helper.kill()


def test_errors_of_mlsim_come_as_they_are() -> None:
    helper = Helper("mlsim.scenario:load")
    helper.send("no/such.yaml")
    with pytest.raises(mlsim.InputError, match="there is no such file"):
        helper.receive()
    helper.kill()


def test_a_helper_that_has_ended_says_how() -> None:
    helper = Helper("signal:raise_signal")
    helper.send(signal.SIGKILL)
    with pytest.raises(HelperEndedError) as ended:
        helper.receive()
    assert ended.value.code == -signal.SIGKILL


def test_an_error_that_nothing_catches_is_a_sentence() -> None:
    done = call(python("raise OSError(28, 'No space left on device', 'results')"), 60.0)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("mlsim: results: cannot be written: No space left on device")
    assert done.err.count("\n") == 1
    done = call(python("raise KeyError('x')"), 60.0)
    assert done.err.startswith("mlsim: internal error: KeyError: 'x'")
    assert "Traceback" not in done.err


def test_what_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """A process that another one has started holds the pipe, and would be waited for otherwise."""
    code = (
        "import subprocess, sys, signal\n"
        "held = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(held.pid))\n"
        "signal.pause()\n"
    )
    with pytest.raises(TimeoutError, match="not done after 2 s"):
        call(python(code), 2.0)
    pid = int((tmp_path / "pid").read_text())
    with suppress(ProcessLookupError):  # it has ended already
        ended = os.pidfd_open(pid)
        assert select.select([ended], [], [], 30.0)[0]  # the signal was sent; death may take a moment
        os.close(ended)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell")
def test_whether_a_process_has_children(tmp_path: Path) -> None:
    process = start(python("import signal; signal.pause()"), out=DEVNULL)
    try:
        assert has_children(os.getpid())
        assert not has_children(process.pid)
    finally:
        process.kill()
        process.wait()
