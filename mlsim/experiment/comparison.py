"""Comparing runs: tables, pairs of jobs, notes on what is not comparable, pictures, a directory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._runtime.forks import check_fork
from mlsim.errors import InputError
from mlsim.experiment import stored_runs
from mlsim.experiment.result import Result, html_of
from mlsim.experiment.stored_runs import StoredRun, find_runs, read_run
from mlsim.record.derived_times import TAU
from mlsim.scenario.scenario_text import plain

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class RunComparison:
    """Runs against the first of them."""

    runs: tuple[StoredRun, ...]
    """Two or more."""
    tau: float
    """The bound of bounded slowdowns, in seconds."""
    tolerance: float = 0.01
    """Share of the first run's value up to which another is not called better or worse."""

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
        from mlsim.analysis.run_comparison import compare_metrics

        return compare_metrics(self.summaries, self.tolerance)

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row a metric: the value of each run; of all but the first also difference, percent, verdict."""
        import polars as pl

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
        from mlsim.analysis.run_comparison import pair_jobs

        place = self.labels.index(run) if isinstance(run, str) else run
        return pair_jobs(self.runs[0].records.jobs, self.runs[place].records.jobs)

    @cached_property
    def pairs(self) -> list[dict[str, Any]]:
        """Per further run: number of jobs that start earlier or later than in the first, and by how much."""
        from mlsim.analysis.run_comparison import pair_summary

        return [pair_summary(self.jobs(place)) for place in range(1, len(self.runs))]

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
        from mlsim.analysis.run_summary import json_safe

        plain: dict[str, Any] = json_safe(
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
        from mlsim.experiment.result_directories import reserved, writing

        with reserved(directory) as place, writing(place.directory):
            written = self._draw(place.partial)
            place.keep(manifest=False)
        return [place.directory / path.name for path in written]

    def write(self, directory: str | Path) -> None:
        """Write tables, paired jobs and pictures into a directory that must not exist."""
        from mlsim.experiment.result_directories import complete_or_gone
        from mlsim.experiment.run_directory import write_json

        with complete_or_gone(directory) as place:
            partial = place.partial
            write_json(partial / "comparison.json", self.to_dict())
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
        from mlsim.analysis.run_comparison import comparison_table, differences_table

        tables = [differences_table(self.labels, self.differences)] if self.differences else []
        return html_of(*tables, comparison_table(self.labels, self.metrics, self.tolerance))


def compare(
    *runs: Result | str | Path, labels: Sequence[str] | None = None, tau: float = TAU, tolerance: float = 0.01
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
        found += [run] if isinstance(run, Result) else find_runs([run])
    names = _names(found, labels)
    if len(found) < 2:
        raise InputError(f"a comparison needs two runs or more; given: {', '.join(names) or 'none'}")
    return RunComparison(
        tuple(
            StoredRun(name, run.directory, run.summary, run.records, plain(run.scenario))
            if isinstance(run, Result)
            else read_run(run, name)
            for run, name in zip(found, names, strict=True)
        ),
        tau,
        tolerance,
    )


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
