"""Weeks of a log, each simulated separately (Zrigui 2021, §5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.analysis.job_metrics import JOB_METRICS
from mlsim.batch.clock.replay_many import Replays, replay_many
from mlsim.batch.columns.running_jobs import leave_time
from mlsim.batch.room.unit_requests import Requests
from mlsim.cosim.scenario_inputs import workload_of
from mlsim.errors import InputError
from mlsim.platform import machine_of
from mlsim.record import Chunks, Jobs, Loops, Messages, Nodes, Occupancy, PEs, Records, empty
from mlsim.record.derived_times import TAU
from mlsim.scenario import Policy, Scenario, batch_section, words
from mlsim.workload import JobBlock, Workload, job_selection, log_fields

WEEKLY_AGGREGATES = ("sum", "mean", "median", "min", "max")

NO_RECORDS = Records(
    *(empty(Nodes), empty(Jobs), empty(Occupancy), empty(Loops), empty(Chunks), empty(PEs), empty(Messages))
)
"""The records of replay, which has only a summary."""


@dataclass(frozen=True)
class LogWeeks:
    """The weeks of a scenario's log."""

    scenario: Scenario
    blocks: Mapping[int, JobBlock]  # Number of a week to its jobs; weeks without jobs are left out
    units: int  # Processors of the machine


def check_weekly(scenario: Scenario) -> None:
    """Check that compiled replay can simulate each week of a scenario separately; raise InputError if not."""
    place = scenario.source
    if scenario.workload.weeks is None:
        raise InputError(f"{place}: workload.weeks: missing; weekly results need it, e.g. {{begin: Monday}}")
    _check_replay(scenario, "weeks are")
    for key in ("first", "user"):
        if getattr(scenario.workload.select, key) is not None:
            raise InputError(f"{place}: workload.select.{key}: is for one run, not for weeks; take it out")


def _check_replay(scenario: Scenario, what: str) -> None:
    place = scenario.source
    found = batch_section.replay_obstacle(scenario)
    if scenario.runs_loops:
        found = "application.model", "rigid"
    if found is not None:
        key, value = found
        raise InputError(f"{place}: {key}: {what} simulated by compiled replay, which needs {key}: {value}")
    if Policy.FAIRSHARE in scenario.batch.policies:
        raise InputError(f"{place}: batch.policy: fairshare is not simulated so; choose another policy")


def weeks_of(scenario: Scenario) -> LogWeeks:
    """Return the weeks of a scenario's log: those of ``select.weeks``, or all whole ones."""
    check_weekly(scenario)
    config = scenario.workload
    assert config.weeks is not None, "checked above"
    workload, jobs, units = _one_unit_each(scenario)
    jobs = _on_log_clock(workload, jobs, config.select.scale_load)
    cut = job_selection.week_cut(config.weeks, workload.header, Path(scenario.source))
    first, last = config.select.weeks or (0, 10**6)
    blocks = job_selection.split_weeks(jobs, cut, workload.zero, first, last)
    blocks = {week: block.with_load(config.select.scale_load) for week, block in blocks.items()}
    return LogWeeks(scenario, blocks, units)


def _on_log_clock(workload: Workload, jobs: JobBlock, factor: float) -> JobBlock:
    """Return the jobs of a workload with submit times on the log's own clock, undoing its load factor."""
    return replace(jobs, submit_time=jobs.submit_time * factor + workload.origin)


def _one_unit_each(scenario: Scenario) -> tuple[Workload, JobBlock, int]:
    """Return the workload, its jobs, and the machine's capacity in units, one per processor."""
    config = scenario.workload
    requests = Requests.on(machine_of(scenario), config.mapping, config.request)
    workload = workload_of(scenario)
    jobs = JobBlock.concatenate(list(workload.blocks()))
    if jobs.asked is not None or not np.array_equal(requests.units_of(jobs), jobs.processors):
        raise InputError(
            f"{scenario.source}: workload.mapping: {config.mapping}: this needs one unit of the machine "
            "for each processor of a job; write mapping: core or node, for a log without units, node_count "
            "and request_*"
        )
    return workload, jobs, requests.capacity


@dataclass(frozen=True)
class WholeLog:
    """All jobs of a scenario, for compiled replay on a pool of units."""

    scenario: Scenario
    jobs: JobBlock
    local: Floats  # Submit times as seconds since 1970 on the clocks of the log's time zone
    units: int  # Processors of the machine


def whole_log(scenario: Scenario) -> WholeLog:
    """Return all jobs of a scenario, for compiled replay on a pool of units."""
    _check_replay(scenario, "the log is")
    workload, jobs, units = _one_unit_each(scenario)
    logged = _on_log_clock(workload, jobs, scenario.workload.select.scale_load).submit_time
    local = log_fields.local_times(logged, workload.header, Path(scenario.source))
    return WholeLog(scenario, jobs, local, units)


def run_weekly(scenario: Scenario) -> dict[str, Any]:
    """Simulate the weeks of a scenario's log, each separately; return aggregates of the weekly values."""
    weeks = weeks_of(scenario)
    blocks = list(weeks.blocks.values())
    found = replay_many(blocks, scenario.batch, weeks.units, starts=True)
    ran = found.n_jobs > 0
    numbers = np.array(list(weeks.blocks))[ran]
    kills = scenario.batch.on_overrun is words.OverrunRule.KILL
    jobs = [_jobs(block, found, k, kills) for k, block in enumerate(blocks) if ran[k]]
    summary: dict[str, Any] = {
        "scenario": scenario.name,
        "weeks": {
            "count": len(jobs),
            "jobs": int(found.n_jobs.sum()),
            "first": int(numbers.min()) if len(jobs) else None,
            "last": int(numbers.max()) if len(jobs) else None,
        },
    }
    for key, metric in JOB_METRICS.items():
        summary[key] = _aggregates(np.array([np.nanmean(metric.values(one, TAU)) for one in jobs]))
    backfilled = [float(np.count_nonzero(one.backfilled)) for one in jobs]
    summary["backfilled"] = _aggregates(np.array(backfilled))
    return summary


def empty_weekly() -> dict[str, Any]:
    """Return the summary of no weeks, for its keys."""
    metrics = {key: _aggregates(np.empty(0)) for key in (*JOB_METRICS, "backfilled")}
    return {"scenario": "", "weeks": dict.fromkeys(("count", "jobs", "first", "last")), **metrics}


def _jobs(block: JobBlock, found: Replays, k: int, kills: bool) -> Jobs:
    starts = found.starts[k][0]
    ran = ~np.isnan(starts)
    times = zip(starts.tolist(), block.run_time.tolist(), block.walltime.tolist(), strict=True)
    ends = np.array([leave_time(start + run, start, walltime, kills) for start, run, walltime in times])
    return replace(
        empty(Jobs),
        submit_time=block.submit_time[ran],
        start_time=starts[ran],
        end_time=ends[ran],
        processors=block.processors[ran],
        backfilled=found.backfilled[k][0][ran],
    )


def _aggregates(values: Floats) -> dict[str, float | None]:
    if not len(values):
        return dict.fromkeys(WEEKLY_AGGREGATES)
    results = (values.sum(), values.mean(), np.median(values), values.min(), values.max())
    return {name: float(value) for name, value in zip(WEEKLY_AGGREGATES, results, strict=True)}
