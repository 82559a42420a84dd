"""The files of Batsim's output, so that what reads them reads a run: ``out_jobs.csv``, ``out_schedule.csv``.

Columns, their order and their texts are those of Batsim 4 (documentation, "Jobs" and "Schedule"), which later
versions kept for jobs. A resource is a node where jobs have whole nodes, and otherwise a core, numbered node
by node. Imports Polars, and so is imported late.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from mlsim import __version__
from mlsim.record.column_types import JobState, words_of
from mlsim.record.derived_times import off_spans, run_energy, run_span
from mlsim.record.node_sets import job_node_sets, number_cores
from mlsim.record.parquet_tables import frame
from mlsim.record.record_tables import Occupancy, Records
from mlsim.record.table_blocks import blocks_of, record_blocks

_BLOCK = 1 << 16  # jobs at a time
_FINAL = {
    JobState.COMPLETED: "COMPLETED_SUCCESSFULLY",
    JobState.KILLED: "COMPLETED_WALLTIME_REACHED",
    JobState.FAILED: "COMPLETED_FAILED",
    JobState.REJECTED: "REJECTED",
    JobState.WITHDRAWN: "REJECTED",
}
_MEASURES = {"waiting_time": "waiting_time", "turnaround_time": "turnaround_time", "stretch": "slowdown"}
"""Columns of jobs that the schedule sums up, and Batsim's words for them there."""
_JOB = r"^([^!]+)!(.+)$"  # a workload and its job


def write_batsim(directory: Path, records: Records, per_node: int | None) -> None:
    """Write both files; ``per_node``: processors of a node, or None where jobs share nodes."""
    held = _Resources(records, per_node)
    totals = _Totals()
    with (directory / "out_jobs.csv").open("wb") as file:
        for number, (table, own) in enumerate(held.blocks()):
            jobs = _jobs(table, own)
            jobs.write_csv(file, include_header=number == 0, float_precision=6, float_scientific=False)
            totals.add(jobs)
    values = _schedule(totals, held, records)
    words = [f"{value:.6f}" if isinstance(value, float) else str(value) for value in values.values()]
    text = f"{','.join(values)}\n{','.join(words)}\n"
    (directory / "out_schedule.csv").write_text(text, encoding="utf-8")


