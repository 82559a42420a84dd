"""Many simulations in one call, every workload under every weight vector; and classes of jobs.

For studies and learning that need start times or sums of slowdowns and nothing else: no nodes are
chosen, units are only counted. Start times are those of
:class:`mlsim.batch.clock.compiled_replay.CompiledBatch`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.clock.compiled_replay import Safeguard, replay
from mlsim.batch.clock.planned_ends import N_PROGRESS, NO_RELEASES, Events, Releasing
from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import Columns, columns_at, pack_pointers
from mlsim.batch.columns.running_jobs import running_arrays
from mlsim.batch.dispatch.passes import Reserving, reserving
from mlsim.batch.order.policies import N_SHARES, parameters_of
from mlsim.batch.order.queue import withdrawals_in_order
from mlsim.batch.room.pool import N_POOL_COUNTS, Pool
from mlsim.batch.state.batch_columns import block_arrays, profile_arrays, rules_of
from mlsim.scenario import BatchConfig, Policy
from mlsim.scenario.policy_words import WEIGHTS
from mlsim.scenario.words import Backfill, EasyRule, OverrunRule, TieOrder
from mlsim.workload.workload_jobs import JobBlock

_N_INTS, _N_FLOATS = len(at.INTS), len(at.FLOATS)
_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Replays:
    """Results of many simulations: W workloads, V weight vectors.

    Sums are over the jobs that ran: of (wait + run) / run, and of max((wait + run) / max(run, tau), 1), with
    the time that the job really ran. A job of no run time counts in the bounded one only.
    """

    slowdown: Floats  # float64[W, V]
    bounded_slowdown: Floats  # float64[W, V]
    ran: Ints  # int64[W, V]: jobs that ran: all but those that ask for too much, or were withdrawn
    starts: list[Floats]  # per workload float64[V, jobs]: start times [s], NaN without one; if asked for
    backfilled: list[Mask]  # whether a job started while one before it in the queue waited; as `starts`

    @property
    def n_jobs(self) -> Ints:
        """Number of jobs that ran under the first weight vector, per workload."""
        return self.ran[:, 0]


def replay_many(
    workloads: Sequence[JobBlock],
    config: BatchConfig,
    units: int,
    weights: ArrayLike | None = None,
    *,
    tau: float = 10.0,
    starts: bool = False,
) -> Replays:
    """Simulate every workload under every weight vector, on one pool of identical units.

    Workloads, such as weeks of a log, are jobs in order of (submit_time, job_id). ``weights`` (V, 6) are
    those of policy linear, in the order q, p, wait, ratio, exp, area; each row is divided by the sum of its
    absolute values (None: those of ``config``, V = 1). ``tau`` is the bound of the bounded slowdown (s). With
    ``starts`` start times are returned as well, and which jobs were backfilled. Raises ValueError if weights
    do not fit, the policy does not take any, or it is fairshare, which is not for short workloads.

    Examples
    --------
    >>> import numpy as np
    >>> from mlsim.scenario import BatchConfig
    >>> config = BatchConfig.model_validate({"policy": "linear", "weights": {"p": 1}, "backfill": "easy"})
    >>> replay_many([], config, 64, np.eye(6)).bounded_slowdown.shape
    (0, 6)
    """
    if Policy.FAIRSHARE in config.policies:
        raise ValueError("replay_many does not know whose jobs they are; use another policy than fairshare")
    if any(block.node_sets is not None for block in workloads):
        raise ValueError("replay_many counts units, and jobs have sets of nodes; use BatchSystem")
    parameters = _parameters(config, weights)
    rules = rules_of(config, exclusive=False, merge=True, nodes=False)
    lengths = np.array([len(block) for block in workloads], np.int64)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n_vectors, n_jobs = len(parameters), int(bounds[-1])
    slowdown = np.zeros((len(workloads), n_vectors))
    bounded = np.zeros((len(workloads), n_vectors))
    ran = np.zeros((len(workloads), n_vectors), np.int64)
    begun = np.empty((n_vectors, n_jobs if starts else 0))
    memory = _Memory(rules, parameters.shape[1], int(lengths.max(initial=0)))
    jobs = _Jobs(
        bounds,
        _joined(block.submit_time for block in workloads),
        _joined(block.run_time for block in workloads),
        _joined(block.estimate for block in workloads),
        _joined(block.processors for block in workloads).astype(np.int64),
        _joined(block.withdrawals() for block in workloads),
    )
    sums = _Sums(parameters, slowdown, bounded, ran, begun)
    _replay_all(jobs, units, tau, sums, *memory.addresses, reserving(rules))
    parts = [begun[:, bounds[k] : bounds[k + 1]] for k in range(len(workloads))] if starts else []
    flags = [np.signbit(part) for part in parts]
    return Replays(slowdown, bounded, ran, [np.abs(part) for part in parts], flags)


def _parameters(config: BatchConfig, weights: ArrayLike | None) -> Floats:
    """Return the parameters of the policies' keys, one row a weight vector."""
    own = parameters_of(config)
    if weights is None:
        return own[np.newaxis]
    if Policy.LINEAR not in config.policies:
        raise ValueError(f"weights are for policy linear, and the policy is {config.policy}")
    vectors = np.atleast_2d(np.asarray(weights, np.float64))
    totals = np.abs(vectors).sum(axis=1, keepdims=True)
    if vectors.ndim != 2 or vectors.shape[1] != 6 or not np.isfinite(vectors).all() or not totals.all():
        raise ValueError(
            f"weights of shape {vectors.shape}; allowed: rows of 6 finite numbers, not all of them 0"
        )
    parameters = np.repeat(own[np.newaxis], len(vectors), axis=0)
    parameters[:, WEIGHTS:] = vectors / totals
    return parameters


