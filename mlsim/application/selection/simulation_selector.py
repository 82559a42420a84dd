"""Selection of a technique by simulation of the portfolio (as SimAS does)."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.application.iteration_costs import CostSums, prefix_sums, sums_of_each
from mlsim.application.selection import measured_costs, selector
from mlsim.application.selection.measured_costs import ByProfile, Estimate
from mlsim.application.selection.selector import ExecutedChunks, Progress, Rest, Selector, StepFacts
from mlsim.application.techniques import reads_each_cost
from mlsim.scenario.costs_section import SelectionConfig
from mlsim.scenario.words import KnownCosts, SelectionGoal, SelectionMethod, Technique

# Decay per time step of the other techniques' corrections, so that one disturbed time step is forgotten.
_FORGOTTEN = 0.1
_NEW = 0.5  # weight of the last time step in a technique's correction
_NEW_OF_ALL = 0.3  # weight of the last time step in the correction for all techniques, and in the error
_LARGEST_ERROR = 0.3  # larger errors are due to a change of the machine, not to the quality of predictions


class Correction:
    """Ratios of measured to simulated times per technique; the recent common one where none is measured."""

    def __init__(self) -> None:
        self._ratio: dict[str, float] = {}
        self._of_all = 1.0
        self.error = 0.0  # recent mean relative error of predictions

    def of(self, name: str) -> float:
        """Return the factor for a simulated time of a technique."""
        return self._ratio.get(name, self._of_all)

    def learn(self, name: str, measured: float, simulated: float) -> None:
        """Update the ratios with a time step, times in s."""
        if measured <= 0.0 or simulated <= 0.0:
            return
        for other in self._ratio.keys() - {name}:
            self._ratio[other] += _FORGOTTEN * (1.0 - self._ratio[other])
        ratio = measured / simulated
        self._ratio[name] = ratio + (1.0 - _NEW) * (self._ratio.get(name, ratio) - ratio)
        self._of_all *= (ratio / self._of_all) ** _NEW_OF_ALL

    def judge(self, measured: float, predicted: float) -> None:
        """Update the error with a time step and its prediction, times in s."""
        if measured <= 0.0 or predicted <= 0.0:
            return
        error = min(abs(math.log(measured / predicted)), _LARGEST_ERROR)
        self.error += _NEW_OF_ALL * (error - self.error)


Simulate = Callable[[str, CostSums, Floats, float, Rest | None], tuple[float, float, int]]
"""Simulates a loop: technique, costs, speeds of the PEs, time limit [s] and, within a time step, the rest.

