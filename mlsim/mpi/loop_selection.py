"""``technique="auto"`` in real runs, and progress of a loop as its master sees it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

from mlsim._runtime.arrays import Floats, Ints
from mlsim.application import ChunkRows, trial_by
from mlsim.application.loop_binding import Problem
from mlsim.application.selection.measured_costs import Waits, charges_of_waits, waits_of
from mlsim.application.selection.selector import ExecutedChunks, Progress, Selected, Selector, StepFacts
from mlsim.application.selection.simulation_selector import BySimulation, Simulate, make_selector
from mlsim.application.techniques import Choice
from mlsim.application.time_steps import StepHistory, rows_of_step
from mlsim.errors import InputError
from mlsim.mpi.loop_options import LoopOptions
from mlsim.scenario import technique_section, words
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.costs_section import SelectionConfig, cannot_stop, learner_amid_loop


def selection_of(
    technique: object, selection: Mapping[str, Any] | SelectionConfig | None
) -> SelectionConfig | None:
    """Return how techniques are chosen, as ``application.selection``; None where the technique is given."""
    if not (isinstance(technique, str) and technique.strip().casefold() == technique_section.AUTO):
        if selection is not None:
            raise InputError(f"LoopScheduler: selection: goes with technique='auto', not {technique}")
        return None
    if isinstance(selection, SelectionConfig):
        return selection
    try:
        return SelectionConfig.model_validate(dict(selection or {}))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(("selection", *map(str, first["loc"])))
        raise InputError(f"LoopScheduler: {place}: {first['msg']}") from error


def check_profile(config: SelectionConfig | None, profile: Floats | None, n: int) -> None:
    """Check that a profile is given where techniques are chosen by one, and fits the loop."""
    wanted = config is not None and config.parameters.costs is words.KnownCosts.PROFILE
    if wanted and profile is None:
        raise InputError(
            "LoopScheduler: selection.parameters.costs: profile, and there is none; give profile=, or "
            "measured"
        )
    if profile is None:
        return
    if not wanted:
        raise InputError(
            "LoopScheduler: profile= goes with technique='auto' and selection.parameters.costs: profile"
        )
    column = np.asarray(profile)
    if column.shape != (n,) or not np.isfinite(column).all() or (column < 0.0).any():
        raise InputError(f"LoopScheduler: profile: allowed: {n} finite numbers, 0 or more, one an iteration")


def check_amid(config: SelectionConfig, *portfolio: tuple[LoopOptions, tuple[Choice, ...]]) -> None:
    """Raise InputError if techniques cannot be selected amid a loop: only cca's master has all requests."""
    if not config.chooses_within:
        return
    key = "LoopScheduler: selection.parameters.every"
    options, _ = portfolio[-1]
    if options.model != words.ExecutionModel.CCA:
        raise InputError(
            f"{key}: {config.parameters.every} with model={options.model!r}: in a real run the master "
            "chooses amid a loop, who has all requests; allowed: model='cca', or no every, and choices "
            "between loops that are a chain by after"
        )
    for message in cannot_stop(options.model, options.lock, options.compat, options.request_ahead):
        raise InputError(f"{key}: {message}")
    for _, choices in portfolio:
        if choices[0].name == words.Technique("CYCLIC"):
            raise InputError(f"{key}: CYCLIC leaves no iterations for later choices; take SS instead")
        if choices[0].is_object:
            raise InputError(f"{key}: {learner_amid_loop(choices[0].name)}")


class Watch:
    """Progress of a loop at its master; a selection is due each time ``every`` iterations were executed.

    ``select`` maps the progress and the time of a request [s] to the technique of the remaining iterations.
    """

    def __init__(self, every: int, select: Callable[[Progress, float], Choice]) -> None:
        self._every = self._due = every
        self._select = select
        self._begin = time.perf_counter()
        self._executed: list[tuple[int, int, int, float]] = []
        self._waits: list[float] = []
        self._running: dict[int, tuple[int, int, float]] = {}  # first, size, when it was assigned
        self._count = 0

    def ended(self, pe: int, done: Floats) -> bool:
        """Record a request, which reports the PE's last chunk; return whether a choice is due."""
        last = self._running.pop(pe, None)
        if last is None:
            return False
        first, size, _ = last
        self._executed.append((pe, first, size, float(done[1])))
        self._waits.append(float(done[2]))
        self._count += size
        return self._count >= self._due

    def assigned(self, pe: int, first: int, size: int) -> None:
        """Note what a PE was assigned."""
        self._running[pe] = first, size, time.perf_counter()

    def choose(self, position: int) -> Choice:
        """Choose the technique of what is left when ``position`` iterations are assigned."""
        self._due = self._count + self._every
        now, rows = time.perf_counter(), sorted(self._running.items())
        running = [(pe, first, size, now - begin) for pe, (first, size, begin) in rows]
        progress = Progress(now - self._begin, position, _chunks(self._executed), _chunks(running))
        # What a request took: the median time from asking for a chunk to its start, in s.
        return self._select(progress, float(np.median(self._waits)) if self._waits else 0.0)