def _joined(columns: Iterable[NDArray[Any]]) -> Floats:
    return np.concatenate([np.empty(0), *columns])


class _Jobs(NamedTuple):
    """Jobs of all workloads, ``bounds[k]`` to ``bounds[k + 1]`` those of workload k; times in seconds."""

    bounds: Ints
    submit: Floats
    run: Floats
    estimate: Floats
    processors: Ints
    withdrawn: Floats


class _Sums(NamedTuple):
    """Parameters of the policies, one row per weight vector, and results per workload and vector."""

    parameters: Floats
    slowdown: Floats
    bounded: Floats
    ran: Ints
    starts: Floats  # below 0 where the job was backfilled; empty unless asked for


class _Memory:
    """The state of the batch level for one workload, reused for the next; nodes are not chosen."""

    def __init__(self, rules: Ints, n_parameters: int, longest: int) -> None:
        self.columns = Columns(
            rules=rules,
            parameters=np.zeros(n_parameters),
            floats=np.empty((_N_FLOATS, longest)),
            ints=np.zeros((_N_INTS, longest), np.int64),
            queue=np.empty(longest, np.int64),
            **block_arrays(longest),
            spare=np.empty(2 * longest, np.int64),
            **running_arrays(longest),
            counts=np.zeros(at.N_COUNTS, np.int64),
            rows=np.empty((0, 0), np.int64),
            times=np.empty((0, 0)),
            shares=np.empty((N_SHARES, 0)),
            foreseen=np.empty((2, 0), np.int64),
            foreseen_times=np.empty(0),
            **profile_arrays(rules, longest),
            named=np.empty(0, np.int64),
            started=np.empty(longest, np.int64),
            ended=np.empty(longest, np.int64),
        )
        no_nodes, no_starts = np.empty(0, np.int64), np.empty((0, 0), np.int64)
        self.pool = Pool(no_nodes, no_nodes, no_starts, no_starts, np.zeros(N_POOL_COUNTS, np.int64))
        self._packed = pack_pointers(self.columns), pack_pointers(self.pool)
        first, second = (int(packed.ctypes.data) for packed in self._packed)
        self.addresses = first, second


