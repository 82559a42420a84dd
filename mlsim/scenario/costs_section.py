"""The sections ``application.costs`` and ``application.selection``."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from mlsim.scenario import technique_section, words
from mlsim.scenario.amount_types import PositiveWork, Seconds, Work, list_schema
from mlsim.scenario.assignment_section import placeholders
from mlsim.scenario.field_types import (
    Count,
    FieldType,
    Line,
    Natural,
    OneOf,
    Switch,
    number,
    shown,
    text,
    whole,
)
from mlsim.scenario.section_base import Parameters, Section, Violation, user_function

MOST_LISTED = 100_000_000
"""Iterations of a loop up to which each has a cost of its own in memory, whatever the profile."""

Coordinate = Annotated[float, number(-100, 100)]
_NUMBER, _NAME = whole(1, 10_000), text()


def _read_column(value: object) -> str | int:
    return _NAME.parse(value) if isinstance(value, str) else _NUMBER.parse(value)


_COLUMN = FieldType(
    "the name of a column, or its number from 1", _read_column, {"anyOf": [_NAME.json(), _NUMBER.json()]}
)


class ImageWindow(Parameters):
    """The part of the complex plane that an image shows."""

    x_min: Coordinate = -2.0
    """Least real part of c. For mandelbrot; default ours."""
    x_max: Coordinate = 2.0
    """Real part that c stays below. For mandelbrot; default ours."""
    y_min: Coordinate = -2.0
    """Least imaginary part of c. For mandelbrot; default ours."""
    y_max: Coordinate = 2.0
    """Imaginary part that c stays below. For mandelbrot; default ours."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the window is not empty."""
        for low, high in (("x_min", "x_max"), ("y_min", "y_max")):
            if getattr(self, low) >= getattr(self, high):
                message = f"{getattr(self, high)} is not above {low}, {getattr(self, low)}; allowed: more"
                yield Violation(high, message, (low,))


class ProfileParameters(Parameters):
    """Parameters of the profiles that compute costs: mandelbrot and psia."""

    size: Annotated[int, whole(1, 31_622)] | None = Field(None, examples=[1152])
    """Width and height of the image (pixels); a pixel is an iteration. For mandelbrot. Default: the root of
    iterations.count if that is given, else 1152 (Eleliemy 2021, Table 4.1).
    """
    limit: Annotated[int, whole(1, 1_000_000_000)] = 1000
    """Steps of z after which a pixel counts as one of the set. For mandelbrot. Default: Eleliemy 2021, Table
    4.1.
    """
    exponent: Annotated[int, whole(2, 64)] = 4
    """e of z^e + c. For mandelbrot. Default: Eleliemy 2021, Table 4.1."""
    window: ImageWindow = Field(default_factory=ImageWindow)
    """What the image shows. For mandelbrot."""
    points: Annotated[int, whole(1, 10_000_000)] = 800_000
    """Oriented points of the cloud. For psia: iteration i makes the image of point i, and after the last
    point begins again. Default: Eleliemy 2021, Table 4.1.
    """
    image_width: Annotated[int, whole(2, 1000)] = 5
    """Width and height of a spin image (bins). For psia. Default: Eleliemy 2021, Table 4.1."""
    bin_size: Annotated[float, number(0, 1, low_belongs=False)] = 0.01
    """Width of a bin, as a share of the cloud's largest extent. For psia. Default: Eleliemy 2021, Table
    4.1.
    """
    support_angle: Annotated[float, number(0, math.pi, low_belongs=False)] = 2.0
    """Largest angle between the normals of two points of one image (rad). For psia. Default: Eleliemy 2021,
    Table 4.1.
    """
    cloud_seed: Natural = 0
    """Seed of the generated cloud, which does not depend on the scenario's seed. For psia."""
    scan_cost: Annotated[float, number(0)] = 0.0
    """Cost of looking at one point of the cloud, whether it belongs to the image or not, as a share of the
    cost of counting one that does. For psia.
    """


_TECHNIQUE = technique_section.technique_name(selects=False)


