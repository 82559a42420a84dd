"""Estimates of run times in a simulation: made at submissions, learned at ends, corrected when outlived."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.clock.event_clock import Event, Order
from mlsim.batch.columns import job_columns as at
from mlsim.batch.events.handler import Handler, Transitions
from mlsim.batch.predictors import (
    CorrectingPredictor,
    JobNames,
    Predictor,
    SubmittedJob,
    make_predictor,
    run_time_predictors,
    weekly_forests,
)
from mlsim.coordination import Forecast
from mlsim.record import Jobs
from mlsim.record.column_types import GrowingArray
from mlsim.scenario import BatchConfig, words
from mlsim.scenario.cp_section import ClassifierConfig
from mlsim.workload.job_selection import WEEK_SECONDS
from mlsim.workload.workload_jobs import JobBlock


class ActualRunTimes(Handler):
    """R: the run time in the workload, at most the walltime where jobs are killed then.

    An oracle: the only one that reads the column of run times. Where jobs execute loops, run times are
    unknown before they have run, and those of the workload replace them.
    """

    def __init__(self, transitions: Transitions, kills: bool) -> None:
        super().__init__(transitions)
        self._kills = kills

    def on_admission(self, _block: JobBlock, slots: Ints, _accepted: Mask) -> None:
        """Write the estimates of a whole block."""
        floats = self._state.table.floats
        known = np.maximum(floats[at.RUN, slots], run_time_predictors.SHORTEST)
        floats[at.ESTIMATE, slots] = np.minimum(known, floats[at.WALLTIME, slots]) if self._kills else known


class LearnedEstimates(Handler):
    """Estimates of a predictor, which predicts at submissions and learns at ends, in simulated order."""

    def __init__(self, transitions: Transitions, predictor: Predictor, names: JobNames) -> None:
        super().__init__(transitions)
        self._predictor, self._names = predictor, names
        self._jobs: dict[int, SubmittedJob] = {}  # by slot; what a slot's next job overwrites
        self._ended: list[tuple[float, int, float, SubmittedJob]] = []

    def corrections(self) -> Handler | None:
        """Return the handler of the predictor's corrections; None if it makes none."""
        if not isinstance(self._predictor, CorrectingPredictor):
            return None
        return Corrections(self._transitions, self._jobs, self._predictor)

    def on_admission(self, block: JobBlock, slots: Ints, _accepted: Mask) -> None:
        """Register the jobs of a block; none has an estimate yet."""
        jobs = run_time_predictors.submitted_jobs(block, self._names)
        self._jobs.update(zip(slots.tolist(), jobs, strict=True))
        self._state.table.floats[at.ESTIMATE, slots] = np.nan

    def on_arrival(self, slots: Ints, _now: float) -> None:
        """Learn from the jobs that have ended by now, then predict."""
        if self._ended:
            self._learn()
        predict, jobs, floats = self._predictor.predict, self._jobs, self._state.table.floats
        for slot in slots.tolist():
            job = jobs[slot]
            floats[at.ESTIMATE, slot] = run_time_predictors.cut(predict(job), job.walltime)

    def on_run_time(self, slot: int, now: float) -> None:
        """Keep the job until the next submission: order of ends at one time is that of arrival."""
        table = self._state.table
        run_time = now - float(table.floats[at.START, slot])
        self._ended.append((now, int(table.ints[at.NUMBER, slot]), run_time, self._jobs[slot]))

    def _learn(self) -> None:
        self._ended.sort(key=lambda ended: ended[:2])
        for _, _, run_time, job in self._ended:
            self._predictor.learn(job, run_time)
        self._ended.clear()


@dataclass(slots=True)
class _Watched:
    """A running job: its corrections so far, and the event at which its estimate is over."""

    corrections: int = 0
    event: Event | None = None