@kernel
def _replay_all(
    jobs: _Jobs,
    units: int,
    tau: float,
    sums: _Sums,
    columns_address: int,
    pool_address: int,
    passes: Reserving,
) -> None:
    """Simulate every workload under every weight vector."""
    columns, bounds = columns_at(columns_address), jobs.bounds
    parameters, starts = sums.parameters, sums.starts
    floats, ints, counts = columns.floats, columns.ints, columns.counts
    longest = floats.shape[1]
    ends, order = np.empty(longest, np.int64), np.empty(longest, np.int64)
    finished, arrivals = np.empty(longest, np.int64), np.empty(longest, np.int64)
    progress, clock, none = np.zeros(N_PROGRESS, np.int64), np.zeros(1), np.empty(0)
    guard, slots = Safeguard(none, none, none, none), np.empty(0, np.int64)
    releasing = Releasing(slots, slots, none, slots, none, slots)
    for k in range(len(bounds) - 1):
        first, n = bounds[k], bounds[k + 1] - bounds[k]
        fitting = 0
        for slot in range(n):
            floats[at.SUBMIT, slot], floats[at.RUN, slot] = jobs.submit[first + slot], jobs.run[first + slot]
            floats[at.ESTIMATE, slot] = floats[at.WALLTIME, slot] = jobs.estimate[first + slot]
            ints[at.NUMBER, slot] = slot
            ints[at.UNITS, slot] = ints[at.PROCESSORS, slot] = jobs.processors[first + slot]
            floats[at.WITHDRAWAL, slot] = jobs.withdrawn[first + slot]
            if ints[at.UNITS, slot] <= units and not floats[at.WITHDRAWAL, slot] <= floats[at.SUBMIT, slot]:
                arrivals[fitting] = slot
                fitting += 1
        withdrawals = withdrawals_in_order(arrivals[:fitting], floats)
        events = Events(arrivals[:fitting], clock, progress, ends, order, finished, withdrawals)
        for vector in range(len(parameters)):
            floats[at.START : at.WALLTIME, :n] = np.nan  # all that a simulation writes
            counts[:] = 0
            counts[at.FREE] = units
            progress[:] = 0
            for place in range(len(columns.parameters)):
                columns.parameters[place] = parameters[vector, place]
            replay(
                False, events, guard, releasing, _UNLIMITED, _UNLIMITED, columns_address, pool_address, passes
            )
            for place in range(fitting):
                slot = arrivals[place]
                if np.isnan(floats[at.START, slot]):
                    continue  # withdrawn
                sums.ran[k, vector] += 1
                time = floats[at.END, slot] - floats[at.START, slot]
                response = floats[at.END, slot] - floats[at.SUBMIT, slot]
                if time > 0:
                    sums.slowdown[k, vector] += response / time
                sums.bounded[k, vector] += max(response / max(time, tau), 1.0)
            if starts.shape[1] > 0:
                for slot in range(n):
                    sign = -1.0 if ints[at.BACKFILLED, slot] else 1.0
                    starts[vector, first + slot] = sign * floats[at.START, slot]


# Classes of jobs


@dataclass(frozen=True, slots=True)
class ClassReplay:
    """Times of each job, in the order of the workload; NaN where a job never ran."""

    start: Floats  # of the last attempt [s]
    end: Floats
    killed: Floats  # when the attempt as a small job started that the safeguard ended [s]; NaN without one
    lost: Floats  # node-seconds of that attempt: units x divider; 0 without one
    backfilled: Mask  # whether the last attempt started while one before it in the queue waited


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
    """Simulate jobs of two classes, in order of (submit_time, job_id), on one pool of identical units.

    ``small`` jobs go first. With the safeguard those are killed, and start again as large ones, that run past
    their ``divider`` (s), which was frozen at their submission. Raises ValueError if a key stands against
    classes (:func:`class_obstacle`).
    """
    obstacle = class_obstacle(config)
    if obstacle is not None:
        raise ValueError(f"classes of jobs need {': '.join(obstacle)}")
    if jobs.node_sets is not None:
        raise ValueError("replay_classes counts units, and jobs have sets of nodes; use BatchSystem")
    rules = rules_of(config, exclusive=False, merge=True, nodes=False)
    parameters = parameters_of(config)
    rules[at.CLASSES] = True
    n = len(jobs)
    memory = _Memory(rules, len(parameters), n)
    columns = memory.columns
    columns.parameters[:], columns.counts[at.FREE] = parameters, units
    submit, run = jobs.submit_time.astype(np.float64), jobs.run_time.astype(np.float64)
    kills = config.on_overrun is OverrunRule.KILL
    stay = np.minimum(run, jobs.walltime) if kills else run
    limits = np.where(safeguard & small & (stay > divider), divider, np.inf)
    guard = Safeguard(limits, run, np.full(n, np.nan), np.zeros(n))
    floats, ints = columns.floats, columns.ints
    floats[:] = np.nan
    floats[at.SUBMIT], floats[at.RUN] = submit, np.minimum(run, limits)
    floats[at.WITHDRAWAL] = jobs.withdrawals()
    floats[at.ESTIMATE] = floats[at.WALLTIME] = jobs.walltime
    ints[at.NUMBER], ints[at.LARGE] = np.arange(n), ~small
    ints[at.UNITS] = ints[at.PROCESSORS] = jobs.processors
    arrivals = np.flatnonzero((jobs.processors <= units) & ~(floats[at.WITHDRAWAL] <= submit))
    coming = arrivals[floats[at.WITHDRAWAL, arrivals] < np.inf]
    withdrawals = coming[np.argsort(floats[at.WITHDRAWAL, coming], kind="stable")]
    events = Events.of(arrivals, withdrawals, n)
    replay(False, events, guard, NO_RELEASES, _UNLIMITED, _UNLIMITED, *memory.addresses, reserving(rules))
    return ClassReplay(floats[at.START], floats[at.END], guard.killed, guard.lost, ints[at.BACKFILLED] != 0)
