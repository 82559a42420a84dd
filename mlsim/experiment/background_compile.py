"""Compile kernels in other processes while a run starts."""

import atexit
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mlsim import _jit
from mlsim._runtime.processes import DEVNULL, Process, has_ended, python, start
from mlsim.scenario import ApplicationConfig, Scenario, from_mapping, scenario_text, technique_section, words

_OWN_ROOM = "batch"
"""The room that the process of the run compiles itself."""
_PASS, _REPLAY = "dispatch.passes.process_timestamp", "clock.compiled_replay.replay"
_TRACE = "otf2.event_pass.write_batch"
_ITERATIONS = 8
_CODE = """
from mlsim.experiment.background_compile import compile_room
compile_room(sys.argv[1], json.loads(sys.argv[2]))
"""
_LONGEST = 300.0
"""Seconds after which waiting for a compilation ends."""


@contextmanager
def compiled_beside(scenario: Scenario) -> Iterator[None]:
    """Compile the kernels of the scenario's loops and trace in other processes while the block runs.

    Nothing is started if the kernels are on disk, on a single core, or in a child process.
    """
    missing = dict(_missing(scenario))
    _jit.estimate_by(lambda: _seconds_left(missing))
    rooms = [room for room in missing if room != _OWN_ROOM] if _may_start() else []
    started = {room: process for room in rooms if (process := _start(room, scenario)) is not None}
    for room, process in started.items():
        _jit.while_elsewhere(room, _waiter(process))
    try:
        yield
    finally:
        for room, process in started.items():
            _jit.no_longer_elsewhere(room)
            _end(process)


def _may_start() -> bool:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores > 1 and bool(sys.executable) and multiprocessing.parent_process() is None


def _seconds_left(missing: dict[str, str]) -> float:
    """Return what the kernels take that are still missing: the rooms are compiled side by side."""
    from mlsim._jit.library_build import seconds_to_compile

    left = [f"{room}.{name}" for room, name in missing.items() if not _jit.is_compiled(room, name)]
    return max((seconds_to_compile([name]) for name in left), default=0.0)


def _missing(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the rooms whose kernels are not on disk, each with the kernel that takes longest."""
    own = _PASS if scenario.runs_loops else _REPLAY
    if not _jit.is_compiled(_OWN_ROOM, own):
        yield _OWN_ROOM, own
    application = _first_loop(scenario)
    model = application.execution.model
    if application.model is not words.ApplicationModel.LOOP or not isinstance(model, words.ExecutionModel):
        return
    levels = technique_section.split_technique(application.technique)
    if all(name in tuple(words.Technique) for name in levels):
        module = model.entry.run.__module__.rpartition(".")[2]
        if not _jit.is_compiled("execution_models", name := f"{module}.run"):
            yield "execution_models", name
    if scenario.output.trace.shows_chunks and not _jit.is_compiled("record", _TRACE):
        yield "record", _TRACE


def _first_loop(scenario: Scenario) -> ApplicationConfig:
    """Return the application whose loops are compiled beside the run: the first of several with loops."""
    ones = scenario.by_application.values()
    return next((one.application for one in ones if one.runs_loops), scenario.application)


def _start(room: str, scenario: Scenario) -> Process[bytes] | None:
    """Start a process that compiles a room; None if it cannot be started."""
    try:
        process = start(_command(room, scenario), out=DEVNULL, err=DEVNULL)
    except OSError:
        return None
    atexit.register(process.kill)
    return process


def _command(room: str, scenario: Scenario) -> list[str]:
    """Return the command that compiles a room."""
    return python(_CODE, room, json.dumps(_small(scenario)))


def _waiter(process: Process[bytes]) -> Callable[[], object]:
    def wait() -> None:
        if not has_ended(process, _LONGEST):
            process.kill()

    return wait


def _end(process: Process[bytes]) -> None:
    process.kill()
    process.wait()
    atexit.unregister(process.kill)


def _small(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario with the same technique and model on two nodes of two cores, as a mapping."""
    section = scenario_text.plain(_first_loop(scenario))
    kept = {key: section[key] for key in ("technique", "execution", "parameters", "min_chunk", "time_steps")}
    return {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 2}]},
        "workload": {"path": "none.swf"},
        "application": {
            "model": "loop",
            "iterations": {"count": _ITERATIONS},
            "costs": {"profile": "constant", "mean": "1 ms"},
            **kept,
        },
        "output": {"trace": "chunks"},
    }


def compile_room(room: str, small: dict[str, Any]) -> None:
    """Compile the kernels of a room by running a scenario of :func:`_small`."""
    scenario = from_mapping(small)
    if room == "execution_models":
        from mlsim.cosim.simulation import simulate_loop

        simulate_loop(scenario, None, chunks=False)
    else:
        _write_imagined(scenario)


def _write_imagined(scenario: Scenario) -> None:
    """Write the trace of an imaginary loop with one chunk per PE."""
    from mlsim.application.application_simulator import single_loop_records
    from mlsim.application.loop_outcome import LoopOutcome, LoopRecorder
    from mlsim.experiment.run_directory import write_trace
    from mlsim.platform import machine_of
    from mlsim.record import ChunkStore

    machine = machine_of(scenario)
    pes = machine.n_cores
    store = ChunkStore()
    chunks, recorder = store.open(), LoopRecorder(True, store)
    which, one, none, end = np.arange(pes), np.ones(pes, np.int64), np.zeros(pes), np.ones(pes)
    chunks.begin_step(0.0, 0, 0)
    chunks.take(which.astype(np.int32), which, which, one, none, none, end)
    recorder.take(
        0, 0.0, LoopOutcome(pes, pes, 1.0, end, end, end, none, none, none, one, which, one, None), chunks
    )
    with tempfile.TemporaryDirectory() as directory:
        records = single_loop_records(1, machine, pes, 1.0, recorder)
        write_trace(Path(directory) / "trace", records, scenario, "", exclusive_nodes=True)
