"""Compiled replay of small and large jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._jit import kernel, leaf_kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.clock.compiled_replay import ENDS, N_PROGRESS, NEXT_WITHDRAWAL, plan_ends, pop_ends
from mlsim.batch.clock.replay_many import ReplayMemory
from mlsim.batch.columns.job_columns import CLASSES, FREE, Columns, columns_at
from mlsim.batch.columns.job_table import (
    BACKFILLED,
    END,
    ESTIMATE,
    EXPECTED,
    LARGE,
    NUMBER,
    PLANNED,
    PROCESSORS,
    RUN,
    START,
    SUBMIT,
    UNITS,
    WALLTIME,
    WITHDRAWAL,
)
from mlsim.batch.dispatch.passes import Reserving, arrive, begin, enter_queue, has_work, make_pass, reserving
from mlsim.batch.order.policies import parameters_of
from mlsim.batch.order.queue import next_withdrawal, skip_started, withdraw, withdrawals_in_order
from mlsim.batch.room.pool import pool_at
from mlsim.batch.state.batch_columns import rules_of
from mlsim.scenario import Backfill, BatchConfig, EasyRule, OverrunRule, Policy, TieOrder
from mlsim.workload.workload_jobs import JobBlock


@dataclass(frozen=True, slots=True)
class ClassReplay:
    """Times of each job, in the order of the workload; NaN where a job never ran.

    Attributes
    ----------
    start, end
        Of the last attempt [s].
    killed
        When the attempt as a small job started that the safeguard ended [s]; NaN where there was none.
    lost
        Node-seconds of that attempt: units x divider; 0 where there was none.
    backfilled
        Whether the last attempt started while one before it in the queue waited.
    """

    start: Floats
    end: Floats
    killed: Floats
    lost: Floats
    backfilled: Mask


def class_obstacle(config: BatchConfig) -> tuple[str, str] | None:
    """Return what keeps classes of jobs from replay: the key and what it would have to be; None: nothing."""
    needs = (
        ("policy", "another one than fairshare, which goes by users", Policy.FAIRSHARE in config.policies),
        ("backfill", "none, greedy or easy", config.backfill is Backfill.CONSERVATIVE),
        ("backfill_order", "that of the policy", config.backfill_order not in (None, config.ordering)),
        ("reservations", "1", config.reservations != 1),
        ("ties", "drained", config.ties is not TieOrder.DRAINED),
        ("easy", "standard", config.backfill is Backfill.EASY and config.easy is not EasyRule.STANDARD),
    )
    return next(((key, value) for key, value, stands in needs if stands), None)


def replay_classes(
    jobs: JobBlock, config: BatchConfig, units: int, small: Mask, divider: Floats, *, safeguard: bool
) -> ClassReplay:
    """Simulate jobs of two classes on one pool of identical units.

    Parameters
    ----------
    jobs
        In order of (submit_time, job_id); times in seconds.
    config
        Policy, backfilling, threshold, what happens at the end of an estimate.
    units
        Units of the machine; each processor that a job asks for is one.
    small
        Whether each job is taken for small.
    divider
        Run time below which each one would be [s], frozen at its submission; read with the safeguard.
    safeguard
        Whether jobs that were taken for small are killed when they run past their divider.

    Raises
    ------
    ValueError
        If a key stands against it (:func:`class_obstacle`).
    """
    obstacle = class_obstacle(config)
    if obstacle is not None:
        raise ValueError(f"classes of jobs need {': '.join(obstacle)}")
    if jobs.node_sets is not None:
        raise ValueError("replay_classes counts units, and jobs have sets of nodes; use BatchSystem")
    rules = rules_of(config, exclusive=False, merge=True, nodes=False)
    parameters = parameters_of(config)
    rules[CLASSES] = True
    n = len(jobs)
    memory = ReplayMemory(rules, len(parameters), n)
    memory.columns.parameters[:] = parameters
    start, end, killed, lost = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan), np.zeros(n)
    flags = np.zeros(n, np.bool_)
    kills = config.on_overrun is OverrunRule.KILL
    stay = np.minimum(jobs.run_time, jobs.walltime) if kills else jobs.run_time
    _replay(
        jobs.submit_time.astype(np.float64),
        jobs.run_time.astype(np.float64),
        jobs.walltime.astype(np.float64),
        jobs.processors.astype(np.int64),
        jobs.withdrawals(),
        np.ascontiguousarray(small, np.bool_),
        np.where(safeguard & small & (stay > divider), divider, np.inf),
        units,
        start,
        end,
        killed,
        lost,
        flags,
        *memory.addresses,
        reserving(rules),
    )
    return ClassReplay(start, end, killed, lost, flags)


@leaf_kernel
def _next_withdrawal(progress: Ints, withdrawals: Ints, killed: Floats, columns: Columns) -> float:
    """Return when the next job is withdrawn that has not started [s]; infinity if there is none.

    A job that the safeguard has killed waits again, and is not withdrawn any more.
    """
    place = skip_started(progress[NEXT_WITHDRAWAL], withdrawals, columns)
    while place < len(withdrawals) and not np.isnan(killed[withdrawals[place]]):
        place = skip_started(place + 1, withdrawals, columns)
    progress[NEXT_WITHDRAWAL] = place
    return next_withdrawal(place, withdrawals, columns)


@kernel
def _replay(
    submit: Floats,
    run: Floats,
    walltime: Floats,
    processors: Ints,
    withdrawn: Floats,
    small: Mask,
    divider: Floats,
    units: int,
    start: Floats,
    end: Floats,
    killed: Floats,
    lost: Floats,
    flags: Mask,
    columns_address: int,
    pool_address: int,
    passes: Reserving,
) -> None:
    """Simulate; ``divider`` is infinite for jobs that may run to their end."""
    columns, pool = columns_at(columns_address), pool_at(pool_address)
    floats, ints, n = columns.floats, columns.ints, len(submit)
    ends, order = np.empty(n, np.int64), np.empty(n, np.int64)
    arrivals, again = np.empty(n, np.int64), np.empty(n, np.int64)
    progress = np.zeros(N_PROGRESS, np.int64)
    fitting, first = 0, 0
    floats[:, :n] = np.nan
    for slot in range(n):
        floats[SUBMIT, slot], floats[RUN, slot] = submit[slot], min(run[slot], divider[slot])
        floats[ESTIMATE, slot] = floats[WALLTIME, slot] = walltime[slot]
        ints[NUMBER, slot], ints[LARGE, slot] = slot, not small[slot]
        ints[UNITS, slot] = ints[PROCESSORS, slot] = processors[slot]
        floats[WITHDRAWAL, slot] = withdrawn[slot]
        if processors[slot] <= units and not withdrawn[slot] <= submit[slot]:
            arrivals[fitting] = slot
            fitting += 1
    columns.counts[FREE] = units
    withdrawals = withdrawals_in_order(arrivals[:fitting], floats)
    while first < fitting or progress[ENDS] > 0:
        now = submit[arrivals[first]] if first < fitting else np.inf
        if progress[ENDS] > 0:
            now = min(now, floats[PLANNED, ends[0]])
        now = min(now, _next_withdrawal(progress, withdrawals, killed, columns))
        last = first
        while last < fitting and submit[arrivals[last]] == now:
            last += 1
        while _next_withdrawal(progress, withdrawals, killed, columns) <= now:
            withdraw(withdrawals[progress[NEXT_WITHDRAWAL]], columns)
            progress[NEXT_WITHDRAWAL] += 1
        n_ended = pop_ends(now, progress, ends, order, columns)
        arrive(now, n_ended, 0, 0, arrivals, columns, pool)
        n_again = 0
        for k in range(n_ended):
            slot = columns.ended[k]
            if divider[slot] < np.inf:  # nothing else ends it
                killed[slot], lost[slot] = floats[START, slot], processors[slot] * divider[slot]
                divider[slot], floats[RUN, slot] = np.inf, run[slot]
                ints[BACKFILLED, slot], ints[LARGE, slot] = 0, 1
                for column in (START, END, EXPECTED, PLANNED):
                    floats[column, slot] = np.nan
                again[n_again] = slot
                n_again += 1
        enter_queue(now, 0, n_again, again, columns)
        enter_queue(now, first, last, arrivals, columns)
        first = last
        if has_work(columns):
            begin(now, False, columns, pool)
            n_started = make_pass(0, now, columns, pool, passes)
            plan_ends(n_started, now, progress, ends, order, columns)
    for slot in range(n):
        start[slot], end[slot] = floats[START, slot], floats[END, slot]
        flags[slot] = ints[BACKFILLED, slot] != 0
