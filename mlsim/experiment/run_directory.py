"""The directory of a run: its tables, trace, and user-defined outputs."""

from __future__ import annotations  # the class Service needs the package otf2

import logging
import math
import os
import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from mlsim import __version__
from mlsim._files import is_directory
from mlsim._runtime.arrays import Ints
from mlsim._runtime.late import importing, load_matplotlib
from mlsim._runtime.memory import give_back
from mlsim.errors import InputError, user_code_error
from mlsim.experiment.manifest import json_text, write_summary
from mlsim.experiment.result import Result, technique_of
from mlsim.experiment.result_directories import Place
from mlsim.plugins import Family, check_plugin, make_callable
from mlsim.record import Records, otf2
from mlsim.record.record_tables import OwnColumns, Ranks
from mlsim.record.table_blocks import is_large, is_long, let_go_of_table
from mlsim.scenario import Scenario, dump, scenario_loading, scenario_paths, section_base
from mlsim.scenario.words import Mapping, TraceLevel, TraceRows


def write_trace(
    directory: Path,
    records: Records,
    scenario: Scenario,
    workload_name: str,
    exclusive_nodes: bool,
    ranks: Ranks | None = None,
) -> None:
    """Write the OTF2 trace of records as their scenario asks; ``ranks`` are those of a real run."""
    output = scenario.output
    if output.trace_apart:
        logging.getLogger("mlsim").warning(
            "output.trace_apart: `mlsim trace convert --for pipit` does the same for any trace; the old key "
            "still works"
        )
    begin, end = output.trace_window or (0.0, math.inf)
    info = otf2.write_otf2(
        directory,
        records,
        otf2.TraceOptions(
            cast(otf2.Level, output.trace.value),
            scenario_name=scenario.name,
            technique=technique_of(scenario) or "",
            workload_name=workload_name,
            exclusive_nodes=exclusive_nodes,
            pes_per_node=_pes_per_node(scenario, records),
            details=output.trace_details,
            apart=output.trace_apart,
            ranks=ranks,
            selection=otf2.Selection(begin, end, output.trace_jobs or ()),
            service=service_of(scenario),
            rows=output.trace_rows.value,
        ),
    )
    if output.trace_rows is TraceRows.AUTO and info.nodes_per_row:
        cores = int(records.nodes.cores.sum())
        logging.getLogger("mlsim").warning(
            "the trace shows %s, as %s cores are too many for rows of their own: %s. For a row per core, "
            "in two files each: output.trace_rows: cores",
            "a row per node" if info.nodes_per_row == 1 else f"up to {info.nodes_per_row} nodes in a row",
            f"{cores:,}",
            _TOGETHER[output.trace],
        )


def _pes_per_node(scenario: Scenario, records: Records) -> int | Ints | None:
    """Return how many cores of a node execute PEs at most: of all jobs, or of each."""
    limits = {name: one.application.pes_per_node for name, one in scenario.by_application.items()}
    if len(set(limits.values())) == 1 or records.jobs.application is None:
        return next(iter(limits.values()))
    names = records.names.of["application"]
    of_code = [limits[name] or np.iinfo(np.int64).max for _, name in sorted(names.items())]
    return np.array(of_code, np.int64)[records.jobs.application]


_TOGETHER = {
    TraceLevel.JOBS: "several jobs at a time are one region",
    TraceLevel.NODES: "several jobs at a time are one region",
    TraceLevel.CHUNKS: "several jobs at a time are one region, and so are chunks",
    TraceLevel.MESSAGES: "several jobs at a time are one region, and so are chunks; requests are left out",
}


def service_of(scenario: Scenario) -> otf2.Service:
    """Return how the PEs of a scenario's loops obtain their chunks."""
    from mlsim.application.user_code import model_entry

    sections = [one.application for one in scenario.by_application.values() if one.runs_loops]
    costs = sections[0].execution if sections else scenario.application.execution
    asking = model_entry(costs.model).properties.asking
    return otf2.Service(
        by_messages=asking in ("master", "node master"),
        by_atomics=asking in ("window", "node window"),
        on_node=asking in ("node master", "node window"),
        calculates=asking in ("window", "node window", "own part"),
        waits=asking == "threads",
        calculation=costs.chunk_calculation,
        delay=costs.injected_delay,
        assignment=costs.chunk_assignment,
        access=costs.atomic_service,
        message_bytes=int(costs.message_size),
    )


WRITERS: Final = Family(
    "writer", "output.writers", "mlsim.writers", ("write",), (), "docs/reference/records.md", arguments=2
)


def _located_writers(scenario: Scenario) -> list[str]:
    rows = range(len(scenario.output.writers or ()))
    return [scenario_paths.located_code(scenario, f"output.writers.{row}") for row in rows]


def check_writers(scenario: Scenario, execute: bool = True) -> None:
    """Check the user-defined writers of a scenario; without ``execute`` none of their code is executed."""
    for name in _located_writers(scenario):
        check_plugin(WRITERS, name, execute)


def write_by_user(place: Place, directory: Path, result: Result) -> None:
    """Call every user-defined writer, each with a directory of its own; if one fails, all others are kept."""
    taken: dict[str, int] = {"trace": 1}
    for name in _located_writers(result.scenario):
        file = section_base.user_function(name)
        own = file[1] if file else str(name)
        taken[own] = taken.get(own, 0) + 1
        number = f"-{taken[own]}" if taken[own] > 1 else ""
        write = make_callable(WRITERS, name)
        with place.extra(directory / f"{own}{number}") as path:
            path.mkdir()
            try:
                write(result, path)
            except BaseException as error:  # whatever the user's code raises
                raise user_code_error(f"{WRITERS.name} {name}", error) from error