class Corrections(Handler):
    """Raises the expected ends of jobs that outlive their estimates; ``jobs`` are those of each slot.

    A correction requests a pass, because it moves reservations.
    """

    def __init__(
        self, transitions: Transitions, jobs: dict[int, SubmittedJob], predictor: CorrectingPredictor
    ) -> None:
        super().__init__(transitions)
        self._jobs, self._predictor = jobs, predictor
        self._watched: dict[int, _Watched] = {}

    def on_forecast(self, slot: int, _now: float, _forecast: Forecast) -> None:
        """Schedule a correction if the job will outlive its estimate."""
        watched = self._watched.get(slot)
        if watched is None:
            watched = self._watched[slot] = _Watched()
        self._schedule(slot, watched)

    def on_attempt_end(self, slot: int, _now: float) -> None:
        """Cancel the correction of a job that stops."""
        watched = self._watched.pop(slot)
        if watched.event is not None:
            watched.event.cancel()

    def _schedule(self, slot: int, watched: _Watched) -> None:
        floats = self._state.table.floats
        expected = float(floats[at.EXPECTED, slot])
        if watched.event is None and expected < floats[at.PLANNED, slot]:
            time = max(expected, self._clock.time)
            watched.event = self._clock.at(time, Order.CORRECTION, self._correct, slot)

    def _correct(self, event: Event) -> None:
        slot: int = event.subject
        watched, job = self._watched[slot], self._jobs[slot]
        floats = self._state.table.floats
        if floats[at.EXPECTED, slot] > self._clock.time:  # a forecast has moved it
            watched.event = None
            self._schedule(slot, watched)
            return
        expired = float(floats[at.EXPECTED, slot] - floats[at.START, slot])
        corrected = self._predictor.correct(job, expired, watched.corrections)
        expected = float(floats[at.START, slot]) + run_time_predictors.cut(corrected, job.walltime)
        if expected <= self._clock.time:
            return  # keeps its event, so that the predictor is not called again
        watched.event = None
        watched.corrections += 1
        self._state.expect(slot, expected)
        self._clock.request_pass()
        self._schedule(slot, watched)