class AssumedLoop(Parameters):
    """The loop that a recorded run time is assumed to have been measured with."""

    technique: Annotated[str, _TECHNIQUE] = words.Technique("STATIC")
    """Technique of the recorded run, of the catalogue; X+Y under models of two levels. Default: what most
    codes do that were written without a technique. Its parameters are application.parameters.
    """
    model: OneOf[words.ExecutionModel] = words.ExecutionModel.DCA
    """Execution model of the recorded run. Everything else of it is application.execution. Default: no PE of
    a code without a technique waits for another one's iteration, as it would for a master of cca.
    """
    min_chunk: Count | None = None
    """Smallest chunk of the recorded run (iterations). Default: application.min_chunk."""
    coordination: Switch = False
    """Whether nodes were released while the loop ran. Only off: a log does not record it."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the recorded loop is one that mlsim can simulate for every job."""
        for level in technique_section.split_technique(self.technique):
            if user_function(level):
                allowed = "a technique of the catalogue (mlsim list techniques)"
                yield Violation("technique", f"{level} is a function of your own; allowed: {allowed}")
        if self.coordination:
            yield Violation(
                "coordination", "on; a log does not record when nodes were released; allowed: off"
            )


class CostsConfig(Section):
    """Costs of the iterations."""

    old_keys: ClassVar[Mapping[str, str]] = {
        name: f"parameters.{name}" for name in ProfileParameters.model_fields
    }

    profile: OneOf[words.CostProfile] = words.CostProfile.JOB
    """What the iterations cost: job (normal around the job's run time divided by its iterations a PE;
    Eleliemy 2021, §3.4), a distribution, increasing or decreasing along the loop, a file, or an application:
    mandelbrot or psia (Eleliemy 2021, §4.4). `mlsim list profiles` explains each. Never negative.
    """
    variation: Annotated[float, number(0, 1, high_belongs=False)] = 0.0
    """Standard deviation / mean of the profile job (Eleliemy 2021, §3.4). For job only."""
    mean: PositiveWork | None = Field(None, examples=["2 ms"])
    """Mean cost of an iteration (s at the reference speed, or FLOP). constant, normal, exponential, gamma and
    lognormal need it; the costs of all others but job are scaled to it. Eleliemy 2021, §4.4 has 0.2 s for
    psia and 20 ms for mandelbrot.
    """
    std: Work | None = Field(None, examples=["0.5 ms"])
    """Standard deviation of the cost, in the unit of mean. For normal, gamma and lognormal, which need it,
    and for bimodal around either mode, 0 by default.
    """
    low: Work | None = Field(None, examples=["1 ms"])
    """Least cost, in the unit of high. For uniform, increasing and decreasing, 0 by default, and for bimodal,
    which needs it: the lower mode.
    """
    high: PositiveWork | None = Field(None, examples=["3 ms"])
    """Largest cost (s at the reference speed, or FLOP). For uniform, increasing and decreasing, and for
    bimodal the upper mode; all need it.
    """
    share: Annotated[float, number(0, 1)] = 0.5
    """Share of the iterations that cost high. For bimodal."""
    path: Line | None = Field(None, examples=["costs.npy"])
    """File of costs (s at the reference speed), one per iteration: .npy or .csv. For file, which needs it.
    Looked up like workload.path. Columns of the workload in braces, costs/{executable}.npy, name a file for
    each of their values.
    """
    column: Annotated[str | int, _COLUMN] | None = Field(None, examples=["seconds"])
    """Column of the file that holds the costs: its name, or its number from 1. Default: the only one, or the
    only one named cost, costs, iteration_cost, seconds, time, duration or s. For file.
    """
    unit_cost: PositiveWork | None = Field(None, examples=["1 us"])
    """Cost of one step of z (mandelbrot) or of one counted point (psia), as an alternative to mean (s at the
    reference speed, or FLOP).
    """
    parameters: ProfileParameters = Field(default_factory=ProfileParameters)
    """Parameters of mandelbrot or psia."""
    calibrate: OneOf[words.Calibration] = words.Calibration.NONE
    """none keeps the costs. recorded scales those of each job so that its loop, all time steps together,
    takes the run time of the log under the technique and model of calibrate_to: on the PEs that the job gets,
    all at the reference speed, and undisturbed. run-time scales them so that a perfectly balanced loop takes
    it; not for profile job, whose mean cost is made so.
    """
    calibrate_to: AssumedLoop = Field(default_factory=AssumedLoop)
    """The loop that run times of the log are assumed to have been measured with. For calibrate: recorded."""

    @property
    def by_column(self) -> bool:
        """Whether the file of costs depends on columns of the workload."""
        return self.path is not None and bool(placeholders(self.path))

    def broken_rules(self) -> Iterator[Violation]:
        """Check that the profile has the keys it needs and no others, and that they fit together."""
        if self.path is not None:
            try:
                placeholders(self.path)
            except ValueError as error:
                yield Violation("path", f"{error}; literal braces are written twice: {{{{ and }}}}")
        given, inside = (
            {key for key in section.model_fields_set if getattr(section, key) is not None}
            for section in (self, self.parameters)
        )
        given = (given - {"profile", "parameters"}) | {f"parameters.{key}" for key in inside}
        yield from self._wrong_keys(given)
        yield from self.unread(("calibrate_to",), "calibrate", words.Calibration.RECORDED)
        if self.profile is words.CostProfile.JOB and self.calibrate is words.Calibration.RUN_TIME:
            message = "run-time; profile job has costs of this mean by itself; allowed: none, recorded"
            yield Violation("calibrate", message, ("profile",))
        yield from self._wrong_units()
        if self.low is not None and self.high is not None and self.low.value > self.high.value:
            yield Violation("low", "is more than high; allowed: high or less", ("high", "profile"))
        if self.mean is not None and self.std is not None and self.std.value > 1000 * self.mean.value:
            yield Violation("std", "is more than 1000 means; allowed: less", ("mean", "profile"))
        if self.profile in COUNTED:
            yield from self._wrong_scale()

    def _wrong_keys(self, given: set[str]) -> Iterator[Violation]:
        keys = PROFILE_KEYS[self.profile]
        for key in keys.needed:
            if key not in given:
                yield Violation(key, f"missing; profile: {self.profile} needs it", ("profile",))
        known = (*CostsConfig.model_fields, *(f"parameters.{key}" for key in ProfileParameters.model_fields))
        wrong = [key for key in known if key in given and key not in keys.possible]
        takes = f"takes {', '.join(keys.possible)}"
        if len(wrong) == 1:
            owners = ", ".join(name for name, other in PROFILE_KEYS.items() if wrong[0] in other.possible)
            message = f"not for profile: {self.profile}, which {takes}; profiles with {wrong[0]}: {owners}"
            yield Violation(wrong[0], message, ("profile",))
        elif wrong:  # one mistake: the profile, or what is left of another one
            message = f"{self.profile}: {takes}, and not {', '.join(wrong)}; take those out"
            yield Violation("profile", message, tuple(wrong))

    def _wrong_units(self) -> Iterator[Violation]:
        amounts = {key: getattr(self, key) for key in ("mean", "high", "low", "std")}
        given = [(key, amount) for key, amount in amounts.items() if amount is not None]
        for key, amount in given[1:]:
            first, reference = given[0]
            if amount.unit != reference.unit:
                message = (
                    f"is in {amount.unit} but {first} is in {reference.unit}; allowed: one unit for both"
                )
                yield Violation(key, message, (first, "profile"))

    def _wrong_scale(self) -> Iterator[Violation]:
        """Check that counts become times in exactly one way."""
        if self.mean is not None and self.unit_cost is not None:
            yield Violation("unit_cost", "given together with mean; give one of them", ("mean", "profile"))
        if self.mean is None and self.unit_cost is None and self.calibrate is words.Calibration.NONE:
            message = (
                f"missing; profile: {self.profile} needs one of mean: {TYPICAL[self.profile]}, "
                "unit_cost, and calibrate: run-time or recorded"
            )
            yield Violation("mean", message, ("unit_cost", "calibrate", "profile"))


