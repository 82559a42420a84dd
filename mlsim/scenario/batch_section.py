"""The sections ``batch`` and ``coordination``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, NamedTuple

from pydantic import Field

from mlsim.scenario import cp_section, resources_section, words
from mlsim.scenario.amount_types import Duration, ForecastErrors, NamedShares, Seconds
from mlsim.scenario.field_types import POSITIVE, Count, Natural, OneOf, Switch, number
from mlsim.scenario.policy_words import Policy
from mlsim.scenario.section_base import Parameters, Section, Violation

if TYPE_CHECKING:
    from mlsim.scenario.scenario_schema import Scenario


class ReplayNeed(NamedTuple):
    """A key, the value that replay needs it to have, in words, and whether a scenario has it."""

    key: str
    value: str
    holds: Callable[[Scenario], bool]


REPLAY_NEEDS: Final = (
    ReplayNeed(
        "coordination.requests", "never", lambda s: s.coordination.requests is words.RequestRule.NEVER
    ),
    ReplayNeed(
        "coordination.released_nodes",
        "any",
        lambda s: s.coordination.released_nodes is words.ReleasedNodes.ANY,
    ),
    ReplayNeed("coordination.forecasts", "empty", lambda s: s.coordination.forecasts is None),
    ReplayNeed(
        "batch.ties",
        "drained with coordination.rca",
        lambda s: not s.coordination.rca or s.batch.ties is words.TieOrder.DRAINED,
    ),
    ReplayNeed("platform.failures", "empty", lambda s: not s.platform.failures),
    ReplayNeed("platform.random_failures", "empty", lambda s: not s.platform.random_failures),
    ReplayNeed("platform.drains", "empty", lambda s: not s.platform.drains),
    ReplayNeed(
        "batch.dispatcher",
        "queue or recorded",
        lambda s: s.batch.dispatcher in (words.Dispatcher.QUEUE, words.Dispatcher.RECORDED),
    ),
    ReplayNeed("batch.policy", "one of the catalogue", lambda s: isinstance(s.batch.policy, Policy)),
    ReplayNeed("batch.allocator", "first-fit", lambda s: s.batch.allocator is words.Allocator.FIRST_FIT),
    ReplayNeed(
        "batch.easy",
        "another one than easy_bf",
        lambda s: s.batch.backfill is not words.Backfill.EASY or not s.batch.names_nodes,
    ),
    ReplayNeed(
        "batch.compression",
        "another one than conservative_bf",
        lambda s: s.batch.backfill is not words.Backfill.CONSERVATIVE or not s.batch.names_nodes,
    ),
    ReplayNeed("platform.nodes", "no memory and no other resources", lambda s: not s.platform.resource_names),
    ReplayNeed("platform.shared", "empty", lambda s: not s.platform.shared),
    ReplayNeed("workload.request.cores", "1", lambda s: s.workload.request.cores == 1),
    ReplayNeed("workload.dependencies", "off", lambda s: not s.workload.dependencies),
    ReplayNeed("batch.power_cap", "empty", lambda s: s.batch.power_cap is None),
    ReplayNeed("batch.predictor", "walltime", lambda s: s.batch.predictor is words.Predictor.WALLTIME),
    ReplayNeed("batch.classifier", "empty", lambda s: s.batch.classifier is None),
    ReplayNeed("batch.pass_interval", "0 s", lambda s: s.batch.pass_interval == 0),
    ReplayNeed("batch.backfill_interval", "0 s", lambda s: s.batch.backfill_interval == 0),
    ReplayNeed("batch.count_dispatch_time", "off", lambda s: not s.batch.count_dispatch_time),
    ReplayNeed("output.passes", "off", lambda s: not s.output.passes),
)
"""Requirements of replay on a scenario: it simulates jobs whose end is known when they start, and which
nodes they release, on nodes that are always there. The help of ``batch.engine`` is made from this; the batch
page is held against it."""

REPLAY_NEEDS_OF_JOBS: Final = "no columns request_* in the workload"
"""Requirement of replay on the workload itself."""


def replay_needs() -> str:
    """Return all that replay needs, in one line for the help."""
    keys = ", ".join(f"{need.key}: {need.value}" for need in REPLAY_NEEDS)
    return f"{keys}; {REPLAY_NEEDS_OF_JOBS}"


def replay_obstacle(scenario: Scenario) -> tuple[str, str] | None:
    """Return what keeps a scenario from replay: the key and what it would have to be; None: nothing."""
    return next(((need.key, need.value) for need in REPLAY_NEEDS if not need.holds(scenario)), None)


Weight = Annotated[float, number(-1e12, 1e12)]
_NONE = "Default: 0, it does not count."


class WeightsConfig(Parameters):
    """The weights of policy linear: more than 0 prefers what the key names, less than 0 the opposite."""

    q: Weight = Field(0.0, description=f"Weight of few processors q (alone: SQF). {_NONE}")
    p: Weight = Field(0.0, description=f"Weight of a short estimate p (s; alone: SPF). {_NONE}")
    wait: Weight = Field(0.0, description=f"Weight of a long wait w (s; alone: FCFS). {_NONE}")
    ratio: Weight = Field(0.0, description=f"Weight of a small ratio p / q (alone: SRF). {_NONE}")
    exp: Weight = Field(
        0.0, description=f"Weight of a large expansion factor (w + p) / p (alone: LEXP). {_NONE}"
    )
    area: Weight = Field(0.0, description=f"Weight of a small estimated area p q (alone: SAF). {_NONE}")

    @property
    def normalised(self) -> tuple[float, ...]:
        """The six weights in the order of the keys, divided by the sum of their absolute values."""
        weights = (self.q, self.p, self.wait, self.ratio, self.exp, self.area)
        total = sum(map(abs, weights)) or 1.0
        return tuple(weight / total for weight in weights)


class FairshareConfig(Parameters):
    """Owners whose usage policy fairshare compares, and decay of the usage."""

    by: OneOf[words.ShareOwner] = words.ShareOwner.USER
    """Whose processor-seconds add up: those of a job's user or group."""
    half_life: Duration = 604800.0
    """Time after which usage counts half (s). Default: 7 days, as Slurm's PriorityDecayHalfLife."""


