"""Selection of a technique by simulation of the portfolio (as SimAS does)."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats
from mlsim.application.iteration_costs import CostSums, prefix_sums, sums_of_each
from mlsim.application.selection.measured_costs import (
    ByProfile,
    Estimate,
    by_profile,
    estimate,
    speeds_with,
    when_free,
)
from mlsim.application.selection.selector import (
    ExecutedChunks,
    Progress,
    Rest,
    Selector,
    StepFacts,
    generator,
)
from mlsim.application.techniques import reads_each_cost
from mlsim.scenario import SelectionGoal, Technique

_FORGOTTEN = 0.1
"""Share of what is known of the other techniques that is forgotten with each time step, so that one whose
time step was disturbed once is tried again some time."""
_NEW = 0.5
"""How much the last time step of a technique counts against those before."""
_NEW_OF_ALL = 0.3
"""How much the last time step counts in what is known of all techniques together."""
_LARGEST_ERROR = 0.3
"""A prediction that is farther off tells of a change of the machine, not of how good predictions are."""


class Correction:
    """Measured times as shares of simulated ones.

    A technique that has not been executed yet is expected to be as far off as others were of late.

    Attributes
    ----------
    error
        How far predictions were off of late, as a share, up or down: what is better by less than that is
        not better for sure.
    """

    def __init__(self) -> None:
        self._ratio: dict[str, float] = {}
        self._of_all = 1.0
        self.error = 0.0

    def of(self, name: str) -> float:
        """Return what a simulated time of a technique is to be multiplied by."""
        return self._ratio.get(name, self._of_all)

    def learn(self, name: str, measured: float, simulated: float) -> None:
        """Note what a time step took, and what simulation says that it should have taken, both in s."""
        if measured <= 0.0 or simulated <= 0.0:
            return
        for other in self._ratio.keys() - {name}:
            self._ratio[other] += _FORGOTTEN * (1.0 - self._ratio[other])
        ratio = measured / simulated
        self._ratio[name] = ratio + (1.0 - _NEW) * (self._ratio.get(name, ratio) - ratio)
        self._of_all *= (ratio / self._of_all) ** _NEW_OF_ALL

    def judge(self, measured: float, predicted: float) -> None:
        """Note what a time step took, and what was predicted for it beforehand, both in s."""
        if measured <= 0.0 or predicted <= 0.0:
            return
        error = min(abs(math.log(measured / predicted)), _LARGEST_ERROR)
        self.error += _NEW_OF_ALL * (error - self.error)


Simulate = Callable[[str, CostSums, Floats, float, Rest | None], tuple[float, float, int]]
"""Simulates a loop by a technique, with its costs and speeds of the PEs, up to
a time (s) after which it is of no use, from its begin or, of a rest, from when PEs come free; returns the
loop's time (s; at least that one, if it takes longer; of a rest from now), its percent imbalance and the
chunks simulated."""

_KEPT = 3
_DRAWS = 1024
"""Random costs of a loop where time is measured: more tell hardly more, and take more than simulations."""
_ALIKE = 1.25
"""Up to this ratio of the fastest and the slowest PE, what simulations miss is put down to techniques: a
slow-down that comes or goes amid a time step is not the technique's fault."""
_COLD = 2.0
"""How much longer preparing takes after a time step, which has filled the caches, than just before."""
_SURE = 0.5
"""By how much of what predictions are off another technique has to be better: trying one that is not costs
one time step, missing one that is costs all."""
_SIMULATED = 2e-8
"""What simulating a chunk takes, in s, as long as it has not been measured."""


class _Prediction(NamedTuple):
    """What the last choice expects of the time step to come."""

    technique: str
    seconds: float
    """Its time, corrected by what simulations are off."""
    simulated: float
    """The same as simulated."""
    before: str
    """The technique of the time step before."""
    took: float | None
    """What that took; None: not known, or of no use for comparisons."""