class ProfileKeys(NamedTuple):
    """The keys of a profile: those it needs, and all it may have."""

    needed: tuple[str, ...]
    possible: tuple[str, ...]


def _keys(names: str) -> ProfileKeys:
    """Return the keys of a profile; ``!`` marks those that it needs."""
    keys = names.split()
    needed = tuple(key.removesuffix("!") for key in keys if key.endswith("!"))
    return ProfileKeys(needed, (*(key.removesuffix("!") for key in keys), "calibrate", "calibrate_to"))


def _of(names: str) -> str:
    """Return names of parameters as keys."""
    return " ".join(f"parameters.{name}" for name in names.split())


PROFILE_KEYS: dict[words.CostProfile, ProfileKeys] = {
    words.CostProfile.JOB: _keys("variation"),
    words.CostProfile.CONSTANT: _keys("mean!"),
    words.CostProfile.UNIFORM: _keys("low high! mean"),
    words.CostProfile.NORMAL: _keys("mean! std!"),
    words.CostProfile.EXPONENTIAL: _keys("mean!"),
    words.CostProfile.GAMMA: _keys("mean! std!"),
    words.CostProfile.LOGNORMAL: _keys("mean! std!"),
    words.CostProfile.BIMODAL: _keys("low! high! share std mean"),
    words.CostProfile.INCREASING: _keys("low high! mean"),
    words.CostProfile.DECREASING: _keys("low high! mean"),
    words.CostProfile.FILE: _keys("path! column mean"),
    words.CostProfile.MANDELBROT: _keys(f"{_of('size limit exponent window')} mean unit_cost"),
    words.CostProfile.PSIA: _keys(
        f"{_of('points image_width bin_size support_angle cloud_seed scan_cost')} mean unit_cost"
    ),
}