_MOST_RESTARTS = 5
_MEDIAN = 0.5


class BatchConfig(Section):
    """The dispatcher, and what it does to jobs that overrun."""

    other_names: ClassVar[Mapping[str, str]] = {"at_walltime": "on_overrun"}

    dispatcher: cp_section.DispatcherName = words.Dispatcher.QUEUE
    """The dispatcher: queue (policy, backfill and allocator), reject (every job is rejected in the pass of
    its submission), recorded (each job starts at its recorded start), prb (largest (w + p) / p first,
    best-fit, on past jobs that do not fit), cp, lists or one of the sources' constraint-programming
    dispatchers (mlsim/batch/cp/README.md), a class in a file, or an installed one; see
    docs/reference/plugins.md.
    """
    cp: cp_section.CpConfig | None = None
    """Parameters of the dispatchers that plan by constraint programming."""
    policy: cp_section.PolicyName = Policy.FCFS
    """Order in which the queue is served; `mlsim list policies` explains each. A class in a file may be one,
    or an installed one.
    """
    weights: WeightsConfig | None = None
    """Weights of policy linear, scaled so that their absolute values sum to 1."""
    fairshare: FairshareConfig = Field(default_factory=FairshareConfig)
    """What policy fairshare compares."""
    threshold: Duration | None = Field(None, examples=["20 h"])
    """Jobs that have waited longer than this (s) go to the head of the queue, first come first served among
    themselves (Zrigui 2021, §4.2). Default: none do.
    """
    backfill: OneOf[words.Backfill] = words.Backfill.NONE
    """Whether jobs may overtake: none (the walk stops at the first job that does not fit), greedy (it is
    skipped), easy (later jobs start if they do not delay the reservation), conservative (every waiting job
    has a reservation that is kept).
    """
    backfill_order: OneOf[Policy] | None = Field(None, examples=["SAF"])
    """Policy by which jobs that may overtake are tried, with backfill greedy or easy. Default: the order of
    the queue.
    """
    reservations: Count = 1
    """How many jobs that do not fit get a reservation, with backfill easy. Default: one, as in EASY."""
    easy: OneOf[words.EasyRule] = words.EasyRule.STANDARD
    """Whose meaning of EASY, with backfill easy: standard (the literature's), or that of a published
    simulator: accasim (any job may overtake; the head waits for its reserved time), cqsim (jobs are
    judged by their actual run times), batsched (its easy_bf_fast: the reservation is kept; no extra
    processors), easy_bf (batsched's default: the reservation is of named nodes). All but cqsim are FCFS. See
    docs/explanation/easy.md.
    """
    compression: OneOf[words.Compression] = words.Compression.FIXPOINT
    """With backfill conservative, how often jobs look for an earlier place when something comes back early:
    fixpoint (in the queue's order, until nothing moves) or one-round (each once). Rules of other
    simulators: every-end (PYSS's: each once after every end, early or not), conservative_bf (batsched's: as
    every-end, and reservations are of named nodes, the first ones that are free).
    """
    ties: OneOf[words.TieOrder] = words.TieOrder.DRAINED
    """What happens at one time: drained (ends, then submissions, then one pass), per-event (a pass after
    every event, submissions before ends, as PYSS does) or ends-first (a pass after every event, ends before
    submissions, as CQSim does); see docs/explanation/easy.md.
    """
    engine: OneOf[words.Engine] = Field(
        words.Engine.AUTO,
        description="What simulates the batch level: simpy, replay (compiled; the same results) or auto "
        f"(replay where it can). Replay needs {replay_needs()}.",
    )
    allocator: cp_section.AllocatorName = words.Allocator.FIRST_FIT
    """Which free nodes a job gets: first-fit takes them in node order; `mlsim list allocators` explains each.
    A class in a file may be one, or an installed one.
    """
    contiguity: OneOf[words.Contiguity] = words.Contiguity.PREFER
    """With allocator contiguous, what a job gets that finds no neighbouring nodes: prefer (others, by
    first-fit) or strict (it waits).
    """
    reserve: Annotated[float, number(0, 1)] = 0.2
    """Of the nodes with a resource that only some have, this share times the share of jobs that ask for it is
    kept from jobs that ask for no such resource. Read by allocator demand-aware.
    """
    demand: NamedShares | None = Field(None, examples=[{"gpu": 0.75}])
    """Share of jobs that ask for each resource; 0 for a resource that is not named. Read by allocator
    demand-aware. Default: learned from the submitted jobs.
    """
    on_overrun: OneOf[words.OverrunRule] = words.OverrunRule.KILL
    """What happens to jobs that reach their walltime: kill (as production systems do) or extend (they
    continue). A job that outlives a shorter prediction continues in any case.
    """
    data: cp_section.DataName | None = Field(None, examples=["./mine.py:Temperature"])
    """Data of your own that change during the run, such as a temperature or a price: a class in a file, or an
    installed one, asked before each pass. Read by a dispatcher or policy of your own; see
    docs/reference/plugins.md.
    """
    predictor: cp_section.PredictorName = words.Predictor.WALLTIME
    """What predicts run times for the dispatcher: walltime (what the user asked), actual (an oracle), D, D2,
    L2 or EASY++ (learn from completed jobs), forest-mean or forest-quantile (learn weekly from features of
    jobs; need scikit-learn), a class in a file, or an installed one; `mlsim list predictors`
    explains each.
    """
    quantile: Annotated[float, number(0, 1, low_belongs=False, high_belongs=False)] | None = None
    """Share of jobs that should run no longer than predicted. Read by predictor forest-quantile. Default:
    0.5, the median.
    """
    classifier: cp_section.ClassifierConfig | None = None
    """Jobs that are taken for small go before all others, each class in the order of the policy; only
    threshold overrides that. Default: no classes.
    """
    pass_interval: Seconds = Field(0.0, examples=["10 s"])
    """Passes take place at multiples of this time only (s); 0: whenever something happens."""
    backfill_interval: Seconds = Field(0.0, examples=["30 s"])
    """Backfilling takes place at multiples of this time only (s); passes at other times start jobs from the
    queue's head up to the first that does not fit. 0: in every pass. Slurm's backfill scheduler works in this
    way, every 30 s (bf_interval).
    """
    deadline_factor: Annotated[float, POSITIVE] = 2.0
    """Deadline of a job = submit time + factor x estimate. Read by policy EDF only."""
    count_dispatch_time: Switch = False
    """Whether a job's wait includes the wall time of the pass that starts it. Metrics then depend on the
    machine that simulates; the schedule does not.
    """
    power_cap: resources_section.PowerCaps | None = Field(None, examples=["20 kW"])
    """No pass starts a job that would push the power of the machine above this (W). A list sets it anew from
    time to time. Needs platform.nodes.N.power. Where nodes (mapping core: cores) add unequal power when held,
    jobs ask for other resources, or the allocator is not first-fit: only with backfill none, greedy, or easy
    with one reservation, with dispatchers that plan and those of your own. Default: no cap.
    """
    on_failure: OneOf[words.FailureRule] = words.FailureRule.DIE
    """What happens to a job when one of its nodes fails: die, restart (requeued with its own submit time,
    from the beginning) or resume (continued where it stopped, or at its last checkpoint; not for
    application.model: loop).
    """
    max_restarts: Natural | None = None
    """How often a job may start again before it dies. For on_failure: restart and resume. Default: 5, as in
    Slurm (MaxBatchRequeue).
    """
    checkpoint: Duration | None = Field(None, examples=["10 min"])
    """Run time of an attempt (s) after which its state is saved, again and again; what came since is lost.
    Saving takes no time. For on_failure: resume. Default: nothing is lost.
    """

    @property
    def most_restarts(self) -> int:
        """Maximum number of restarts of a job."""
        return _MOST_RESTARTS if self.max_restarts is None else self.max_restarts

    @property
    def names_nodes(self) -> bool:
        """Whether reservations are of named nodes, also where all are alike."""
        if self.backfill is words.Backfill.CONSERVATIVE:
            return self.compression is words.Compression.CONSERVATIVE_BF
        return self.backfill is words.Backfill.EASY and self.easy is words.EasyRule.EASY_BF

    @property
    def quantile_or_default(self) -> float:
        """The quantile that predictor forest-quantile predicts."""
        return _MEDIAN if self.quantile is None else self.quantile

    @property
    def ordering(self) -> Policy:
        """The policy of the catalogue that orders the queue; FCFS stands in for one of the user's own."""
        return self.policy if isinstance(self.policy, Policy) else Policy.FCFS

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that order something: of the queue, and of the walk of backfilling."""
        walks = self.backfill_order is not None and self.backfill in (
            words.Backfill.GREEDY,
            words.Backfill.EASY,
        )
        walk = (self.backfill_order,) if walks and self.backfill_order else ()
        return (self.ordering, *walk)

    def broken_rules(self) -> Iterator[Violation]:
        """Check that policy linear has weights, and that every given key is read."""
        for (of, reader), keys in _READ_BY.items():
            yield from self.unread(keys, of, reader)
        yield from self.unread(_OF_QUEUE, "dispatcher", words.Dispatcher.QUEUE, "; take it out")
        if isinstance(self.dispatcher, words.Dispatcher):
            yield from self.unread(("allocator",), "dispatcher", words.Dispatcher.QUEUE, "; take it out")
        yield from self._unread_in_cp()
        yield from self._beside_recorded_starts()
        for key, rules in _OF_FAILURES.items():
            if getattr(self, key) is not None and self.on_failure not in rules:
                message = f"needs on_failure: {' or '.join(rules)}, and it is {self.on_failure}"
                yield Violation(key, f"{message}; write that, or take it out", ("on_failure",))
        if self.data is not None and all(
            isinstance(word, words.Choice) for word in (self.dispatcher, self.policy)
        ):
            message = f"read by a dispatcher or policy of your own, and they are {self.dispatcher} and "
            yield Violation("data", f"{message}{self.policy}; take it out", ("dispatcher", "policy"))
        yield from self._without_backfilling()
        yield from self._beyond_easy()
        yield from self._beside_classes()
        if Policy.LINEAR in self.policies and (self.weights is None or not any(self.weights.normalised)):
            found = "missing" if self.weights is None else "all are 0, which orders nothing"
            message = f"{found}; policy linear needs at least one weight, e.g. {{p: 0.5, wait: 0.5}}"
            yield Violation("weights", message, ("policy", "backfill_order"))

    def _without_backfilling(self) -> Iterator[Violation]:
        """Check that what is rare is backfilling, and passes are not rarer."""
        if not self.backfill_interval:
            return
        walks = self.dispatcher is words.Dispatcher.QUEUE and self.backfill in (
            words.Backfill.GREEDY,
            words.Backfill.EASY,
        )
        if not walks:
            message = f"needs dispatcher queue with backfill greedy or easy, and backfill is {self.backfill}"
            yield Violation("backfill_interval", message, ("backfill", "dispatcher"))
        if self.pass_interval:
            message = "needs passes at every event: take pass_interval out, or this"
            yield Violation("backfill_interval", message, ("pass_interval",))

    def _beyond_easy(self) -> Iterator[Violation]:
        """Check that another simulator's EASY is asked for nothing that it does not do."""
        if self.backfill is not words.Backfill.EASY or self.easy is words.EasyRule.STANDARD:
            return
        if self.reservations > 1:
            message = f"{self.easy} has one reservation; write reservations: 1, or easy: standard"
            yield Violation("easy", message, ("reservations",))
        for key in ("policy", "backfill_order") if self.easy is not words.EasyRule.CQSIM else ():
            policy = getattr(self, key)
            if policy not in (None, Policy.FCFS):
                message = f"{self.easy} serves first come first, and {key} is {policy}; write FCFS"
                yield Violation("easy", message, (key,))

    def _beside_classes(self) -> Iterator[Violation]:
        """Check that nothing is asked for that does not go with classes of jobs."""
        if self.classifier is None or self.dispatcher is not words.Dispatcher.QUEUE:
            return
        if not isinstance(self.policy, Policy):
            message = f"orders jobs by a policy of the catalogue, and the policy is {self.policy}"
            yield Violation("classifier", message, ("policy",))
        if self.ties is not words.TieOrder.DRAINED:
            message = f"needs ties: drained, and they are {self.ties}; write that, or take this out"
            yield Violation("classifier", message, ("ties",))
        if self.backfill is words.Backfill.EASY and self.easy is not words.EasyRule.STANDARD:
            message = f"needs easy: standard, and it is {self.easy}; write that, or take this out"
            yield Violation("classifier", message, ("easy",))
        if self.classifier.safeguard and self.on_failure is words.FailureRule.RESUME:
            message = "safeguard starts jobs from the beginning, and on_failure: resume goes on; choose one"
            yield Violation("classifier.safeguard", message, ("on_failure",))

    def _beside_recorded_starts(self) -> Iterator[Violation]:
        """Check that nothing moves, or estimates, the recorded starts of jobs."""
        if self.dispatcher is not words.Dispatcher.RECORDED:
            return
        for key, usual in _BESIDE_RECORDED.items():
            if (found := getattr(self, key)) != usual:
                word = "off" if usual is False else usual
                message = (
                    f"dispatcher recorded starts jobs at their recorded starts; write {word}, not {found}"
                )
                yield Violation(key, message, ("dispatcher",))

    def _unread_in_cp(self) -> Iterator[Violation]:
        """Name what the chosen dispatcher does not read in the section ``cp``."""
        if self.cp is None:
            return
        dispatcher = self.dispatcher
        if not (isinstance(dispatcher, words.Dispatcher) and dispatcher.solves):
            message = f"read by dispatcher cp and its like only, and the dispatcher is {dispatcher}"
            yield Violation("cp", message, ("dispatcher",))
            return
        for key in self.cp.unread_by(dispatcher):
            if key in self.cp.model_fields_set:
                readers = ", ".join(cp_section.CP_READERS[key])
                message = f"{key} is read by {readers} only, and the dispatcher is {dispatcher}"
                yield Violation("cp", message, ("dispatcher",))
        if wrong := self.cp.wrong_limits(dispatcher):
            yield Violation("cp.time_limit_max", wrong, ("dispatcher",))


