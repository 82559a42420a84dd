"""Runs compared: tables, pairs of jobs, notes on what is not comparable, pictures; report pages on runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from mlsim import __version__
from mlsim._files import expanded, is_file, read_text
from mlsim._runtime.forks import check_fork
from mlsim._runtime.work_progress import followed, stage
from mlsim.analysis import run_comparison, run_summary
from mlsim.analysis.recorded_waits import GROUPS, RecordedWaits
from mlsim.errors import InputError
from mlsim.experiment import manifest, result_directories, stored_runs
from mlsim.experiment.result import Result, html_of
from mlsim.record import Chunks, PEs, Records, empty, parquet_tables, table_files
from mlsim.record.derived_times import TAU
from mlsim.scenario.scenario_text import plain

if TYPE_CHECKING:
    from mlsim.analysis.page import PageLoops, PageRun

_MOST_BYTES = 64_000_000
_SUMMARY, _JOBS = "summary.json", "jobs.parquet"


@dataclass(frozen=True)
class RunComparison:
    """Runs against the first of them."""

    runs: tuple[stored_runs.StoredRun, ...]
    """Two or more."""
    tau: float
    """The bound of bounded slowdowns, in seconds."""
    tolerance: float = 0.01
    """Share of the first run's value up to which another is not called better or worse."""
    names: tuple[str, ...] = ()
    """Metrics to compare; none: all."""

    @property
    def labels(self) -> list[str]:
        """Names of the runs."""
        return [run.label for run in self.runs]

    @cached_property
    def summaries(self) -> list[dict[str, Any]]:
        """The summary of each run, with one τ for all."""
        return [stored_runs.summary_of(run, self.tau) for run in self.runs]

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """Metrics side by side; see :func:`mlsim.analysis.run_comparison.compare_metrics`."""
        compared: Sequence[run_comparison.Compared] = run_comparison.COMPARED
        if self.names:
            compared = run_comparison.find_metrics(self.names, self.summaries)
        return run_comparison.compare_metrics(self.summaries, self.tolerance, compared)

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row a metric: the value of each run; of all but the first also difference, percent, verdict."""
        rows: list[dict[str, Any]] = []
        for metric in self.metrics:
            row = {"metric": metric["metric"], self.labels[0]: metric["values"][0]}
            for place, label in enumerate(self.labels[1:]):
                row[label] = metric["values"][place + 1]
                row[f"{label}: difference"] = metric["differences"][place]
                row[f"{label}: percent"] = metric["percent"][place]
                row[f"{label}: verdict"] = metric["verdicts"][place]
            rows.append(row)
        verdicts = {f"{label}: verdict": pl.String for label in self.labels[1:]}
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=verdicts)

    def jobs(self, run: str | int = 1) -> pl.DataFrame:
        """Pair the jobs of the first run with those of another, by its name or place (``pair_jobs``)."""
        place = self.labels.index(run) if isinstance(run, str) else run
        return run_comparison.pair_jobs(self.runs[0].records.jobs, self.runs[place].records.jobs)

    @cached_property
    def pairs(self) -> list[dict[str, Any]]:
        """Per further run: number of jobs that start earlier or later than in the first, and by how much."""
        return [run_comparison.pair_summary(self.jobs(place)) for place in range(1, len(self.runs))]

    @cached_property
    def differences(self) -> dict[str, list[Any]]:
        """Keys in which the scenarios differ, with the value of each run."""
        return stored_runs.differences_of([run.scenario for run in self.runs])

    @cached_property
    def notes(self) -> list[str]:
        """Reasons why the runs are less comparable than they look, one sentence each."""
        notes = [f"{run.note}." for run in self.runs if run.note]
        for run, pair in zip(self.runs[1:], self.pairs, strict=True):
            if not pair["same_workload"]:
                first, other = self.labels[0], run.label
                counts = {
                    "only_in_first": f"only in {first}",
                    "only_in_other": f"only in {other}",
                    "changed": "with another submission time, size or run time",
                }
                parts = "; ".join(f"{pair[key]:,} {words}" for key, words in counts.items() if pair[key])
                notes.append(
                    f"{first} and {other} have different workloads ({parts}): {pair['paired']:,} jobs are "
                    "paired."
                )
        cores = [int(run.records.nodes.cores.sum()) for run in self.runs]
        if len(set(cores)) > 1:
            sizes = ", ".join(f"{label} {n:,}" for label, n in zip(self.labels, cores, strict=True))
            notes.append(f"The machines differ in cores: {sizes}.")
        counting = [run.label for run in self.runs if run.records.jobs.dispatch_time is not None]
        if 0 < len(counting) < len(self.runs):
            notes.append(f"Waits count the dispatcher's own time in {', '.join(counting)} only.")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        plain: dict[str, Any] = run_summary.json_safe(
            {
                "tau": self.tau,
                "tolerance": self.tolerance,
                "runs": [
                    {"run": run.label, "directory": None if run.directory is None else str(run.directory)}
                    for run in self.runs
                ],
                "differences": self.differences,
                "metrics": self.metrics,
                "jobs": [
                    {"first": self.labels[0], "other": label, **pair}
                    for label, pair in zip(self.labels[1:], self.pairs, strict=True)
                ],
                "notes": self.notes,
            }
        )
        return plain

    def draw(self, directory: str | Path) -> list[Path]:
        """Write the pictures, as PNG and PDF, into a directory that must not exist; return the files.

        Pass times are drawn where every run recorded its passes.
        """
        with result_directories.reserved(directory) as place, result_directories.writing(place.directory):
            written = self._draw(place.partial)
            place.keep(manifest=False)
        return [place.directory / path.name for path in written]

    def write(self, directory: str | Path) -> None:
        """Write tables, paired jobs and pictures into a directory that must not exist."""
        with result_directories.complete_or_gone(directory) as place:
            partial = place.partial
            text = manifest.json_text(self.to_dict())
            (partial / "comparison.json").write_text(text, encoding="utf-8")
            self.table.write_csv(partial / "table.csv")
            for other in range(1, len(self.runs)):
                self.jobs(other).write_parquet(partial / f"jobs-{other}.parquet", compression="zstd")
            self._draw(partial)

    def _draw(self, directory: Path) -> list[Path]:
        from mlsim.analysis.plots.comparison_plots import draw_comparison

        return draw_comparison(directory, {run.label: run.records for run in self.runs}, self.tau)

    def __repr__(self) -> str:
        return f"RunComparison({', '.join(self.labels)})"

    def _repr_html_(self) -> str:
        from mlsim.analysis import comparison_tables

        tables = (
            [comparison_tables.differences_table(self.labels, self.differences)] if self.differences else []
        )
        shown = self.metrics if self.names else run_comparison.main_metrics(self.metrics)
        return html_of(*tables, comparison_tables.comparison_table(self.labels, shown, self.tolerance))


def compare(
    *runs: Result | str | Path,
    labels: Sequence[str] | None = None,
    tau: float = TAU,
    tolerance: float = 0.01,
    metrics: Sequence[str] = (),
) -> RunComparison:
    """Compare runs with the first of them.

    Parameters
    ----------
    *runs
        Results of :func:`mlsim.run`, or directories of runs; a directory of runs means all runs in it.
    labels
        Names for the runs; by default those of their directories, or of their scenarios.
    tau
        The bound of bounded slowdowns, in seconds.
    tolerance
        Share of the first run's value up to which another is not called better or worse: one run a side
        cannot distinguish smaller differences from chance. Wall-clock times are never judged.
    metrics
        Keys of ``summary.json``, such as ``wait_time.p90``, or sections of it; by default all usual ones.

    Examples
    --------
    >>> import mlsim
    >>> file = "scenarios/quickstart.yaml"
    >>> first, other = (mlsim.run(file, overrides={"coordination.rca": rca}) for rca in (False, True))
    >>> comparison = mlsim.compare(first, other, labels=["alone", "coordinated"])
    >>> comparison.pairs[0]["paired"]
    200
    """
    check_fork()
    if not 0 <= tolerance < math.inf:
        raise InputError(f"tolerance is {tolerance}; allowed: a number from 0 up, such as 0.01 for 1 %")
    found: list[Result | Path] = []
    for run in runs:
        found += [run] if isinstance(run, Result) else stored_runs.find_runs([run])
    names = _names(found, labels)
    if len(found) < 2:
        raise InputError(f"a comparison needs two runs or more; given: {', '.join(names) or 'none'}")
    with stage("reading runs", len(found), apart=True) as work:
        read = tuple(
            stored_runs.StoredRun(name, run.directory, run.summary, run.records, plain(run.scenario))
            if isinstance(run, Result)
            else stored_runs.read_run(run, name)
            for run, name in followed(zip(found, names, strict=True), work)
        )
    return RunComparison(read, tau, tolerance, tuple(metrics))


def write_recorded(directory: Path, run: stored_runs.StoredRun, *, tables: bool) -> None:
    """Write the pictures of recorded beside simulated waits, and the ``tables``, into a new directory."""
    from mlsim.analysis.plots.chart_style import figures, write_figure

    waits = RecordedWaits(run.records)
    with result_directories.complete_or_gone(directory) as place:
        for name, figure in figures().items():
            for suffix in (".png", ".pdf") if name.startswith("recorded-") else ():
                write_figure(
                    figure.draw({run.label: run.records}, _WIDTHS.get(name, 140.0)),
                    place.partial / f"{name}{suffix}",
                )
        if tables:
            text = manifest.json_text(run_summary.json_safe({"run": run.label, **waits.to_dict()}))
            (place.partial / "recorded.json").write_text(text, encoding="utf-8")
            waits.jobs.write_csv(place.partial / "jobs.csv")
            for group in GROUPS:
                waits.by(group).write_csv(place.partial / f"by-{group}.csv")


_WIDTHS = {"recorded-waits": 100.0}  # of pictures as high as wide, in mm


def _names(runs: Sequence[Result | Path], labels: Sequence[str] | None) -> list[str]:
    if labels is not None:
        return stored_runs.check_labels(labels, len(runs))
    paths = [path for run in runs if (path := run.directory if isinstance(run, Result) else run) is not None]
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("a run is given twice; name each once")
    by_path = dict(zip(paths, stored_runs.name_runs(paths), strict=True))
    names: list[str] = []
    for run in runs:
        path = run.directory if isinstance(run, Result) else run
        # A run without a directory is a result in memory.
        name = by_path[path] if path is not None else run.scenario.name  # type: ignore[union-attr]
        twice = sum(other == name or other.startswith(f"{name} #") for other in names)
        names.append(f"{name} #{twice + 1}" if twice else name)
    return names


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
    from mlsim.analysis.page import PageRun, PageStudy, page_text

    found, directories = _found(paths)
    studies = [PageStudy(*one) for one in found]
    names = _page_names(directories, labels)
    runs: list[PageRun] = []
    others: list[tuple[str, dict[str, Any]]] = []
    with stage("reading runs", len(names), apart=True) as work:
        for directory, name in followed(zip(directories, names, strict=True), work):
            stored = stored_runs.read_run(directory, name, loops=True)
            if len(runs) < most_runs:
                scenario = read_text(_scenario_file(directory), "scenario", _MOST_BYTES)
                loops = read_loops(stored, most_chunks)
                summary = stored_runs.summary_of(stored)
                runs.append(PageRun(stored.label, summary, stored.records, scenario, loops))
            else:
                others.append((name, stored_runs.summary_of(stored)))
    return page_text(runs, studies, others=others, tolerance=tolerance, version=__version__)


def _found(paths: Sequence[str | Path]) -> tuple[list[tuple[str, pl.DataFrame]], list[Path]]:
    """Return the names and tables of the studies among directories, and the runs in all of them."""
    from mlsim.experiment.study.study_results import read_study

    studies: list[tuple[str, pl.DataFrame]] = []
    runs: list[Path] = []
    for path in map(expanded, paths):
        loops = sorted(child.parent for child in path.glob(f"*/{_SUMMARY}"))
        if is_file(path / _SUMMARY) and not is_file(path / _JOBS) and loops:
            runs += loops  # of several loops each has a directory
            continue
        tables = (path / name for name in ("runs.parquet", "loops.parquet"))
        is_study = is_file(path / "study.yaml") and any(map(is_file, tables))
        if is_study:
            studies.append((path.resolve().name, read_study(path).runs))
        if not is_study or any(path.glob(f"store/??/*.run/{_SUMMARY}")):
            runs.append(path)
    return studies, stored_runs.find_runs(runs)


def _page_names(directories: Sequence[Path], labels: Sequence[str] | None) -> list[str]:
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
    from mlsim.analysis.page import PageLoops, wanted_jobs

    directory, records = stored.directory, stored.records
    assert directory is not None, "read from one"
    files = {name: directory / f"{name}.parquet" for name in ("chunks", "pes")}
    recorded = is_file(files["chunks"])
    if not len(records.loops.job) or not recorded:
        return PageLoops.none(recorded)
    others = [name for name in table_files.FILES if name not in files]
    manifest.check_read(directory, others, _scenario_file(directory).name)
    wanted = wanted_jobs(records.loops, most_chunks) if jobs is None else np.asarray(jobs, np.int64)
    read = parquet_tables.read_rows_of_loops
    chunks = read(files["chunks"], Chunks, records, wanted)
    pes = read(files["pes"], PEs, records, wanted) if is_file(files["pes"]) else empty(PEs)
    return PageLoops(chunks, pes)


def read_for_plot(
    paths: Sequence[str | Path], labels: Sequence[str] | None, *, of_loops: bool, job: int | None = None
) -> dict[str, Records]:
    """Read the records of runs by name, with the loop of a job (by default that which lost most time)."""
    _, directories = _found(paths)
    if not directories:
        raise InputError("no runs: a study keeps whole runs only with keep: tables, or all, in study.yaml")
    found = {}
    for directory, name in zip(directories, _page_names(directories, labels), strict=True):
        stored = stored_runs.read_run(directory, name, loops=True)
        found[name] = _with_loop(stored, job) if of_loops else stored.records
    return found


def _with_loop(stored: stored_runs.StoredRun, job: int | None) -> Records:
    """Return the records with chunks and PEs of one loop."""
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
