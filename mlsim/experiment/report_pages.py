"""Runs, loops and studies read for a report page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._files import expanded, is_file, read_text
from mlsim.errors import InputError
from mlsim.experiment import stored_runs
from mlsim.experiment.manifest import check_read

if TYPE_CHECKING:
    from mlsim.analysis.page import PageLoops, PageRun, PageStudy
    from mlsim.record import Records


_MOST_BYTES = 64_000_000
_SUMMARY, _JOBS = "summary.json", "jobs.parquet"


def make_page(
    paths: Sequence[str | Path],
    *,
    labels: Sequence[str] | None = None,
    most_runs: int = 12,
    most_chunks: int = 300_000,
    tolerance: float = 0.01,
) -> str:
    """Return the report page on runs, loops and studies as text.

    Runs beyond ``most_runs`` appear only in the comparison; of others the chunks of jobs that lost most time.
    """
    from mlsim import __version__
    from mlsim.analysis.page import PageRun, page_text

    studies, directories = _found(paths)
    names = _names(directories, labels)
    runs: list[PageRun] = []
    others: list[tuple[str, dict[str, Any]]] = []
    for directory, name in zip(directories, names, strict=True):
        stored = stored_runs.read_run(directory, name, loops=True)
        if len(runs) < most_runs:
            scenario = read_text(_scenario_file(directory), "scenario", _MOST_BYTES)
            loops = read_loops(stored, most_chunks)
            summary = stored_runs.summary_of(stored)
            runs.append(PageRun(stored.label, summary, stored.records, scenario, loops))
        else:
            others.append((name, stored_runs.summary_of(stored)))
    return page_text(runs, studies, others=others, tolerance=tolerance, version=__version__)


def _found(paths: Sequence[str | Path]) -> tuple[list[PageStudy], list[Path]]:
    """Return the studies among directories, and the runs in all of them."""
    from mlsim.analysis.page import PageStudy
    from mlsim.experiment.study.study_results import read_study

    studies: list[PageStudy] = []
    runs: list[Path] = []
    for path in map(expanded, paths):
        loops = sorted(child.parent for child in path.glob(f"*/{_SUMMARY}"))
        if is_file(path / _SUMMARY) and not is_file(path / _JOBS) and loops:
            runs += loops  # of several loops each has a directory
            continue
        tables = (path / name for name in ("runs.parquet", "loops.parquet"))
        is_study = is_file(path / "study.yaml") and any(map(is_file, tables))
        if is_study:
            studies.append(PageStudy(path.resolve().name, read_study(path).runs))
        if not is_study or any(path.glob(f"store/??/*.run/{_SUMMARY}")):
            runs.append(path)
    return studies, stored_runs.find_runs(runs)


def _names(directories: Sequence[Path], labels: Sequence[str] | None) -> list[str]:
    """Return labels, keys in which the runs of a study differ, or ends of paths, which must be unique."""
    if labels is not None:
        return stored_runs.check_labels(labels, len(directories))
    if len(directories) < 2 or not all(path.parent.parent.name == "store" for path in directories):
        return stored_runs.name_runs(directories)
    found = stored_runs.differences_of(
        [stored_runs.read_scenario(path / "scenario.yaml") for path in directories]
    )
    names = [
        ", ".join(f"{key.rpartition('.')[2]} {values[place]}" for key, values in found.items())
        for place in range(len(directories))
    ]
    return names if len(set(names)) == len(names) else stored_runs.name_runs(directories)


def _scenario_file(directory: Path) -> Path:
    """Return the file of the scenario: that of a loop alone has another name."""
    loop = directory / "loop.yaml"
    return loop if is_file(loop) else directory / "scenario.yaml"


def read_loops(
    stored: stored_runs.StoredRun, most_chunks: int, jobs: Sequence[int] | None = None
) -> PageLoops:
    """Read at most ``most_chunks`` chunks, and the PEs, of jobs (by default those that lost most time)."""
    import numpy as np

    from mlsim.analysis.page import PageLoops, wanted_jobs
    from mlsim.record import Chunks, PEs, empty
    from mlsim.record.parquet_tables import read_rows_of_loops
    from mlsim.record.table_files import FILES

    directory, records = stored.directory, stored.records
    assert directory is not None, "read from one"
    files = {name: directory / f"{name}.parquet" for name in ("chunks", "pes")}
    recorded = is_file(files["chunks"])
    if not len(records.loops.job) or not recorded:
        return PageLoops.none(recorded)
    check_read(directory, [name for name in FILES if name not in files], _scenario_file(directory).name)
    wanted = wanted_jobs(records.loops, most_chunks) if jobs is None else np.asarray(jobs, np.int64)
    chunks = read_rows_of_loops(files["chunks"], Chunks, records, wanted)
    pes = read_rows_of_loops(files["pes"], PEs, records, wanted) if is_file(files["pes"]) else empty(PEs)
    return PageLoops(chunks, pes)


def read_for_plot(
    paths: Sequence[str | Path], labels: Sequence[str] | None, *, of_loops: bool, job: int | None = None
) -> dict[str, Records]:
    """Read the records of runs by name, with the loop of a job (by default that which lost most time)."""
    _, directories = _found(paths)
    if not directories:
        raise InputError("no runs: a study keeps whole runs only with keep: tables, or all, in study.yaml")
    found = {}
    for directory, name in zip(directories, _names(directories, labels), strict=True):
        stored = stored_runs.read_run(directory, name, loops=True)
        found[name] = _with_loop(stored, job) if of_loops else stored.records
    return found


def _with_loop(stored: stored_runs.StoredRun, job: int | None) -> Records:
    """Return the records with chunks and PEs of one loop."""
    import numpy as np

    records, loops = stored.records, stored.records.loops
    place = f"{stored.directory}"
    if not len(loops.job):
        raise InputError(f"{place}: its jobs executed no loops; run it with --set application.model=loop")
    if job is None:
        row = int(loops.job[np.argmax(loops.overhead + loops.idle)])
    else:
        rows = loops.job[records.jobs.job_id[loops.job] == job]
        if not len(rows):
            some = ", ".join(map(str, records.jobs.job_id[loops.job][:5].tolist()))
            raise InputError(f"{place}: job {job} executed no loop; those that did are {some} …")
        row = int(rows[0])
    found = read_loops(stored, 0, [row])
    if not len(found.chunks.job):
        raise InputError(f"{place}: its chunks were not recorded; run it with --set output.trace=chunks")
    return replace(records, chunks=found.chunks, pes=found.pes)
