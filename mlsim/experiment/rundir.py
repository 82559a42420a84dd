"""What a run leaves in its directory."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

from mlsim import __version__, _matplotlib
from mlsim._memory import give_back
from mlsim.errors import InputError
from mlsim.experiment.directories import Place
from mlsim.experiment.manifest import json_text, write_summary
from mlsim.experiment.result import Result, technique_of
from mlsim.experiment.tracing import write_trace
from mlsim.experiment.writers import check_writers, write_by_user
from mlsim.record import Records
from mlsim.record.blocks import is_large, is_long, let_go_of_table
from mlsim.scenario import Mapping, Scenario, TraceLevel, dump, read_in

if TYPE_CHECKING:
    from mlsim.record.ranks import Ranks

__all__ = [
    "check_needs",
    "versions",
    "write_files",
    "write_json",
    "write_start",
]

_LIBRARIES = ("matplotlib", "networkx", "numba", "numpy", "otf2", "polars", "pydantic", "simpy")


def check_needs(scenario: Scenario) -> None:
    """Look, before any work is done, whether there is what writing a run takes: libraries, writers.

    Raises
    ------
    InputError
        If one is missing or does not work; the message names the key that asks for it.
    """
    output = scenario.output
    if output.pictures and find_spec("matplotlib") is None:
        raise InputError(
            "output.pictures: on, but there is no matplotlib; install it, or set output.pictures=off"
        )
    if output.trace is not TraceLevel.NONE:
        try:
            import_module("mlsim.record.otf2.writer")
        except (ImportError, OSError, AttributeError) as error:
            raise InputError(
                f"output.trace: {output.trace}, but the OTF2 library cannot be used: {error}; "
                "install it (pip install 'mlsim[otf2]'), or set output.trace=none"
            ) from error
    check_writers(scenario)


def write_start(directory: Path, scenario: Scenario) -> None:
    """Write what is known before a run begins; a directory that cannot be written shows at once."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "scenario.yaml").write_text(_text_of(scenario), encoding="utf-8")
    if scenario.jobs_file is not None:
        shutil.copyfile(scenario.jobs_file, directory / scenario.jobs_file.name)
    write_json(directory / "versions.json", versions() | read_in(scenario, directory))


def _text_of(scenario: Scenario) -> str:
    """Return the text of a scenario file; jobs that were given as a table are beside it.

    A run writes it when it begins and when it ends; the last text is kept, as making it takes long.
    """
    if not _written or _written[0]() is not scenario:
        given = scenario
        if scenario.jobs_file is not None:
            workload = scenario.workload.model_copy(update={"path": scenario.jobs_file.name})
            given = scenario.model_copy(update={"workload": workload})
        _written[:] = [ref(scenario), dump(given)]
    return str(_written[1])


_written: list[Any] = []
"""The scenario whose text was made last, and that text."""


def write_files(
    place: Place,
    directory: Path,
    result: Result,
    before_summary: Callable[[], None] | None = None,
    ranks: Ranks | None = None,
) -> None:
    """Write everything a run leaves; if a picture or the trace fails, all the rest.

    Parameters
    ----------
    place
        Notes what could not be written.
    directory
        Where: the place's, or one in it. It is made.
    result
        The run.
    before_summary
        Called when all but the summary is written, so that the summary can hold the time it took.
    ranks
        Of a real run, for its trace.
    """
    from mlsim.record.writing import write_tables

    write_start(directory, result.scenario)
    write_tables(directory, result.records, technique_of(result.scenario), result.scenario.output.csv)
    _tidy(result.records)
    if result.scenario.output.pictures and _is_worth_drawing(result.records):
        _draw(place, directory, result)
    if result.scenario.output.trace is not TraceLevel.NONE:
        with place.extra(directory / "trace") as path:
            _trace(path, result, ranks)
    write_by_user(place, directory, result)
    if before_summary is not None:
        before_summary()
    write_summary(directory / "summary.json", result.summary)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a dictionary of plain values; there must be no NaN in it."""
    path.write_text(json_text(content), encoding="utf-8")


def versions() -> dict[str, str]:
    """Return the versions of Python, mlsim and its libraries; "unknown" where there is none."""
    found = {"python": platform.python_version(), "mlsim": __version__}
    return found | {name: _version(name) for name in _LIBRARIES}


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"  # a copy of its sources, without the metadata of an installation


def _draw(place: Place, directory: Path, result: Result) -> None:
    name = result.scenario.name
    with place.extra(directory / "gantt.png") as path:
        _matplotlib.load()
        from mlsim.analysis.plots import draw_gantt

        draw_gantt(path, result.records, title=name)
    _tidy(result.records)
    with place.extra(directory / "utilization.png") as path:
        from mlsim.analysis.plots import draw_utilization

        draw_utilization(path, result.records, title=name)


def _tidy(records: Records) -> None:
    """Free memory of the last step that the next one does not need."""
    let_go_of_table(records.jobs)
    let_go_of_table(records.occupancy)
    give_back(is_large(records))


def _is_worth_drawing(records: Records) -> bool:
    """Whether there is anything in a picture; empty ones of very many jobs would take much memory."""
    return bool(len(records.occupancy.job)) or not is_long(records.jobs)


def _trace(directory: Path, result: Result, ranks: Ranks | None) -> None:
    workload = result.scenario.workload
    exclusive = workload.mapping is not Mapping.CORE
    write_trace(directory, result.records, result.scenario, workload.log_name, exclusive, ranks)