Returns the loop time [s] (from now for a rest; at least the limit if that is exceeded), the percent imbalance
and the number of simulated chunks."""

_ASSIGNED = (Technique("STATIC"), Technique("CYCLIC"))
_KEPT = 3
_DRAWS = 1024  # random costs per loop if time is measured: more would add little, and take longer
# Simulation errors correct a technique only up to this ratio of the fastest to the slowest PE: beyond it, a
# slow-down that starts or ends within a time step may be the cause.
_ALIKE = 1.25
_COLD = 2.0  # factor of the preparation time after a time step, which has replaced the caches' content
# Required gain of another technique as a share of the prediction error: trying a worse one costs one time
# step, missing a better one costs all.
_SURE = 0.5
_SIMULATED = 2e-8  # initial estimate of the time to simulate a chunk [s]


class _Prediction(NamedTuple):
    """Prediction of the last selection for the next time step."""

    technique: str
    seconds: float  # corrected
    simulated: float  # not corrected
    before: str  # technique of the previous time step
    took: float | None  # time of the previous time step; None: not comparable


class SelectedLoop(NamedTuple):
    """A loop whose techniques are selected."""

    n: int
    p: int
    profile: Floats | None = None  # float64[N]: known costs, in s at speed 1; None: measured
    speed: Floats | None = None  # float64[P] before any is measured, if costs are known; None: all equal


class Effort(NamedTuple):
    """Time spent on simulations."""

    samples: int  # simulations per technique, each with other random costs
    share: float  # of the time of the loop
    chunk_time: float | None  # to simulate a chunk, in s; None: measured


class BySimulation(Selector):
    """Simulates each technique of the portfolio and selects the best; of equal ones the first.

    Before the first time step it needs known costs and the platform's speeds. Without, it selects FAC2, whose
    many chunk sizes are most informative, or the first technique except STATIC, whose chunks do not separate
    expensive iterations from slow PEs. Within a time step each technique is simulated with the remaining
    iterations, on PEs that become free at the expected ends of their chunks; in the first one STATIC and
    CYCLIC only if costs are known, as they leave no iterations for later selections.

    Simulations of whole time steps are corrected by measured times (:class:`Correction`), if the goal is
    time, except by the first time step, in which caches are cold. The technique changes if another one is
    better by more than the recent error of predictions; if that one then takes longer, the previous one
    returns.

    All simulations together may take ``share`` of the time so far and of the next time step, expected to be
    as short as the shortest. So the last technique and those with short simulations are first, others are
    skipped if time is short, and simulations that exceed the best one are stopped. Where simulations are
    timed, they start once there is time for the preparation.
    """

    needs_chunks = True

    def __init__(
        self,
        portfolio: Sequence[str],
        goal: SelectionGoal,
        loop: SelectedLoop,
        simulate: Simulate,
        seed: int,
        effort: Effort,
    ) -> None:
        super().__init__(portfolio, goal)
        n, p = self._n, self._p = loop.n, loop.p
        self._nominal = np.ones(p) if loop.speed is None else loop.speed
        self._simulate, self._samples = simulate, effort.samples
        self._profile = loop.profile
        self._random = selector.generator(seed)
        self._steps: deque[ExecutedChunks] = deque(maxlen=_KEPT)
        self._share, self._chunk_time = effort.share, effort.chunk_time
        self._seconds: dict[str, float] = {}  # last time to simulate each, scaled to a whole loop
        self._each = {name for name in portfolio if reads_each_cost(name)}
        self._buffers: list[Floats] = []  # for the costs of all iterations: allocation takes longer
        self._whole: list[CostSums] = []  # of the current selection
        self._preparing = 0.0  # last preparation time, in s
        if effort.chunk_time is None and Technique("SS") in portfolio:
            self._seconds[Technique("SS")] = n * _SIMULATED
        self._elapsed = self._own = 0.0
        self._shortest = 0.0  # seconds of the shortest time step
        dynamic = [name for name in self.portfolio if not name.startswith(Technique("STATIC"))]
        known = [name for name in self.portfolio if name == Technique("FAC2")]
        self._current = (known or dynamic or self.portfolio)[0]
        self._speed: Floats | None = None  # at the last selection
        self._correction = Correction()
        self._last: float | None = None  # seconds of the last time step, if comparable
        self._changed = False  # whether the last time step had more than one technique
        self._prediction: _Prediction | None = None  # of the next time step
        self._better: str | None = None  # the previous technique, if the last one was slower
        self.spent = 0.0

    def begin_with(self, known: Estimate) -> None:
        """Use costs that an earlier execution has shown as known ones, drawn once."""
        if self._profile is None:
            self._profile = known.costs(self._n, self._random)

    def load(self) -> None:
        """Simulate a tiny loop with each technique to load kernels, and to bound the times of simulation."""
        each = np.arange(self._p)
        executed = ExecutedChunks(each, each, np.ones_like(each), np.ones(self._p))
        known = measured_costs.estimate((executed,), self._p, self._p)
        costs = known.draw_sums(self._p, selector.generator(0), _DRAWS)
        for name in self.portfolio:
            self._simulate(name, costs, known.speed, np.inf, None)
            begin = time.perf_counter()
            self._simulate(name, costs, known.speed, np.inf, None)
            self._seconds[name] = max(time.perf_counter() - begin, self._seconds.get(name, 0.0))
        if self._each:
            self._of_each(self._drawn(known, 0))
        begin = time.perf_counter()
        self._drawn(self._known((executed._replace(first=each % self._n),)), 0)
        self._preparing = _COLD * (time.perf_counter() - begin)

    def choose(self) -> str:
        """Simulate as many techniques as time allows, and return the best."""
        self.spent = 0.0
        self._changed = False
        self._prediction = None
        if self._better is not None:
            self._current, self._better = self._better, None
        elif self._steps:
            self._current = self._best()
            self._own += self.spent
        elif self._profile is not None:  # within the share of the loop's minimum time
            least = float(self._profile.sum() / self._nominal.sum())
            costs = self._drawn(ByProfile(self._profile, self._nominal), 0)
            self._current = self._best_of(costs, self._nominal, None, least)
            self._own += self.spent
        return self._current

    def _best(self) -> str:
        elapsed = self._elapsed + self._shortest
        if not self._has_time(1.0, elapsed):
            return self._current
        begin = time.perf_counter()
        known = self._known(tuple(self._steps))
        costs = self._drawn(known, 0)
        self._speed = known.speed
        self._prepared(begin, 1.0)
        return self._best_of(costs, known.speed, None, elapsed)

    def choose_within(self, progress: Progress) -> str:
        """Select for the rest of a time step, whose chunks so far count as a time step."""
        self.spent = 0.0
        executed = progress.executed
        part, elapsed = 1.0 - progress.position / self._n, self._elapsed + progress.now
        turn = self._has_time(part, elapsed) and self._has_turn(self._current, part, elapsed)
        if len(executed.pe) and turn:
            begin = time.perf_counter()
            known = self._known((*self._steps, executed))
            if self._speed is not None:
                seen = np.bincount(executed.pe, minlength=self._p) > 0
                known = known._replace(speed=measured_costs.speeds_with(known.speed, self._speed, seen))
            free, speed = measured_costs.when_free(known, progress.running, self._p)
            costs = self._drawn(known, progress.position)
            self._prepared(begin, part)
            best = self._best_of(costs, speed, Rest(free, progress.now), elapsed)
            self._changed |= best != self._current
            self._current = best
            self._own += self.spent
        return self._current

    def _has_time(self, part: float, elapsed: float) -> bool:
        """Whether there is time to prepare, and to simulate the current technique and cheap ones."""
        if self._chunk_time is not None:
            return True  # the preparation is free
        cheap = sum(
            seconds
            for name, seconds in self._seconds.items()
            if name == self._current or seconds <= self._preparing
        )
        if self._own + (self._preparing + cheap) * part <= self._share * elapsed:
            return True
        self._preparing *= 1.0 - self._share
        return False

    def _prepared(self, begin: float, part: float) -> None:
        """Record the preparation time since ``begin`` for a part of the loop."""
        if self._chunk_time is None:
            self.spent = time.perf_counter() - begin
            self._preparing = self.spent / part

    def _has_turn(self, name: str, part: float, elapsed: float) -> bool:
        """Whether there is time to simulate a technique; if not, it is expected to take less next time."""
        expected = self._seconds.get(name, 0.0)
        if self._own + self.spent + expected * part <= self._share * elapsed:
            return True
        if name in self._seconds:
            self._seconds[name] = expected * (1.0 - self._share)
        return False

    def _best_of(self, costs: Sequence[CostSums], speed: Floats, rest: Rest | None, elapsed: float) -> str:
        """Simulate as many techniques as time allows, and return the best."""
        values: dict[str, float] = {}
        part = costs[0].n / self._n
        order = sorted(self.portfolio, key=lambda name: self._seconds.get(name, np.inf))
        for name in sorted(order, key=lambda name: name != self._current):
            if rest is not None and name in _ASSIGNED and not self._steps and self._profile is None:
                continue
            if not self._has_turn(name, part, elapsed):
                if name == self._current:
                    return name  # the others cannot be compared with it
                continue
            least = min(values.values(), default=np.inf)
            if rest is None:
                values[name] = self._corrected_value_of(name, costs, speed, least)
            else:
                values[name] = self._value_of(name, costs, speed, least, rest)
        if rest is None and self._steps:
            return self._preferred(values)
        best = min(values.values())
        return next(name for name in self.portfolio if values.get(name, np.inf) <= best)

    def _preferred(self, values: dict[str, float]) -> str:
        """Return the best technique for a whole time step, if it is clearly better than the current one."""
        bound = 1.0 + _SURE * self._correction.error
        sure = {name: value * (1.0 if name == self._current else bound) for name, value in values.items()}
        best = min(sure.values())
        chosen = next(name for name in self.portfolio if sure.get(name, np.inf) <= best)
        simulated = values[chosen] / self._correction.of(chosen)
        self._prediction = _Prediction(chosen, values[chosen], simulated, self._current, self._last)
        return chosen

    def _known(self, steps: Sequence[ExecutedChunks]) -> Estimate | ByProfile:
        """Return costs of the iterations, known or estimated, and speeds of the PEs in the last step."""
        if self._profile is not None:
            return measured_costs.by_profile(self._profile, steps[-1], self._p)
        return measured_costs.estimate(steps, self._n, self._p)

    def _drawn(self, known: Estimate | ByProfile, position: int) -> list[CostSums]:
        """Return the costs from a position on: the known ones, or random samples."""
        self._whole = []
        if isinstance(known, ByProfile):
            return [CostSums.of_each(prefix_sums(known.profile[position:]))]
        if self._chunk_time is not None:
            drawn = [known.costs(self._n, self._random) for _ in range(self._samples)]
            return [CostSums.of_each(prefix_sums(costs[position:])) for costs in drawn]
        samples = [known.draw_sums(self._n, self._random, _DRAWS) for _ in range(self._samples)]
        if not position:
            return samples
        whole = [costs.sums for costs in self._of_each(samples)]
        return [CostSums.of_each(prefix[position:] - prefix[position]) for prefix in whole]

    def _of_each(self, samples: Sequence[CostSums]) -> Sequence[CostSums]:
        """Return the same costs per iteration, computed once per selection."""
        if all(costs.block == 1 for costs in samples):
            return samples
        if not self._whole:
            self._buffers = self._buffers or [np.zeros(self._n + 1) for _ in samples]
            for costs, prefix in zip(samples, self._buffers, strict=True):
                sums_of_each(costs.block, costs.sums, prefix)
            self._whole = [CostSums.of_each(prefix) for prefix in self._buffers]
        return self._whole

    def _corrected_value_of(self, name: str, costs: Sequence[CostSums], speed: Floats, best: float) -> float:
        """Return the corrected value of a technique for a whole time step."""
        value = self._value_of(name, costs, speed, best / self._correction.of(name), None)
        if name == self._current and self._last is not None and speed.max() <= _ALIKE * speed.min():
            self._correction.learn(name, self._last, value)
        return value * self._correction.of(name)

    def _value_of(
        self, name: str, costs: Sequence[CostSums], speed: Floats, best: float, rest: Rest | None
    ) -> float:
        """Return the mean value of a technique, or any value above ``best`` if it is worse."""
        begin = time.perf_counter()
        until = np.inf if self._by_imbalance else best * len(costs)
        total, chunks = 0.0, 0
        for drawn in self._of_each(costs) if name in self._each else costs:
            t_loop, imbalance, simulated = self._simulate(name, drawn, speed, until - total, rest)
            total += self.value(t_loop, imbalance)
            chunks += simulated
            if total > until:
                break
        measured = time.perf_counter() - begin
        took = measured if self._chunk_time is None else chunks * self._chunk_time
        self._seconds[name] = took * self._n / costs[0].n
        self.spent += took
        return total / len(costs)

    def note(self, step: StepFacts) -> None:
        """Store the chunks and the time of a time step."""
        whole = self._elapsed > 0.0 and not self._changed and not self._by_imbalance
        self._last = step.t_loop if whole else None
        predicted = self._prediction
        if whole and predicted is not None and predicted.took is not None:
            self._correction.judge(step.t_loop, predicted.seconds)
            if predicted.technique != predicted.before:
                self._correction.learn(predicted.technique, step.t_loop, predicted.simulated)
                self._better = predicted.before if step.t_loop > predicted.took else None
        self._shortest = min(step.t_loop, self._shortest or step.t_loop)
        self._elapsed += step.t_loop
        if step.chunks is not None and len(step.chunks.pe):
            self._steps.append(step.chunks)


def make_selector(
    config: SelectionConfig,
    n: int,
    p: int,
    seed: int,
    simulate: Simulate,
    measured: bool = False,
    profile: Floats | None = None,
    speed: Floats | None = None,
) -> Selector:
    """Create the selector of a loop; ``measured``: simulations are timed, ``chunk_time`` is not used."""
    portfolio, goal, options = config.portfolio, config.goal, config.parameters
    match config.method:
        case SelectionMethod.EXPERT:
            return selector.Expert(portfolio, goal)
        case SelectionMethod.EXHAUSTIVE:
            return selector.ByTrial(portfolio, goal, options.threshold)
        case SelectionMethod.RANDOM:
            return selector.RandomSelector(portfolio, goal, seed)
        case SelectionMethod.RL:
            return selector.Learner(portfolio, goal, seed, options)
    effort = Effort(options.samples, options.share, None if measured else options.chunk_time)
    known = profile if options.costs is KnownCosts.PROFILE else None
    return BySimulation(portfolio, goal, SelectedLoop(n, p, known, speed), simulate, seed, effort)
