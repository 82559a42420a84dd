"""Kernels that other processes compile while a run needs others."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys

import pytest

import mlsim
from mlsim import _jit
from mlsim._jit.kernel_store import wait_for_room
from mlsim.experiment import background_compile
from mlsim.scenario import from_mapping

RUN = """
import json, sys
import mlsim
from mlsim.experiment import background_compile
from mlsim.scenario import from_mapping

started = []
start = background_compile._start
def noted(room, scenario):
    started.append(room)
    return start(room, scenario)
background_compile._start = noted
result = mlsim.run(from_mapping(json.loads(sys.argv[1])))
from mlsim.execution_models.dca import run
seconds = result.summary["self"]["compile_time"]
ends = result.jobs["end_time"].to_list()
compiled = run._dispatcher is not None
print(json.dumps({"started": started, "compiled": compiled, "ends": ends, "seconds": seconds}))
"""


def scenario(tmp_path, **application):
    (tmp_path / "log.csv").write_text(
        "job_id,submit_time,run_time,estimate,processors\n1,0,100,200,4\n2,1,50,100,8\n", encoding="utf-8"
    )
    return {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]},
        "workload": {"path": str(tmp_path / "log.csv"), "mapping": "packed"},
        "batch": {"on_overrun": "extend"},
        "application": {"model": "loop", "iterations": {"per_pe": 4}, "technique": "GSS", **application},
    }


@pytest.fixture
def unused_kernels(monkeypatch):
    """Have nothing on disk, as far as one can see."""
    monkeypatch.setattr(_jit, "is_compiled", lambda room, kernel: False)


def rooms(mapping, **output):
    missing = dict(background_compile._missing(from_mapping(mapping | {"output": output})))
    return [room for room in missing if room != "batch"]


def test_rooms_are_those_that_the_scenario_needs(tmp_path, unused_kernels):
    assert rooms(scenario(tmp_path), trace="chunks") == ["execution_models", "record"]
    assert rooms(scenario(tmp_path), trace="none") == ["execution_models"]
    rigid = scenario(tmp_path) | {"application": {"model": "rigid"}}
    assert rooms(rigid, trace="jobs") == []


def test_code_of_the_user_is_not_run_ahead(tmp_path, unused_kernels):
    (tmp_path / "mine.py").write_text("def rule(state):\n    return 1\n", encoding="utf-8")
    mine = f"{tmp_path}/mine.py:rule"
    assert rooms(scenario(tmp_path, technique=mine), trace="none") == []
    assert rooms(scenario(tmp_path, execution={"model": mine}), trace="none") == []


def test_nothing_is_compiled_ahead_that_is_on_disk_or_interpreted(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit, "is_compiled", lambda room, kernel: True)
    assert rooms(scenario(tmp_path), trace="chunks") == []


def test_who_waits_for_a_room_waits_once():
    waited = []
    _jit.while_elsewhere("somewhere", lambda: waited.append(1))
    assert wait_for_room("somewhere")
    assert not wait_for_room("somewhere")
    _jit.while_elsewhere("somewhere", lambda: waited.append(2))
    _jit.no_longer_elsewhere("somewhere")
    assert not wait_for_room("somewhere")
    assert waited == [1]


def test_files_of_the_user_are_not_taken_for_modules(tmp_path, monkeypatch):
    """Such as those of the current directory, which Python may look through first."""
    (tmp_path / "json.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.py").touch()
    monkeypatch.chdir(tmp_path)
    # All but the last line, which compiles.
    seen = "\nimport json, mlsim, mine\nprint(json.dumps([json.__file__, mlsim.__file__]))"
    monkeypatch.setattr(
        background_compile,
        "_CODE",
        background_compile._CODE[: background_compile._CODE.index("compile_room(sys")] + seen,
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "elsewhere")])
    made = from_mapping(scenario(tmp_path))
    done = subprocess.run(
        background_compile._command("record", made), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [json.__file__, mlsim.__file__]


def test_processes_end_with_the_run(tmp_path, unused_kernels, monkeypatch):
    started = []

    def noted(command, **options):
        started.append(popen(command, **options))
        return started[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr(background_compile, "_CODE", "import signal; signal.pause()")
    monkeypatch.setattr(background_compile, "_may_start", lambda: True)
    made = from_mapping(scenario(tmp_path) | {"output": {"trace": "chunks"}})

    def interrupted():
        with background_compile.compiled_beside(made):
            assert [process.poll() for process in started] == [None, None]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2
    assert not wait_for_room("application")
    assert not wait_for_room("record")


def test_none_are_started_on_one_core_or_by_one_of_several_processes(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert background_compile._may_start()
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    assert not background_compile._may_start()
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert not background_compile._may_start()


def test_a_run_goes_on_where_no_process_can_be_started(tmp_path, unused_kernels, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    monkeypatch.setattr(background_compile, "_may_start", lambda: True)
    with background_compile.compiled_beside(from_mapping(scenario(tmp_path))):
        assert not wait_for_room("application")


@pytest.mark.slow
@pytest.mark.skipif(_jit.INTERPRETED, reason="kernels are not compiled: NUMBA_DISABLE_JIT is set")
def test_a_first_run_takes_the_kernels_of_its_loops_from_another_process(tmp_path):
    """And gives the results that it gives with all kernels on disk."""
    task = json.dumps(scenario(tmp_path) | {"output": {"trace": "none", "pictures": False}})
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}

    def run(code):
        command = [sys.executable, "-c", code, task]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    several_cores = "import os; os.sched_getaffinity = lambda _: {0, 1}\n"
    first, second = run(several_cores + RUN), run(RUN)
    assert (first["started"], first["compiled"]) == (["execution_models"], False)
    assert first["seconds"] > 0.0
    assert (second["started"], second["compiled"], second["seconds"]) == ([], False, 0.0)
    assert first["ends"] == second["ends"]


@pytest.mark.slow
@pytest.mark.skipif(_jit.INTERPRETED, reason="kernels are not compiled: NUMBA_DISABLE_JIT is set")
def test_what_writes_traces_can_be_compiled_without_a_run(tmp_path):
    made = from_mapping(scenario(tmp_path, time_steps=2, execution={"model": "cca"}))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(
        background_compile._command("record", made),
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    kept = {path.name.split("-")[0] for path in (tmp_path / "kernels").glob("kernels-*/record.*.entry")}
    assert "record.otf2.event_pass.write_batch" in kept
    assert not list((tmp_path / "kernels").glob("kernels-*/batch.*"))