_LIBRARIES = ("matplotlib", "networkx", "numba", "numpy", "otf2", "polars", "pydantic", "simpy")


def check_needs(scenario: Scenario) -> None:
    """Check, before the simulation, that the libraries and writers that the output needs are usable."""
    output = scenario.output
    if output.pictures and find_spec("matplotlib") is None:
        raise InputError(
            "output.pictures: on, but there is no matplotlib; install it, or set output.pictures=off"
        )
    if output.trace is not TraceLevel.NONE:
        try:
            import_module("mlsim.record.otf2.trace_writer")
        except (ImportError, OSError, AttributeError) as error:
            raise InputError(
                f"output.trace: {output.trace}, but the OTF2 library cannot be used: {error}; "
                "install it (pip install 'mlsim[otf2]'), or set output.trace=none"
            ) from error
    check_writers(scenario)


def write_start(directory: Path, scenario: Scenario) -> None:
    """Write scenario and versions before a run starts; a directory that cannot be written fails at once."""
    directory.mkdir(parents=True, exist_ok=True)
    given = scenario
    if scenario.jobs_file is not None:  # a table of jobs is beside the scenario
        shutil.copyfile(scenario.jobs_file, directory / scenario.jobs_file.name)
        workload = scenario.workload.model_copy(update={"path": scenario.jobs_file.name})
        given = scenario.model_copy(update={"workload": workload})
    (directory / "scenario.yaml").write_text(dump(given), encoding="utf-8")
    write_json(directory / "versions.json", versions() | scenario_loading.read_in(scenario, directory))


def write_files(
    place: Place,
    directory: Path,
    result: Result,
    before_summary: Callable[[], None] | None = None,
    ranks: Ranks | None = None,
) -> None:
    """Write all files of a run; a picture or trace that fails is noted in ``place``, and the rest is kept.

    ``before_summary`` is called before the summary is written, so that it can contain the time of the output.
    """
    _tidy(result.records)
    with importing():
        from mlsim.record.parquet_tables import write_tables

    if not (directory / "versions.json").exists():
        write_start(directory, result.scenario)
    records = _with_relative_costs(result.records, result.scenario, directory)
    write_tables(directory, records, technique_of(result.scenario), result.scenario.output.csv)
    if result.scenario.output.batsim:
        _write_batsim(directory, result)
    _tidy(result.records)
    # Empty pictures of very many jobs would take much memory.
    shows_any = len(result.records.occupancy.job) > 0 or not is_long(result.records.jobs)
    if result.scenario.output.pictures and shows_any:
        _draw(place, directory, result)
    if result.scenario.output.trace is not TraceLevel.NONE:
        with place.extra(directory / "trace") as path:
            workload = result.scenario.workload
            exclusive = workload.mapping is not Mapping.CORE
            write_trace(path, result.records, result.scenario, workload.log_name, exclusive, ranks)
    write_by_user(place, directory, result)
    if before_summary is not None:
        before_summary()
    write_summary(directory / "summary.json", result.summary)


def _write_batsim(directory: Path, result: Result) -> None:
    """Write the files of Batsim's output."""
    from mlsim.record.batsim_files import write_batsim

    mapping = result.scenario.workload.mapping
    per_node = {Mapping.NODE: 1, Mapping.PACKED: int(result.records.nodes.cores[0])}.get(mapping)
    write_batsim(directory, result.records, per_node)


def _with_relative_costs(records: Records, scenario: Scenario, directory: Path) -> Records:
    """Return records that name files of costs beside the jobs as seen from the directory of the run."""
    # With whole paths, equal runs in two directories would have other bytes.
    cells, log = records.own.of.get("costs"), scenario.workload.path
    if cells is None or log is None or not is_directory(home := scenario_paths.resolve_path(scenario, log)):
        return records
    inside = f"{home.absolute()}{os.sep}"
    seen_from_run = {
        text: os.path.relpath(text, directory) for text in set(cells) if text and text.startswith(inside)
    }
    texts = np.array([seen_from_run.get(text, text) for text in cells], object)
    return replace(records, own=OwnColumns({**records.own.of, "costs": texts}))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a dictionary of plain values without NaN."""
    path.write_text(json_text(content), encoding="utf-8")


def versions() -> dict[str, str]:
    """Return the versions of Python, mlsim and its libraries; "unknown" without metadata."""
    found = {"python": platform.python_version(), "mlsim": __version__} | dict.fromkeys(_LIBRARIES, "unknown")
    for name in _LIBRARIES:
        # A copy of the sources of a package has no metadata of an installation.
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _draw(place: Place, directory: Path, result: Result) -> None:
    for kind in ("gantt", "utilization"):
        if kind != "gantt":
            _tidy(result.records)
        with place.extra(directory / f"{kind}.png") as path:
            load_matplotlib()
            with importing():
                from mlsim.analysis import plots

            draw = plots.gantt if kind == "gantt" else plots.utilization_over_time
            plots.write_picture(draw(result.records, result.scenario.name), path)


def _tidy(records: Records) -> None:
    """Free the memory of the last step that the next one does not need."""
    let_go_of_table(records.jobs)
    let_go_of_table(records.occupancy)
    let_go_of_table(records.loops)
    give_back(is_large(records))