class Selecting:
    """Selection of techniques on rank 0; on other ranks only ``needs_chunks`` counts.

    ``options``: under any technique; ``profile``, float64[N]: costs of iterations (s up to a factor), if
    known.
    """

    def __init__(
        self, config: SelectionConfig, options: LoopOptions, node_of_pe: Ints, profile: Floats | None
    ) -> None:
        self.config = config
        self.n = options.n
        self.needs_chunks = config.method is words.SelectionMethod.SIMULATION
        self.selected: list[Selected] = []
        self._options, self._node_of_pe, self._profile = options, node_of_pe, profile
        self._waits = Waits(0.0, 0.0)
        self._trial: Simulate | None = None  # with the waits and the history of now
        self._history = StepHistory(len(node_of_pe))
        self._begin = time.perf_counter()
        self._made: list[Selected] = []  # in this loop; those amid it begin at readings of the clock
        self._selector: Selector | None = None

    def continues(self, config: SelectionConfig, n: int) -> bool:
        """Whether it also chooses for a loop of ``n`` iterations with this configuration."""
        return self.config == config and self.n == n

    def choose(self, history: StepHistory) -> int:
        """Return the number of the next loop's technique in the portfolio, on rank 0, by earlier loops."""
        self._history, self._trial = history, None
        if self._selector is None:
            p = len(self._node_of_pe)
            self._selector = make_selector(
                *(self.config, self.n, p, self._options.seed, lambda *loop: self._trial_of_now()(*loop)),
                measured=True,
                profile=self._profile,
            )
            if isinstance(self._selector, BySimulation):
                self._selector.load()
        name = self._selector.choose()
        self._made = [Selected(name, 0.0, 0.0, 0.0, self._selector.spent)]
        return self.config.portfolio.index(name)

    def choose_within(self, progress: Progress, wait: float) -> int:
        """Return the number of the technique of the rest of the loop; ``wait``: what a request took [s]."""
        selector = self._selector
        assert isinstance(selector, BySimulation), "checked: method simulation"
        self._waits, self._trial = Waits(wait, 0.0), None
        name = selector.choose_within(progress)
        self._made.append(Selected(name, time.perf_counter(), 0.0, 0.0, selector.spent, progress.position))
        return self.config.portfolio.index(name)

    def watch(self, portfolio: Sequence[Choice], pe_of_rank: Ints) -> Watch:
        """Return the selection amid a loop among the techniques of the portfolio, with their weights."""
        every = math.ceil((self.config.parameters.every or 1.0) * self.n)

        def select(progress: Progress, wait: float) -> Choice:
            return portfolio[self.choose_within(progress.with_pes(pe_of_rank), wait)]

        return Watch(every, select)

    @property
    def time_of_last(self) -> float:
        """Time of the choices of the last loop, in s."""
        return sum(choice.spent for choice in self._made)

    def _trial_of_now(self) -> Simulate:
        """Return the simulation of a loop each request of which takes what requests have taken."""
        if self._trial is None:
            options, nodes = self._options, self._node_of_pe
            keys = ("model", "master", "global_p", "injected_delay", "request_ahead")
            charges = charges_of_waits(options.model, self._waits)
            execution = ExecutionConfig(**{key: getattr(options, key) for key in keys}, **charges)
            p, parameters = len(nodes), (options.parameters_config(), options.min_chunk, options.seed)
            columns = np.zeros(1), np.ones(p), np.zeros(p), nodes
            self._trial = trial_by(Problem(*columns, 0.0, execution, *parameters), self._history)
        return self._trial

    def note(self, origin: float, t_loop: float, imbalance: float, rows: ChunkRows | None) -> None:
        """Learn from the loop that has ended; on rank 0. ``origin``: when it began, by rank 0's clock [s]."""
        assert self._selector is not None, "a technique was chosen"
        chunks = None
        if rows is not None and len(rows.pe):
            chunks = rows.executed
            self._waits = waits_of(chunks.pe, rows.requested, rows.start, rows.end)
        # The loop begins with the first request of all ranks, which its master learns after the end.
        amid = [choice._replace(begin=choice.begin - origin) for choice in self._made[1:]]
        self.selected += rows_of_step([*self._made[:1], *amid], origin - self._begin, t_loop, imbalance)
        self._selector.note(StepFacts(self._made[-1].technique, t_loop, imbalance, chunks))


def _chunks(rows: Sequence[tuple[int, int, int, float]]) -> ExecutedChunks:
    """Return PE, first iteration, size and seconds of chunks as columns."""
    numbers = np.array([row[:3] for row in rows], np.int64).reshape(len(rows), 3)
    pe, first, size = numbers.T
    return ExecutedChunks(pe, first, size, np.array([row[3] for row in rows], np.float64))