class WeeklyEstimates(Handler):
    """Weekly predictions; ``local`` is that of :class:`JobClasses`."""

    def __init__(
        self,
        transitions: Transitions,
        learner: weekly_forests.RunTimeLearner,
        local: Callable[[Floats], Floats],
    ) -> None:
        super().__init__(transitions)
        self._learner, self._local = learner, local
        self._upcoming = weekly_forests.Upcoming()

    def on_admission(self, block: JobBlock, slots: Ints, _accepted: Mask) -> None:
        """Register the jobs of a block; none has an estimate yet."""
        table = self._state.table
        numbers = table.ints[at.NUMBER, slots]
        self._learner.history.admit(block, numbers, self._local(block.submit_time))
        self._upcoming.add(numbers, slots)
        table.floats[at.ESTIMATE, slots] = np.nan

    def on_arrival(self, slots: Ints, _now: float) -> None:
        """Make the estimates of jobs that are submitted now."""
        table = self._state.table
        week = int(table.floats[at.SUBMIT, slots[0]] // WEEK_SECONDS)
        numbers = table.ints[at.NUMBER, slots]
        self._learner.begin(week)

        def forecast(numbers: Ints, theirs: Ints) -> Floats:
            return self._learner.predict(numbers, table.floats[at.WALLTIME, theirs])

        table.floats[at.ESTIMATE, slots] = self._upcoming.take(numbers, week, forecast)
        self._learner.history.submit(numbers)

    def on_run_time(self, slot: int, now: float) -> None:
        """Register a job that completes now, or is killed at its walltime."""
        run_time = now - float(self._state.table.floats[at.START, slot])
        self._learner.history.end(self._state.number(slot), now, run_time)


class JobClasses(Handler):
    """Predicts at submission which jobs are small; in the first week all are large.

    ``local`` converts submit times (s) to seconds since 1970 on the clocks of the log's time zone. Raises
    InputError if a library is missing.
    """

    def __init__(
        self, transitions: Transitions, config: ClassifierConfig, local: Callable[[Floats], Floats], seed: int
    ) -> None:
        super().__init__(transitions)
        if config.by is words.ClassSource.FOREST:
            weekly_forests.check_library()
        self._config, self._local, self._seed = config, local, seed
        self._history, self._upcoming = weekly_forests.WeeklyHistory(), weekly_forests.Upcoming()
        self._forest: weekly_forests.Forest | None = None
        self._taken = GrowingArray(np.int8)

    def on_admission(self, block: JobBlock, slots: Ints, accepted: Mask) -> None:
        """Register the jobs of a block that may enter the queue."""
        block, slots = block.select(np.flatnonzero(accepted)), slots[accepted]
        numbers, before = self._state.table.ints[at.NUMBER, slots], self._history.n
        self._history.admit(block, numbers, self._local(block.submit_time))
        self._taken.reserve(self._history.n, before)
        self._taken.array[before : self._history.n] = 0
        self._upcoming.add(numbers, slots)

    def on_arrival(self, slots: Ints, now: float) -> None:
        """Predict the classes of jobs that are submitted now."""
        week = int(now // WEEK_SECONDS)
        if week > self._history.week:
            self._history.begin(week)
            self._forest = None
        ints = self._state.table.ints
        numbers = ints[at.NUMBER, slots]
        small = self._upcoming.take(numbers, week, self._are_small) == 1
        self._history.submit(numbers)
        self._taken.array[numbers], ints[at.LARGE, slots] = small, ~small

    def on_run_time(self, slot: int, now: float) -> None:
        """Register a job that completes now, or is killed at its walltime."""
        run_time = now - float(self._state.table.floats[at.START, slot])
        self._history.end(self._state.number(slot), now, run_time)

    def limit(self, slot: int) -> float:
        """Return the run time at which a job predicted small is killed (s)."""
        if not self._config.safeguard or self._state.table.ints[at.LARGE, slot]:
            return np.inf
        return float(self._history.dividers[self._state.number(slot)])

    def make_large(self, slot: int) -> None:
        """Reclassify a job that has run past its divider as large."""
        self._state.table.ints[at.LARGE, slot] = 1

    def add_columns(self, jobs: Jobs) -> Jobs:
        """Return the jobs with their predicted classes and dividers; jobs never submitted have none."""
        n, known = len(jobs.job_id), self._history.n
        dividers, taken = np.full(n, np.nan), np.zeros(n, np.bool_)
        dividers[:known] = self._history.dividers
        taken[:known] = self._taken.array[:known]
        return replace(jobs, taken_for_small=taken, divider=dividers)

    def _are_small(self, numbers: Ints, slots: Ints) -> Floats:
        """Return 1 for jobs that are predicted small, else 0."""
        history = self._history
        if np.isnan(history.divider):
            return np.zeros(len(numbers))
        if self._config.by is words.ClassSource.ACTUAL:
            found: Floats = (self._state.table.floats[at.RUN, slots] < history.divider).astype(np.float64)
            return found
        if self._forest is None:
            known = history.known()
            small, trees = history.small[known].astype(np.int64), self._config.n_trees
            self._forest = weekly_forests.Forest(history.known_features(known), small, trees, self._seed)
        return self._forest.are_small(history.features(numbers)).astype(np.float64)


def estimates_for(
    config: BatchConfig,
    transitions: Transitions,
    executable_names: Sequence[str] = (),
    local: Callable[[Floats], Floats] = np.asarray,
    seed: int = 0,
) -> Handler | None:
    """Make the estimates of a scenario's predictor; None where estimates are walltimes.

    ``config`` names files as seen from the current directory, ``executable_names`` are those behind codes,
    and ``local`` converts submit times (s) to seconds since 1970 on the clocks of the log's time zone. Raises
    InputError if a user-defined predictor cannot be made, or a library is missing.
    """
    name = config.predictor
    if name == words.Predictor.WALLTIME:
        return None
    if name == words.Predictor.ACTUAL:
        return ActualRunTimes(transitions, config.on_overrun is words.OverrunRule.KILL)
    if name in weekly_forests.WEEKLY:
        learner = weekly_forests.RunTimeLearner(name, config.quantile_or_default, seed)
        return WeeklyEstimates(transitions, learner, local)
    return LearnedEstimates(transitions, make_predictor(name), JobNames(executable_names))