_READ_BY = {
    ("allocator", words.Allocator.CONTIGUOUS): ("contiguity",),
    ("allocator", words.Allocator.DEMAND_AWARE): ("reserve", "demand"),
    ("predictor", words.Predictor.FOREST_QUANTILE): ("quantile",),
}
"""Keys that only one word of another key reads."""
_OF_QUEUE = (
    *("policy", "backfill", "backfill_order", "reservations", "threshold"),
    *("easy", "compression", "classifier"),
)
_BESIDE_RECORDED = {"predictor": words.Predictor.WALLTIME, "pass_interval": 0.0, "count_dispatch_time": False}
"""Values that these keys have with dispatcher recorded."""
_OF_FAILURES = {
    "max_restarts": (words.FailureRule.RESTART, words.FailureRule.RESUME),
    "checkpoint": (words.FailureRule.RESUME,),
}


class CoordinationConfig(Section):
    """Notification of the batch level by applications about nodes that have run out of work."""

    rca: Switch = False
    """Resourceful coordination (Eleliemy 2021, ch. 6): idle nodes of a running job are given to waiting jobs.
    Needs application.model: loop.
    """
    latency: Seconds | None = None
    """Time a message takes between an application and the batch level (s). Default: platform.network.latency.
    Read with rca: on only.
    """
    requests: OneOf[words.RequestRule] = words.RequestRule.NEVER
    """When the batch level asks running applications for nodes: never, or head-of-queue (when the first
    waiting job lacks some). Needs rca: on, whole nodes (workload.mapping packed or node), and an execution
    model other than steal.
    """
    answer: OneOf[words.AnswerRule] = words.AnswerRule.IDLE_ONLY
    """What applications answer: never, idle-only (only nodes that are idle already), tolerance (if their own
    run time grows by at most that share) or always. Read with requests: head-of-queue only.
    """
    tolerance: Annotated[float, number(0)] = 0.05
    """Largest growth of an application's run time, as a share. For answer: tolerance."""
    reclaim: Switch = False
    """Whether a node given up on request goes back to its owner when no job waits. Read with requests:
    head-of-queue only.
    """
    released_nodes: OneOf[words.ReleasedNodes] = words.ReleasedNodes.ANY
    """Who gets nodes that were released early: any (the usual pass) or short-first (the shortest waiting jobs
    that fit on them, before the usual pass). Needs rca: on.
    """
    forecasts: ForecastErrors | None = Field(None, examples=[{"nodes": 0.1}])
    """What EASY sees of running jobs in place of start + estimate: ends (when the application forecasts to
    end), nodes (also when it forecasts each node to be idle; needs rca: on) or remaining_work (the end by the
    remaining work in messages about idle nodes; needs rca: on). The number is the error: the coefficient of
    variation of the forecast by the actual remaining time. Needs batch.backfill: easy with one reservation.
    Default: the dispatcher sees no forecasts.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check that what needs coordination has it."""
        for key in ("requests", "released_nodes"):
            if not self.rca and getattr(self, key).value not in ("never", "any"):
                message = "needs coordination between the levels; write rca: on, or take it out"
                yield Violation(key, message, ("rca",))
        scopes = list(self.forecasts or ())
        if self.forecasts is not None and len(scopes) != 1:
            message = f"{len(scopes)} entries; write one of {', '.join(words.ForecastScope)}"
            yield Violation("forecasts", message)
        elif scopes and scopes != [words.ForecastScope.ENDS] and not self.rca:
            message = f"{scopes[0]} needs the messages of RCA; write rca: on, or {words.ForecastScope.ENDS}"
            yield Violation("forecasts", message, ("rca",))
