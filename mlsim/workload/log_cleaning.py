"""Cleaning: rules for jobs that cannot be simulated as the log has them."""

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Mask
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.resources_section import MEMORY
from mlsim.scenario.words import CleaningRule, EstimateSource, Mapping, MemorySource, NeverRan
from mlsim.scenario.workload_section import CleaningConfig
from mlsim.workload.resource_requests import MB, SWF_KB, ResourceRequests
from mlsim.workload.workload_dependencies import with_preceding_jobs
from mlsim.workload.workload_jobs import IF_KNOWN, JobBlock, LogBlock

_RULES = tuple(CleaningConfig.model_fields)
MARKS = (*_RULES, "processors_from_allocated", "estimate_from_run_time", "never_ran")
"""Rules that a kept job may have met; a rule's bit in ``JobBlock.met`` is its place in this tuple."""

_CODES = tuple(name for name in IF_KNOWN if name != "node_count")
_FAILED, _CANCELLED = 0, 5
_SHORTEST_TIME = 1.0


class Cleaner:
    """Turns jobs of a log into jobs of a workload; ``notes`` counts the jobs that met each rule."""

    def __init__(
        self, config: WorkloadConfig, machine_processors: int, resources: tuple[str, ...] | None = ()
    ) -> None:
        self.notes: Counter[str] = Counter()
        self._rules: dict[str, CleaningRule] = {rule: getattr(config.cleaning, rule) for rule in _RULES}
        self._machine_processors, self._resources = machine_processors, resources  # None: any of the log
        self._memory, self._never_ran = config.request.memory, config.never_ran
        self._dependencies = config.dependencies
        self._by_nodes = config.mapping is Mapping.NODE  # where the log has the nodes, these are the size
        self._actual_estimates = config.estimates is EstimateSource.ACTUAL

    def clean(self, log: LogBlock) -> JobBlock:
        """Apply the rules to some jobs; the rows stay in the log's order."""
        log, run_time = self._with_run_time(self._wanted(log))
        requested = log.requested_processors > 0
        processors = np.where(requested, log.requested_processors, log.allocated_processors)
        known = log.requested_time > 0
        positive = np.where(run_time > 0, run_time, _SHORTEST_TIME)
        walltime = positive if self._actual_estimates else np.where(known, log.requested_time, positive)

        stays = np.ones(len(log), np.bool_)
        none = processors <= 0
        processors[self._meet("no_processors", none, stays)] = 1
        asked = self._asked(log, processors)
        nodes = log.node_count.copy()
        size = np.where(nodes > 0, nodes, processors) if self._by_nodes else processors
        too_big = size > self._machine_processors
        if asked is not None:
            too_big &= asked.units < 1  # a job with given units has a shape; the batch level judges it
        clamped = self._meet("oversize", too_big, stays)
        processors[clamped], nodes[clamped] = self._machine_processors, -1
        overrun = run_time > walltime
        too_short = self._meet("underestimate", overrun, stays)
        walltime[too_short] = run_time[too_short]

        allocated = ~requested & (log.allocated_processors > 0)
        unknown = ~known & (not self._actual_estimates)
        self.notes["processors_from_allocated"] += int(np.sum(stays & allocated))
        self.notes["estimate_from_run_time"] += int(np.sum(stays & unknown))
        met = _marks(
            cancelled=log.status == _CANCELLED,
            failed=log.status == _FAILED,
            unknown_run_time=log.run_time < 0,
            zero_run_time=log.run_time == 0,
            no_processors=none,
            oversize=too_big,
            underestimate=overrun,
            processors_from_allocated=allocated,
            estimate_from_run_time=unknown,
            never_ran=log.withdraw_time >= 0,
        )
        after = None
        if self._dependencies:
            after = with_preceding_jobs(log.preceding_job, log.think_time, log.after)
        leaves = log.withdraw_time
        jobs = JobBlock(
            job_id=log.job_id.astype(np.int64),
            submit_time=log.submit_time,
            run_time=run_time,
            walltime=walltime,
            processors=processors.astype(np.int64),
            met=met,
            log_wait=log.wait_time,
            node_count=nodes.astype(np.int64),
            patience=np.where(leaves >= 0, np.maximum(leaves - log.submit_time, 0.0), -1.0),
            asked=asked,
            after=after,
            own=log.own,
            **{name: getattr(log, name).astype(np.int64) for name in _CODES},
        )
        return jobs.select(stays)

    def _asked(self, log: LogBlock, processors: Floats) -> ResourceRequests | None:
        """Return the requests of jobs beside processors; None where their log has none."""
        asked = log.asked
        if asked is not None and self._resources is not None:
            asked = asked.ordered(self._resources)
        if self._memory is MemorySource.NONE or self._resources is None or MEMORY not in self._resources:
            return asked
        asked = asked or ResourceRequests.unspecified(len(log), self._resources)
        used = self._memory is MemorySource.USED
        per_processor = (log.used_memory if used else log.requested_memory) * SWF_KB
        total = np.floor(per_processor // MB * np.maximum(processors, 1))
        column = asked.totals[:, self._resources.index(MEMORY)]
        unknown = (column < 0) & (per_processor > 0)
        column[unknown] = total[unknown].astype(np.int64)
        return asked

    def _wanted(self, log: LogBlock) -> LogBlock:
        """Leave out jobs without a submit time, and those that ended in a way that is not wanted."""
        # Jobs that were cancelled while they waited have no run time, and are cancelled or withdrawn.
        never = (log.run_time <= 0) & ((log.status == _CANCELLED) | (log.withdraw_time >= 0))
        log = self._with_withdrawals(log, never)
        stays = log.submit_time >= 0
        self.notes["unknown_submit_time"] += int(np.sum(~stays))
        if self._never_ran is NeverRan.LEAVE_OUT:
            self.notes["never_ran"] += int(np.sum(never & stays))
            stays &= ~never
        self.notes["never_ran"] += int(np.sum(stays & (log.withdraw_time >= 0)))
        self._meet("cancelled", log.status == _CANCELLED, stays)
        self._meet("failed", log.status == _FAILED, stays)
        return log.rows(stays)

    def _with_withdrawals(self, log: LogBlock, never: Mask) -> LogBlock:
        """Set the withdrawal time of the jobs that never ran, and of no others."""
        if self._never_ran in (NeverRan.LEAVE_OUT, NeverRan.KEEP):
            return replace(log, withdraw_time=np.full(len(log), -1.0))
        leaves = log.withdraw_time
        if self._never_ran is NeverRan.WITHDRAW:
            known = (leaves < 0) & (log.wait_time >= 0)
            leaves = np.where(known, log.submit_time + log.wait_time, leaves)
        leaves = np.where(never, leaves, -1.0)
        run_time = np.where(leaves >= 0, np.maximum(log.run_time, 0.0), log.run_time)
        return replace(log, withdraw_time=leaves, run_time=run_time)

    def _with_run_time(self, log: LogBlock) -> tuple[LogBlock, Floats]:
        """Leave out jobs that cannot run, and set the run time of all others."""
        stays = np.ones(len(log), np.bool_)
        run_time = log.run_time.copy()
        unknown = self._meet("unknown_run_time", run_time < 0, stays)
        run_time[unknown] = log.requested_time[unknown]
        timeless = unknown & (run_time <= 0)
        self.notes["no_time_at_all"] += int(np.sum(timeless))
        stays &= ~timeless
        run_time[self._meet("zero_run_time", run_time == 0, stays)] = _SHORTEST_TIME
        return log.rows(stays), run_time[stays]

    def _meet(self, rule: str, met: Mask, stays: Mask) -> Mask:
        """Count the jobs that meet a rule, take dropped ones from `stays`, and return those to clamp."""
        met = met & stays
        self.notes[rule] += int(np.sum(met))
        if self._rules[rule] is CleaningRule.DROP:
            stays &= ~met
        return met if self._rules[rule] is CleaningRule.CLAMP else np.zeros_like(met)


def _marks(**conditions: Mask) -> NDArray[np.int64]:
    """Encode the rules that each job met as bits of one integer."""
    met = np.zeros(len(conditions["failed"]), np.int64)
    for bit, name in enumerate(MARKS):
        met |= conditions[name].astype(np.int64) << bit
    return met


def count_marks(met: NDArray[np.int64]) -> dict[str, int]:
    """Return the number of jobs that met each of the :data:`MARKS`, from the column ``met`` of jobs."""
    return {name: int(np.count_nonzero(met >> bit & 1)) for bit, name in enumerate(MARKS)}
