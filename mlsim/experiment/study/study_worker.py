"""Execute the tasks of a study."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlsim import _jit
from mlsim._files import read_bytes
from mlsim._runtime.arrays import Floats
from mlsim._runtime.shared_cache import sharing
from mlsim.errors import MlsimError, StoppedError
from mlsim.experiment.study.study_model import Balance, Done, OwnPicture, Task
from mlsim.experiment.study.study_store import Store, beside_name, disk_error, write_whole
from mlsim.experiment.study.subjects import Simulated
from mlsim.record import Records
from mlsim.scenario import Scenario

_BINS = 400
"""Bins of the curve of the busy share over time."""


def execute(task: Task) -> Done:
    """Execute a task, and store its result.

    A run that fails is stored as failed. A failure to write is not the run's, and stops the study.
    """
    with sharing():
        return _executed(task)


def execute_all(tasks: Sequence[Task]) -> list[Done]:
    """Execute tasks one after the other in a process of their own, which announces no compilation."""
    _jit.quiet()
    return [execute(task) for task in tasks]


def _executed(task: Task) -> Done:
    began = time.perf_counter()
    here = os.getcwd()
    try:
        try:
            simulated = _simulated(task)
        finally:
            os.chdir(here)  # code of the user's may have changed to another directory
    except (StoppedError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # whatever a plugin or a compiled library raises
        return record_failure(task, _words(error), time.perf_counter() - began)
    try:
        content = _content(task, simulated)
        content["seconds"] = time.perf_counter() - began
        return _kept(task, content)
    except OSError as error:
        return Done(task.key, stops=str(disk_error(task.store or Path(), error)))


def record_failure(task: Task, why: str, seconds: float) -> Done:
    """Store the failure of a run."""
    try:
        return _kept(task, {"status": "failed", "message": why, "seconds": seconds})
    except OSError as error:
        return Done(task.key, stops=str(disk_error(task.store or Path(), error)))


def _kept(task: Task, content: dict[str, Any]) -> Done:
    done = Done(task.key, content.get("message", ""), content["seconds"])
    if task.store is None:
        return Done(done.key, done.failed, done.seconds, content)
    Store(task.store).put(task.key, content)
    return done


def _words(error: BaseException) -> str:
    if isinstance(error, MlsimError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return f"{type(error).__name__}: {error}"


def _simulated(task: Task) -> Simulated:
    scenario = task.subject.scenario(task.base, task.overrides)
    draws_chunks = any(picture.kind == "timeline" for picture in task.pictures.values())
    return task.subject.simulate(scenario, draws_chunks)


def _content(task: Task, simulated: Simulated) -> dict[str, Any]:
    """Return the stored content of a run, after its further files are written."""
    drawn = (name for name, picture in task.pictures.items() if _drawn(task, name, picture, simulated))
    files = [beside_name(name) for name in drawn]
    content: dict[str, Any] = {
        "status": "done",
        "labels": dict(task.labels),
        "keep": task.keep,
        "output": task.output,
        "summary": simulated.summary,
        "shows": task.shows,
        "files": files,
    }
    if task.curve:
        content["curve"] = [column.tolist() for column in busy_curve(simulated.records)]
    if task.balance:
        balance = balance_of(simulated.scenario, simulated.records)
        content["balance"] = {
            "job_id": balance.job_id.tolist(),
            "executable": list(balance.executable),
            "max_over_mean": balance.max_over_mean.tolist(),
        }
    if task.keep != "summary" and task.store is not None:
        _write_run(Store(task.store).beside(task.key, "run"), simulated, whole=task.keep == "all")
        files.append("run")
    return content


def busy_curve(records: Records) -> tuple[Floats, Floats]:
    """Return the busy share of the machine in equal bins of time: centres (s) and shares."""
    from mlsim.analysis.plots.chart_style import time_axis
    from mlsim.analysis.plots.utilization_plot import busy_share

    axis = time_axis(records.jobs)
    edges = np.linspace(axis.begin, axis.end, _BINS + 1)
    return 0.5 * (edges[1:] + edges[:-1]), busy_share(records, axis, _BINS)


def balance_of(scenario: Scenario, records: Records) -> Balance:
    """Return the load balance of each loop of a run."""
    from mlsim.analysis.machine_metrics import max_over_mean
    from mlsim.cosim import workload_of

    names = workload_of(scenario).header.get("executable_names")
    jobs, loops = records.jobs, records.loops
    codes = jobs.executable[loops.job].tolist()
    words = [names[code - 1] if isinstance(names, list) and code > 0 else str(code) for code in codes]
    return Balance(jobs.job_id[loops.job], words, max_over_mean(loops))


def _write_run(directory: Path, simulated: Simulated, whole: bool) -> None:
    """Write the directory of a run, complete or not at all."""
    from mlsim.experiment.manifest import write_manifest
    from mlsim.experiment.result_directories import Place

    part = directory.with_name(f".{directory.name}.{os.getpid()}.part")
    for old in (part, directory):
        if old.exists():
            shutil.rmtree(old)
    part.mkdir(parents=True)
    try:
        place = Place(directory, directory, part, [])
        simulated.write(place, whole)
        if place.missing:
            name, why = next(iter(place.missing.items()))
            raise OSError(None, f"{name}: {why}")
        write_manifest(part)
        part.rename(directory)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _drawn(task: Task, name: str, picture: OwnPicture, simulated: Simulated) -> bool:
    """Draw a picture of this run beside its entry; return whether there is a store for it."""
    if task.store is None:
        return False
    from mlsim._runtime.late import load_matplotlib

    load_matplotlib()
    path = Store(task.store).beside(task.key, beside_name(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _image(picture, simulated, path.suffix))
    return True


def _image(picture: OwnPicture, simulated: Simulated, suffix: str) -> bytes:
    import tempfile

    from mlsim.analysis.plots import draw_pes, gantt, write_picture

    with tempfile.TemporaryDirectory(prefix="mlsim-") as directory:
        path = Path(directory) / f"picture{suffix}"
        if picture.kind == "timeline":
            draw_pes(path, simulated.records, picture.title)
        else:
            write_picture(gantt(simulated.records, picture.title, picture.span), path)
        return read_bytes(path)
