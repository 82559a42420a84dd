"""Jobs whose node fails: they die, start again, or go on where they stopped.

Jobs that the safeguard of the classifier kills start again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlsim.batch.columns.table import BACKFILLED, CORES, END, ESTIMATE, RUN, START, STATE, WALLTIME
from mlsim.batch.events.system import System
from mlsim.record import Attempts, JobState, empty
from mlsim.scenario import BatchConfig, FailureRule

__all__ = ["NO_NODE", "Restarts"]

NO_NODE = -1
"""In place of the node that failed, where none did: the safeguard ended the attempt."""

_SHRINKING = (RUN, ESTIMATE, WALLTIME)
"""Columns from which an attempt takes what it got done."""

_NODE = 1
"""Place of the node in an attempt."""

_SHORTEST_ESTIMATE = 1.0
"""Seconds that a job which has outlived its estimate is expected to need when it goes on."""


@dataclass(slots=True)
class _Past:
    """What a job that started again was like: its row of the table, and its attempts."""

    number: int
    run_time: float
    estimate: float
    walltime: float
    attempts: list[tuple[float, ...]]
    cores: int = 0
    backfilled: int = 0


class Restarts:
    """Sends jobs back to the queue, and notes their attempts.

    Parameters
    ----------
    system
        The batch system.
    config
        What becomes of a job whose node fails, how often, and what its checkpoints save.
    """

    def __init__(self, system: System, config: BatchConfig) -> None:
        self._system = system
        self._rule = config.on_failure
        self._most = config.most_restarts
        self._checkpoint = config.checkpoint
        self._pasts: dict[int, _Past] = {}  # by slot, of jobs in the system
        self._ended: list[tuple[float, ...]] = []

    def count(self, slot: int) -> int:
        """How often a job has started again."""
        past = self._pasts.get(slot)
        return 0 if past is None else len(past.attempts)

    def may_go_on(self, slot: int) -> bool:
        """Whether a job that loses a node goes back to the queue."""
        past = self._pasts.get(slot)
        failures = 0 if past is None else sum(attempt[_NODE] != NO_NODE for attempt in past.attempts)
        return self._rule is not FailureRule.DIE and failures < self._most

    def record_attempt(self, slot: int, now: float, node: int, busy: float, core_seconds: float) -> None:
        """Record the end of an attempt, before the job goes back to the queue.

        Parameters
        ----------
        slot
            The job; it still has the times of its attempt.
        now
            When its node failed, in s, or the safeguard killed it.
        node
            The node; :data:`NO_NODE` for the safeguard.
        busy
            PE-seconds it computed.
        core_seconds
            What it held in this attempt.
        """
        floats, ints = self._system.state.table.floats, self._system.state.table.ints
        past = self._pasts.get(slot)
        if past is None:
            number = self._system.state.number(slot)
            run_time, estimate, walltime = (float(floats[column, slot]) for column in _SHRINKING)
            past = _Past(number, run_time, estimate, walltime, [])
            self._pasts[slot] = past
        past.cores, past.backfilled = int(ints[CORES, slot]), int(ints[BACKFILLED, slot])
        start = float(floats[START, slot])
        kept = 0.0 if node == NO_NODE else self._kept(now - start)
        floats[RUN, slot] -= kept
        for column in (ESTIMATE, WALLTIME):
            time = float(floats[column, slot])
            floats[column, slot] = time - kept if time > kept else min(time, _SHORTEST_ESTIMATE)
        # A job that can keep work holds all its nodes to its end.
        lost = core_seconds - kept * past.cores
        past.attempts.append((past.number, node, start, now, kept, lost, busy))

    def _kept(self, ran: float) -> float:
        """Seconds of an attempt that need not be done again."""
        if self._rule is not FailureRule.RESUME:
            return 0.0
        if self._checkpoint is None:
            return ran
        return min(math.floor(ran / self._checkpoint + 1e-9) * self._checkpoint, ran)

    def forget(self, slots: list[int]) -> None:
        """Keep the attempts of jobs that leave, and restore the run times and walltimes of the workload."""
        for slot in slots if self._pasts else ():
            past = self._pasts.pop(slot, None)
            if past is not None:
                table = self._system.state.table
                table.floats[_SHRINKING, slot] = past.run_time, past.estimate, past.walltime
                self._ended += past.attempts

    def strand(self, slot: int) -> bool:
        """Mark a job that can never start again as failed, if it ran before; return whether it did.

        It gets the times of its last attempt.
        """
        past = self._pasts.get(slot)
        if past is None:
            return False
        table = self._system.state.table
        _, _, start, end, *_ = past.attempts.pop()
        table.floats[START, slot], table.floats[END, slot] = start, end
        table.ints[CORES, slot], table.ints[BACKFILLED, slot] = past.cores, past.backfilled
        table.ints[STATE, slot] = JobState.FAILED
        return True

    def record(self) -> Attempts:
        """Return the ended attempts of jobs that have left, by job, then start."""
        if not self._ended:
            return empty(Attempts)
        job, node, *others = (np.array(column) for column in zip(*self._in_order(), strict=True))
        return Attempts(job.astype(np.int64), node.astype(np.int64), *others)

    def _in_order(self) -> list[tuple[float, ...]]:
        return sorted(self._ended, key=lambda row: (row[0], row[2]))
