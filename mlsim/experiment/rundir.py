"""The directory of one run: complete, or not there at all."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

from mlsim._memory import give_back
from mlsim.errors import InputError, OutputError
from mlsim.experiment.result import Result, technique_of
from mlsim.record import Records
from mlsim.record.blocks import is_long, let_go_of_table
from mlsim.scenario import Mapping, TraceLevel, dump

__all__ = [
    "check_target",
    "complete_or_gone",
    "next_directory",
    "versions",
    "write_files",
    "write_json",
    "write_run",
]

_ADVICE = "Nothing was kept; free some space or give --out elsewhere."
_LIBRARIES = ("mlsim", "matplotlib", "networkx", "numba", "numpy", "otf2", "polars", "pydantic", "simpy")


def next_directory(parent: Path, name: str) -> Path:
    """Give the first of ``name-001``, ``name-002`` … that does not exist in ``parent``."""
    number = 1
    while (parent / f"{name}-{number:03d}").exists():
        number += 1
    return parent / f"{name}-{number:03d}"


def check_target(directory: Path) -> None:
    """Refuse, before any work is done, a directory that results cannot be written to."""
    if directory.exists() or directory.is_symlink():
        raise InputError(
            f"{directory}: already exists; a run never overwrites anything. "
            "Give another --out, or move it away."
        )
    parent = _first_existing(directory.parent)
    if not parent.is_dir():
        raise InputError(f"{directory}: {parent} is not a directory. Give another --out.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{directory}: no permission to write in {parent}. Give another --out.")


def _first_existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def write_run(directory: Path, result: Result, before_summary: Callable[[], None]) -> None:
    """Write everything a run leaves.

    Parameters
    ----------
    directory
        Where; must not exist. Parents are made.
    result
        The run.
    before_summary
        Called when all but the summary is written, so that the summary can tell how long it took.

    Raises
    ------
    OutputError
        If anything cannot be written.
    """
    with complete_or_gone(directory) as partial:
        write_files(partial, result, before_summary)


def write_files(directory: Path, result: Result, before_summary: Callable[[], None]) -> None:
    """Write everything a run leaves into a directory that is there; see :func:`write_run`."""
    from mlsim.record.parquet import write_tables

    (directory / "scenario.yaml").write_text(dump(result.scenario), encoding="utf-8")
    write_json(directory / "versions.json", versions())
    write_tables(directory, result.records, technique_of(result.scenario), result.scenario.output.csv)
    _tidy(result.records)
    if result.scenario.output.pictures and _is_worth_drawing(result.records):
        _draw(directory, result)
    if result.scenario.output.trace is not TraceLevel.NONE:
        _trace(directory / "trace", result)
    before_summary()
    write_json(directory / "summary.json", result.summary)


@contextmanager
def complete_or_gone(directory: Path) -> Iterator[Path]:
    """Give a directory to write in, which takes its name when all is well and is removed otherwise."""
    partial: Path | None = None
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(mkdtemp(prefix=f".{directory.name}.", suffix=".partial", dir=directory.parent))
        partial.chmod(0o777 & ~_umask())
        yield partial
        if directory.exists():
            raise OutputError(f"{directory}: appeared while the run was going on, and is left as it is")
        partial.rename(directory)
        partial = None
    except OutputError as error:
        raise OutputError(f"{error}. {_ADVICE}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{directory}: results cannot be written: {reason}. {_ADVICE}") from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a dictionary of plain values; there must be no NaN in it."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def versions() -> dict[str, str]:
    """Give the versions of Python, of mlsim and of what it stands on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


def _draw(directory: Path, result: Result) -> None:
    from mlsim.analysis.plots import draw_gantt, draw_utilization

    name = result.scenario.name
    draw_gantt(directory / "gantt.png", result.records, title=name)
    _tidy(result.records)
    draw_utilization(directory / "utilization.png", result.records, title=name)


def _tidy(records: Records) -> None:
    """Give back the memory that the last step took and the next one does not need."""
    let_go_of_table(records.jobs)
    let_go_of_table(records.occupancy)
    give_back()


def _is_worth_drawing(records: Records) -> bool:
    """Whether there is anything in a picture; empty ones of very many jobs would take much memory."""
    return bool(len(records.occupancy.job)) or not is_long(records.jobs)


def _trace(directory: Path, result: Result) -> None:
    from mlsim.record.otf2 import Level, write_otf2

    scenario = result.scenario
    write_otf2(
        directory,
        result.records,
        cast(Level, scenario.output.trace.value),
        scenario_name=scenario.name,
        technique=technique_of(scenario) or "",
        workload_name=Path(scenario.workload.path).name,
        exclusive_nodes=scenario.workload.mapping is not Mapping.CORE,
        pes_per_node=scenario.application.pes_per_node,
    )