class _Resources:
    """The resources of the machine, and those that jobs asked for and held."""

    def __init__(self, records: Records, per_node: int | None) -> None:
        self._records, jobs, stays = records, records.jobs, records.occupancy
        cores = records.nodes.cores
        self.of_node = cores if per_node is None else np.ones_like(cores)
        self.requested = jobs.processors
        self._stays = stays
        if per_node is not None:
            first = stays.start == jobs.start_time[stays.job]
            nodes = np.bincount(stays.job[first], stays.count[first], len(jobs.job_id)).astype(np.int64)
            self.requested = np.where(nodes > 0, nodes, -(-jobs.processors // per_node))
            return
        held = number_cores(records.nodes, jobs, stays)
        ones = np.ones(len(held.row), np.int64)
        place = (np.cumsum(cores) - cores)[held.node] + held.core
        rows = {name: getattr(stays, name)[held.row] for name in ("job", "start", "end", "released")}
        self._stays = Occupancy(**rows, node=place, count=ones, cores=ones)

    def blocks(self) -> Iterator[tuple[pl.DataFrame, dict[str, pl.Series]]]:
        """Yield jobs as files have them, and the resources that they asked for and ever held."""
        sets = job_node_sets(self._stays, len(self._records.jobs.job_id))
        first = 0
        for block in record_blocks(self._records, _BLOCK):
            rows = slice(first, first + len(block.jobs.job_id))
            own = {"requested": pl.Series(self.requested[rows]), "resources": pl.Series(sets[rows])}
            yield frame("jobs", block, None), own
            first = rows.stop

    def computing(self) -> float:
        """Return the time for which jobs held resources [resource s]."""
        return sum(float(stays.count @ (stays.end - stays.start)) for stays in blocks_of(self._stays))

    def unavailable(self) -> float:
        """Return the time for which resources were out of service and held by no job [resource s]."""
        node, start, end = off_spans(self._records.outages, self._records.occupancy, *run_span(self._records))
        return float(self.of_node[node] @ (end - start))


def _jobs(table: pl.DataFrame, own: dict[str, pl.Series]) -> pl.DataFrame:
    """Return jobs with Batsim's columns."""
    at = table.columns
    called = [pl.col(column).cast(pl.String) for column in ("job_id_name", "job_id") if column in at]
    name = pl.coalesce(*called)
    profile = pl.concat_str(pl.lit("delay_"), pl.col("log_run_time").cast(pl.String).str.strip_suffix(".0"))
    named = [column for column in ("profile", "application", "executable_name") if column in at]
    state = pl.col("state").cast(pl.String)
    final = {words_of(JobState)[code]: text for code, text in _FINAL.items()}
    submitted, start, end = (pl.col(f"{word}_time") for word in ("submit", "start", "end"))
    ran = start.is_not_null()
    return table.with_columns(**own).select(
        job_id=pl.coalesce(name.str.extract(_JOB, 2), name),
        workload_name=pl.coalesce(name.str.extract(_JOB, 1), pl.lit("w0")),
        profile=pl.coalesce(*(pl.col(column).cast(pl.String) for column in named), profile),
        submission_time=submitted,
        requested_number_of_resources="requested",
        requested_time=pl.col("walltime"),
        success=(state == "completed").cast(pl.Int8),
        final_state=state.replace_strict(final),
        starting_time=start,
        execution_time=end - start,
        finish_time=end,
        waiting_time=start - submitted,
        turnaround_time=end - submitted,
        stretch=(end - submitted) / (end - start),
        allocated_resources="resources",
        consumed_energy=pl.when(ran).then(pl.col("energy") if "energy" in at else pl.lit(-1.0)),
        metadata=pl.when(state == "withdrawn").then(pl.lit("withdrawn")).otherwise(pl.lit("")),
    )


class _Totals:
    """Counts, sums and extremes over blocks of jobs."""

    def __init__(self) -> None:
        self.states = Counter[str]()
        self._sums = dict.fromkeys(_MEASURES, 0.0)
        self._most = dict.fromkeys(_MEASURES, 0.0)

    def add(self, jobs: pl.DataFrame) -> None:
        """Add some jobs."""
        self.states.update(jobs["final_state"].to_list())
        for name in _MEASURES:
            values = jobs[name].drop_nulls().to_numpy()
            self._sums[name] += math.fsum(values)
            self._most[name] = float(np.fmax.reduce(values, initial=self._most[name]))

    def of(self, name: str) -> tuple[float, float]:
        """Return the mean of a column over jobs that ran, and the largest value."""
        ran = self.states.total() - self.states["REJECTED"]
        return (self._sums[name] / ran, self._most[name]) if ran else (math.nan, math.nan)


def _schedule(totals: _Totals, held: _Resources, records: Records) -> dict[str, object]:
    """Return the fields of the schedule, in Batsim's order: that of their names."""
    jobs, rejected = totals.states.total(), totals.states["REJECTED"]
    success, (begin, end) = totals.states["COMPLETED_SUCCESSFULLY"], run_span(records)
    energy, resources = run_energy(records), int(held.of_node.sum())
    computing, unavailable = held.computing(), held.unavailable()
    found: dict[str, object] = {
        "batsim_version": f"mlsim-{__version__}",
        "consumed_joules": "" if energy is None else energy.total,
        "makespan": end - begin,
        "nb_computing_machines": resources,
        **dict.fromkeys(("nb_grouped_switches", "nb_machine_switches"), 0),
        "nb_jobs": jobs,
        "nb_jobs_finished": jobs - rejected,
        "nb_jobs_killed": jobs - rejected - success,
        "nb_jobs_rejected": rejected,
        "nb_jobs_success": success,
        "success_rate": success / jobs if jobs else math.nan,
        "time_computing": computing,
        "time_idle": resources * (end - begin) - computing - unavailable,
        **dict.fromkeys(("time_sleeping", "time_switching_off", "time_switching_on"), 0.0),
        "time_unavailable": unavailable,
    }
    for name, batsims in _MEASURES.items():
        found[f"mean_{batsims}"], found[f"max_{batsims}"] = totals.of(name)
    return dict(sorted(found.items()))