COUNTED = (words.CostProfile.MANDELBROT, words.CostProfile.PSIA)
"""Profiles whose costs are counts, which need a scale."""

TYPICAL = {words.CostProfile.MANDELBROT: "20 ms", words.CostProfile.PSIA: "0.2 s"}

OWN_LENGTH = (words.CostProfile.FILE, words.CostProfile.MANDELBROT)
"""Profiles that decide themselves how long the loop is."""


def has_linear_costs(costs: CostsConfig, n: int) -> bool:
    """Whether a loop of n iterations needs no list of costs: it is long, and they are linear in the index.

    Shorter loops have one all the same: their sums are rounded as ever.
    """
    linear = (words.CostProfile.CONSTANT, words.CostProfile.INCREASING, words.CostProfile.DECREASING)
    of_job = costs.profile is words.CostProfile.JOB and costs.variation == 0.0
    return n > MOST_LISTED and (of_job or costs.profile in linear)


def _read_portfolio(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) < 2:
        raise ValueError(f"{shown(value)} is no portfolio")
    names = tuple(map(_TECHNIQUE.parse, value))
    twice = [name for row, name in enumerate(names) if name in names[:row]]
    if twice:
        raise ValueError(f"{twice[0]} stands there twice")
    return names


Portfolio = Annotated[
    tuple[str, ...],
    FieldType(
        "a list of two techniques or more, each once, such as [STATIC, GSS, AF]; not auto",
        _read_portfolio,
        list_schema(_TECHNIQUE.json(), 2),
        lambda names: list(map(_TECHNIQUE.show, names)),
    ),
]

_PORTFOLIO = (
    *(words.Technique("STATIC"), words.Technique("GSS"), words.Technique("TSS"), words.Technique("FAC2")),
    *(words.Technique("mFSC"), words.Technique("AF"), words.Technique("SS")),
)

READS = {
    "threshold": words.SelectionMethod.EXHAUSTIVE,
    **dict.fromkeys(("learner", "learning_rate", "discount", "exploration"), words.SelectionMethod.RL),
    **dict.fromkeys(("every", "chunk_time", "share", "samples", "costs"), words.SelectionMethod.SIMULATION),
}
"""Keys that one method alone reads -> that method."""