class BySimulation(Selector):
    """Simulates each technique of the portfolio and takes the best.

    Before the first time step it simulates the portfolio where the costs are known, on PEs of the speeds that
    the platform has. Otherwise nothing is known: it takes FAC2, if that is in the portfolio, whose chunks of
    many sizes tell most; else the first one but STATIC, of whose chunks one cannot tell dear iterations from
    slow PEs.

    Amid a time step it does the same with what is left: each technique begins anew with it, on PEs that come
    free when the chunks that they execute should have ended. STATIC, after which nothing is left to be
    chosen, is left out there in the first time step, when nobody has executed the iterations that are left,
    unless their costs are known.

    What the last time step took is compared with what is then simulated for it, and simulations of its
    technique are corrected by the ratio (:class:`Correction`): of whole time steps, where the goal is time,
    and not by the first one, in which caches and memory are cold. The technique changes if another one is
    better by more than predictions were off of late. If that one then takes longer than the one before did,
    the one before comes back.

    All its simulations together may take ``share`` of the time of all time steps so far and of the one to
    come, which is expected to take as long as the shortest. So it begins with
    the technique of the last time step and those that took the shortest to simulate, leaves out those for
    which the time is too short, and, of those that take longer than the best one, sees only the beginning.
    Where time is measured, it begins once there is time to prepare, and for simulations that take no longer.

    Parameters
    ----------
    portfolio, goal
        As of every selector; of equal ones it takes the first.
    n, p
        Iterations and PEs of the loop.
    simulate
        Simulates it, with what is known of its costs of scheduling.
    seed
        Of the random costs that it draws.
    samples
        How often each technique is simulated, each time with other costs.
    share
        Of the loop's time, as above.
    chunk_time
        Seconds that simulating a chunk takes; None: as measured.
    profile
        float64[N]: costs of the iterations, in s at speed 1, where they are known; None: they are measured.
    speed
        float64[P]: speeds of the PEs before any is measured, where the costs are known; None: all alike.

    Attributes
    ----------
    spent
        Seconds that the last choice took.
    """

    needs_chunks = True

    def __init__(
        self,
        portfolio: Sequence[str],
        goal: SelectionGoal,
        n: int,
        p: int,
        simulate: Simulate,
        seed: int,
        samples: int,
        share: float,
        chunk_time: float | None,
        profile: Floats | None = None,
        speed: Floats | None = None,
    ) -> None:
        super().__init__(portfolio, goal)
        self._n, self._p = n, p
        self._nominal = np.ones(p) if speed is None else speed
        self._simulate, self._samples = simulate, samples
        self._profile = profile
        self._random = generator(seed)
        self._steps: deque[ExecutedChunks] = deque(maxlen=_KEPT)
        self._share, self._chunk_time = share, chunk_time
        self._seconds: dict[str, float] = {}  # what simulating each took the last time, for a whole loop
        self._each = {name for name in portfolio if reads_each_cost(name)}
        self._room: list[Floats] = []  # for the costs of all iterations: getting memory takes longer
        self._whole: list[CostSums] = []  # of the present choice
        self._preparing = 0.0  # what it took the last time, in s
        if chunk_time is None and Technique.SS in portfolio:
            self._seconds[Technique.SS] = n * _SIMULATED
        self._elapsed = self._own = 0.0
        self._shortest = 0.0  # seconds of the shortest time step
        self._current = self._first()
        self._speed: Floats | None = None  # as known at the last choice
        self._correction = Correction()
        self._last: float | None = None  # seconds of the last time step, where they are compared
        self._changed = False  # whether the last time step had more than one technique
        self._prediction: _Prediction | None = None  # of the time step to come
        self._better: str | None = None  # than the technique of the last time step, as that has shown
        self.spent = 0.0

    def load(self) -> None:
        """Simulate a tiny loop by each technique, so that no choice waits for kernels and memory.

        What that takes at least, and preparing at most, is then known before the first choice.
        """
        each = np.arange(self._p)
        executed = ExecutedChunks(each, each, np.ones_like(each), np.ones(self._p))
        known = estimate((executed,), self._p, self._p)
        costs = known.draw_sums(self._p, generator(0), _DRAWS)
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

    def _first(self) -> str:
        dynamic = [name for name in self.portfolio if not name.startswith(Technique.STATIC)]
        return Technique.FAC2 if Technique.FAC2 in self.portfolio else (dynamic or self.portfolio)[0]

    def choose(self) -> str:
        """Simulate as many as there is time for, and take the one of the least mean value."""
        self.spent = 0.0
        self._changed = False
        self._prediction = None
        if self._better is not None:
            self._current, self._better = self._better, None
        elif self._steps:
            self._current = self._best()
            self._own += self.spent
        elif self._profile is not None:
            self._current = self._best_at_first(self._profile)
            self._own += self.spent
        return self._current

    def _best_at_first(self, profile: Floats) -> str:
        """Return the best technique by known costs alone, within its share of the least time of the loop.

        No prediction has been wrong yet: of techniques that are as good, the first one of the portfolio.
        """
        least = float(profile.sum() / self._nominal.sum())
        costs = self._drawn(ByProfile(profile, self._nominal), 0)
        return self._best_of(costs, self._nominal, None, least)

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
        """Choose for the rest of a time step, amid it; chunks of this one count as a step of its own."""
        self.spent = 0.0
        executed = progress.executed
        part, elapsed = 1.0 - progress.position / self._n, self._elapsed + progress.now
        turn = self._has_time(part, elapsed) and self._has_turn(self._current, part, elapsed)
        if len(executed.pe) and turn:
            begin = time.perf_counter()
            known = self._known((*self._steps, executed))
            if self._speed is not None:
                seen = np.bincount(executed.pe, minlength=self._p) > 0
                known = known._replace(speed=speeds_with(known.speed, self._speed, seen))
            free, speed = when_free(known, progress.running, self._p)
            costs = self._drawn(known, progress.position)
            self._prepared(begin, part)
            rest = Rest(free, progress.now)
            best = self._best_of(costs, speed, rest, elapsed)
            self._changed |= best != self._current
            self._current = best
            self._own += self.spent
        return self._current

    def _has_time(self, part: float, elapsed: float) -> bool:
        """Whether there is time to prepare simulations of a part of the loop, and for the cheap ones of them.

        Cheap are those of the present technique, and those that take no longer than to prepare.
        """
        if self._chunk_time is not None:
            return True  # preparing takes none
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
        """Note that all is ready to simulate a part of the loop, since a time of the clock."""
        if self._chunk_time is None:
            self.spent = time.perf_counter() - begin
            self._preparing = self.spent / part

    def _has_turn(self, name: str, part: float, elapsed: float) -> bool:
        """Whether there is time to simulate a technique for a part of the loop.

        If not, less is expected the next time, so that it has its turn some time.
        """
        expected = self._seconds.get(name, 0.0)
        if self._own + self.spent + expected * part <= self._share * elapsed:
            return True
        if name in self._seconds:
            self._seconds[name] = expected * (1.0 - self._share)
        return False

    def _best_of(self, costs: Sequence[CostSums], speed: Floats, rest: Rest | None, elapsed: float) -> str:
        """Simulate as many techniques as there is time for, and return the best."""
        values: dict[str, float] = {}
        part = costs[0].n / self._n
        order = sorted(self.portfolio, key=lambda name: self._seconds.get(name, np.inf))
        for name in sorted(order, key=lambda name: name != self._current):
            if rest is not None and name == Technique.STATIC and not self._steps and self._profile is None:
                continue
            if not self._has_turn(name, part, elapsed):
                if name == self._current:
                    return name  # with which the others cannot be compared
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
        """Return the best technique for a whole time step, if it is better than the present one for sure."""
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
            return by_profile(self._profile, steps[-1], self._p)
        return estimate(steps, self._n, self._p)

    def _drawn(self, known: Estimate | ByProfile, position: int) -> list[CostSums]:
        """Return the costs from a position on: a sample each time, unless they are known."""
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
        """Return the same costs with those of single iterations; all of this choice."""
        if all(costs.block == 1 for costs in samples):
            return samples
        if not self._whole:
            self._room = self._room or [np.zeros(self._n + 1) for _ in samples]
            for costs, prefix in zip(samples, self._room, strict=True):
                sums_of_each(costs.block, costs.sums, prefix)
            self._whole = [CostSums.of_each(prefix) for prefix in self._room]
        return self._whole

    def _corrected_value_of(self, name: str, costs: Sequence[CostSums], speed: Floats, best: float) -> float:
        """Return the value of a technique for a whole time step, by what simulations of it are worth."""
        value = self._value_of(name, costs, speed, best / self._correction.of(name), None)
        if name == self._current and self._last is not None and speed.max() <= _ALIKE * speed.min():
            self._correction.learn(name, self._last, value)
        return value * self._correction.of(name)

    def _value_of(
        self, name: str, costs: Sequence[CostSums], speed: Floats, best: float, rest: Rest | None
    ) -> float:
        """Return the mean value of a technique; above ``best`` if it is worse, which is all that counts."""
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
        """Keep its chunks, and how long it took."""
        whole = self._elapsed > 0.0 and not self._changed and not self._by_imbalance
        self._last = step.t_loop if whole else None
        if whole and self._prediction is not None and self._prediction.took is not None:
            self._judge(self._prediction, self._prediction.took, step.t_loop)
        self._shortest = min(step.t_loop, self._shortest or step.t_loop)
        self._elapsed += step.t_loop
        if step.chunks is not None and len(step.chunks.pe):
            self._steps.append(step.chunks)

    def _judge(self, predicted: _Prediction, before: float, took: float) -> None:
        """Compare a time step with its prediction, and a new technique with the one before; times in s."""
        self._correction.judge(took, predicted.seconds)
        if predicted.technique == predicted.before:
            return
        self._correction.learn(predicted.technique, took, predicted.simulated)
        if took > before:
            self._better = predicted.before
