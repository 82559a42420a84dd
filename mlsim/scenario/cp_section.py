"""The sections ``batch.cp`` and ``batch.classifier``."""

import math
from collections.abc import Iterator
from typing import Annotated, Any

from mlsim.scenario.amount_types import Duration
from mlsim.scenario.field_types import Count, Natural, OneOf, Pairs, Switch, mapping_of, number, shown
from mlsim.scenario.policy_words import Policy
from mlsim.scenario.section_base import Parameters, Violation, plugin_name
from mlsim.scenario.words import Allocator, ClassSource, Dispatcher, PlanGoal, Predictor

_OURS = (Dispatcher.CP, Dispatcher.LISTS)
_EARLY = (Dispatcher.HCP1, Dispatcher.HCP2, Dispatcher.PCP1, Dispatcher.PCP2)
_ASKING = tuple(word for word in Dispatcher if word.solves and word is not Dispatcher.LISTS)
"""Dispatchers that use CP-SAT, and so have limits."""
_LIMIT, _LAST_LIMIT = 1.0, 16.0  # seconds, as in the sources
_OUR_LIMIT = 0.05
_MOST_WORKERS = 10_000  # CP-SAT takes no more


QueueWaits = Pairs[int, float]


def _queue_wait(name: object, value: Any) -> tuple[int, float]:
    try:
        queue, wait = int(str(name)), float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{shown(name)}: {shown(value)}") from error
    if not 0 <= wait < math.inf:
        raise ValueError(f"{name}: {shown(value)}")
    return queue, wait


_WAITS = {
    "patternProperties": {"^-?[0-9]+$": {"type": "number", "minimum": 0}},
    "additionalProperties": False,
}
WaitsOfQueues = Annotated[
    QueueWaits, mapping_of("numbers of queues with seconds, 0 or more, e.g. {1: 3600}", _queue_wait, _WAITS)
]


class CpConfig(Parameters):
    """Time limits of solving, size of plans, and the objective."""

    time_limit: Duration | None = None
    """First time limit of a whole pass (s), building the model and presolve included. Default: 1 s as in the
    sources, 50 ms with dispatcher cp. Like all that is about solving, not read by lists.
    """
    time_limit_max: Duration | None = None
    """Last time limit (s): without a proof the limit doubles up to it. Default: 16 s as in the sources,
    time_limit with dispatcher cp.
    """
    extensions: Count = 2
    """Doublings in a row without a better plan after which solving ends (k)."""
    deterministic: Switch = True
    """One worker, a fixed seed, and time told by what was computed instead of the clock: the same results on
    every machine, limits kept on one as fast as that on which they were measured.
    """
    workers: Count = 1
    """Threads of the solver. Read with deterministic off only."""
    jobs: Count = 100
    """Jobs in a model at most (m). Of a longer queue cp plans for as many as the limit allows, and for others
    in turns.
    """
    ewt: WaitsOfQueues = QueueWaits()
    """Expected waiting time (s) of each submission queue, by its number in the log: the mean wait of its
    jobs, e.g. {1: 3600}. Read by hcp1, hcp2, pcp1, pcp2. Default: none is named.
    """
    default_ewt: Duration = 3600.0
    """Expected waiting time (s) of the queues that ewt does not name. Read like ewt."""
    goal: OneOf[PlanGoal] = PlanGoal.SLOWDOWN
    """What dispatchers cp and lists make small: the mean slowdown, bounded-slowdown or wait, or the makespan,
    the time until the last job of the plan ends.
    """
    by_size: Switch = False
    """Whether a job counts in the mean as much as its share of the scarcest resource it asks for. Read by cp
    and lists.
    """
    headroom: Annotated[float, number(0, 1)] = 0.05
    """Share of the machine that long jobs leave free for jobs 90 times shorter, where such arrive and
    estimates have proved right. Read by cp and lists.
    """
    reserve: Annotated[float, number(0, 1)] = 0.2
    """Of the nodes with a resource that only some have, this share times the share of arrivals that ask for
    it is kept from jobs that ask for no such resource. Read by cp and lists.
    """
    patience: Duration = 432000.0
    """Wait (s) after which the job that has waited longest gets the first reservation, so that it cannot
    starve. Default: 5 days. Read by cp and
    lists.
    """
    solve_jobs: Natural = 1_000_000
    """CP-SAT is asked where no more jobs than this are planned for; 0: never, and there are only lists, for
    all that wait. Read by cp. Default: always.
    """

    def unread_by(self, dispatcher: str) -> list[str]:
        """Return the keys that a dispatcher does not read."""
        return [key for key, readers in CP_READERS.items() if dispatcher not in readers]

    def limits(self, dispatcher: Dispatcher) -> tuple[float, float]:
        """Return the first and the last time limit of a dispatcher (s)."""
        ours = dispatcher in _OURS
        default = _OUR_LIMIT if ours else _LIMIT
        first = default if self.time_limit is None else self.time_limit
        default = first if ours else _LAST_LIMIT
        return first, default if self.time_limit_max is None else self.time_limit_max

    def wrong_limits(self, dispatcher: Dispatcher) -> str | None:
        """Return the error in the last limit where one of the two is a default; None if it is valid."""
        first, last = self.limits(dispatcher)
        if last >= first:
            return None
        if self.time_limit_max is None:
            return (
                f"missing, and {last:g} s with dispatcher {dispatcher}; time_limit is {first:g} s, above it"
            )
        return f"{last:g} s; allowed: time_limit and more, {first:g} s with dispatcher {dispatcher}"

    def broken_rules(self) -> Iterator[Violation]:
        """Check limits against each other, and that workers are read."""
        first, last = self.time_limit, self.time_limit_max
        if first is not None and last is not None and last < first:
            yield Violation("time_limit_max", f"below time_limit, {first:g} s", ("time_limit",))
        if self.goal is PlanGoal.MAKESPAN and self.by_size:
            yield Violation("by_size", "read where goal is a mean; goal is makespan", ("goal",))
        if self.workers > _MOST_WORKERS:
            yield Violation("workers", f"{self.workers}; allowed: at most {_MOST_WORKERS:,}", ())
        if self.deterministic and "workers" in self.model_fields_set and self.workers > 1:
            yield Violation("workers", "read with deterministic: off only", ("deterministic",))