class SelectionParameters(Parameters):
    """Parameters of the methods of selection; each method reads its own."""

    threshold: Annotated[float, number(0)] = 10.0
    """Change of the percent imbalance, in percentage points, after which exhaustive tries all techniques
    again.
    """
    learner: OneOf[words.TemporalDifference] = words.TemporalDifference.Q_LEARNING
    """q-learning or sarsa. For method rl."""
    learning_rate: Annotated[float, number(0, 1, low_belongs=False)] = 0.5
    """How far a value moves towards what was just seen. For method rl. Default: our choice."""
    discount: Annotated[float, number(0, 1)] = 0.6
    """What the next time step counts, as a share of this one. For method rl. Default: our choice."""
    exploration: Annotated[float, number(0, 1)] = 0.1
    """Probability of a random technique, once each has been tried. For method rl. Default: our choice."""
    every: Annotated[float, number(0, 1, low_belongs=False)] | None = None
    """Share of a loop's iterations to be executed between two choices amid the loop, for what is left of it;
    models cca and dca. For method simulation. Default: choices are made before time steps only.
    """
    chunk_time: Seconds = 1e-7
    """Time that simulating one chunk takes (s), which the loop waits for at each choice. For method
    simulation. Default: 10 million chunks a second, what one core does.
    """
    share: Annotated[float, number(0, 1)] = 0.01
    """Share of the loop's time so far that all simulations together may take; techniques with many chunks
    wait for their turn. For method simulation.
    """
    samples: Annotated[int, whole(1, 1000)] = 1
    """How many loops with different random costs are simulated of each technique; the mean decides. For
    method simulation.
    """
    costs: OneOf[words.KnownCosts] = words.KnownCosts.MEASURED
    """What is taken for the costs of the iterations: those measured so far, or the loop's own profile
    (application.costs), as if it had been stored by an earlier run; speeds of PEs are measured in either
    case, but those before the first time step with a profile, which are the platform's. For method
    simulation.
    """


class SelectionConfig(Section):
    """Selection of techniques by technique: auto."""

    old_keys: ClassVar[Mapping[str, str]] = {
        name: f"parameters.{name}" for name in SelectionParameters.model_fields
    }

    method: OneOf[words.SelectionMethod] = words.SelectionMethod.SIMULATION
    """expert (fuzzy rules on imbalance and times), exhaustive (each technique in one time step, then the
    best), random, rl (Q-learning or SARSA), or simulation (of the portfolio, with costs and speeds as
    measured); see docs/reference/selection.md.
    """
    portfolio: Portfolio = _PORTFOLIO
    """Techniques to choose from. For method expert in order of their chunks, the largest first."""
    goal: OneOf[words.SelectionGoal] = words.SelectionGoal.T_LOOP
    """What is to be least: t_loop, the time of a time step, or imbalance, the percent imbalance of the PEs'
    finish times (Eleliemy 2021, Eq. 2.16).
    """
    learns_over: OneOf[words.LearnsOver] = words.LearnsOver.JOB
    """Executions that a selection learns from: job (its own time steps), application (also those of jobs
    with the same application that ended before it started) or executable (of these, jobs with the same
    executable). In runs of jobs.
    """
    parameters: SelectionParameters = Field(default_factory=SelectionParameters)
    """Parameters of the method."""

    @property
    def chooses_within(self) -> bool:
        """Whether techniques are chosen amid loops as well."""
        return self.parameters.every is not None and self.method is words.SelectionMethod.SIMULATION


def cannot_stop(model: str, lock: str, compat: str, request_ahead: int) -> Iterator[str]:
    """Yield why a loop cannot stop for a choice amid it."""
    reads = words.ExecutionModel(model).entry.properties.reads if model in technique_section.ONE_QUEUE else ()
    if model not in technique_section.ONE_QUEUE:
        yield (
            f"model {model} has several queues, or is your own, and only the rest of one can have another "
            f"technique; allowed: models {', '.join(technique_section.ONE_QUEUE)}, or choices between time "
            "steps, without every"
        )
    elif "lock" in reads and lock == words.LockOrder.POLLING:
        yield "who chooses holds the window, which has no order of turns with lock: polling; allowed: fifo"
    if "request_ahead" in reads and request_ahead > 0:
        yield (
            "a worker that asks ahead has its next chunk while it executes another, and the master does not "
            "know which; allowed: request_ahead: 0"
        )
    if compat == words.Compat.LB4MPI:
        yield "LB4MPI has one technique for a loop; allowed: parameters.compat: none"


def learner_amid_loop(technique: str) -> str:
    """Return why a class of the user cannot be chosen amid a loop."""
    return f"{technique} is a class, which remembers its loop from the begin; allowed: functions and names"