CP_READERS: dict[str, tuple[Dispatcher, ...]] = {
    **dict.fromkeys(("goal", "by_size", "headroom", "reserve", "patience"), _OURS),
    **dict.fromkeys(("time_limit", "time_limit_max", "extensions", "deterministic", "workers"), _ASKING),
    **dict.fromkeys(("ewt", "default_ewt"), _EARLY),
    "solve_jobs": (Dispatcher.CP,),
}
"""The dispatchers that read a key, for keys that not all read."""
_TREES = 100


class ClassifierConfig(Parameters):
    """Jobs that are taken for small go before all others (Zrigui 2021, ch. 6); {} has all defaults.

    A job is small if its run time is below the median of the run times that ended in the week before.
    """

    by: OneOf[ClassSource] = ClassSource.FOREST
    """What tells the classes: forest (a random forest, which learns at the end of each week from the jobs
    that have ended; needs scikit-learn) or actual (an oracle: the run times of the workload).
    """
    trees: Count | None = None
    """Trees of the forest. Default: 100. Read with by: forest."""
    safeguard: Switch = True
    """Whether a job that was taken for small and runs past the median is killed there; it goes back to the
    queue as a large one, with its own submit time, and starts from the beginning. Jobs must stand that.
    """

    @property
    def n_trees(self) -> int:
        """Trees of the forest."""
        return _TREES if self.trees is None else self.trees

    def broken_rules(self) -> Iterator[Violation]:
        """Check that trees are given for a forest only."""
        if self.trees is not None and self.by is not ClassSource.FOREST:
            yield Violation("trees", f"read with by: forest, and it is {self.by}; take it out", ("by",))


PolicyName = Annotated[str, plugin_name(Policy, "mlsim.policies")]
AllocatorName = Annotated[str, plugin_name(Allocator, "mlsim.allocators")]
DispatcherName = Annotated[str, plugin_name(Dispatcher, "mlsim.dispatchers")]
DataName = Annotated[str, plugin_name(None, "mlsim.data")]
PredictorName = Annotated[str, plugin_name(Predictor, "mlsim.predictors")]
