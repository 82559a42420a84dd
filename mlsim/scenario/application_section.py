"""The section ``application``."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from mlsim.scenario import technique_section, words
from mlsim.scenario.amount_types import Duration, Seconds, Size
from mlsim.scenario.costs_section import OWN_LENGTH, CostsConfig, SelectionConfig, cannot_stop
from mlsim.scenario.field_types import Count, OneOf, Switch, number, whole
from mlsim.scenario.section_base import Parameters, Section, Violation, plugin_name

MOST_ITERATIONS = 1 << 62  # of a loop, and of all its time steps together; as in real runs
LoopLength = Annotated[int, whole(0, MOST_ITERATIONS)]


class IterationsConfig(Section):
    """Length of a loop; exactly one of the two keys."""

    per_pe: LoopLength | None = None
    """Iterations for each PE of the job. Default: 1, unless count is given."""
    count: LoopLength | None = None
    """Iterations of every job's loop, however many PEs it has; 0: an empty loop. Loops of more than
    100,000,000 iterations need a profile that is linear in the index, or memory for the cost of each.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check that exactly one of the two is given."""
        if self.per_pe is not None and self.count is not None:
            yield Violation("count", "given together with per_pe; give one of them", ("per_pe",))
        if self.per_pe is None and self.count is None:
            message = "empty; give per_pe (iterations a PE) or count (iterations a job), e.g. {per_pe: 1}"
            yield Violation("", message, ("per_pe", "count"))


ModelName = Annotated[str, plugin_name(words.ExecutionModel, "mlsim.models")]


class ExecutionParameters(Parameters):
    """Answers of masters, and times of PEs before their requests."""

    answers: OneOf[words.MasterAnswers] = words.MasterAnswers.BETWEEN_ITERATIONS
    """When a non-dedicated master answers requests: between-iterations (at its breaks, see break_after),
    inside (a request interrupts the iteration that it executes), or thread (a thread of its process answers
    while it executes, see thread_share). For cca and hmw.
    """
    thread_share: Annotated[float, number(0, 1, high_belongs=False)] = 0.0
    """Share of a master's speed that its answering thread takes from the iterations; 0: the thread has a core
    of its own. For answers: thread.
    """
    request_cost: Seconds = 0.0
    """Time that a PE spends on making a request before it is sent (s), on a PE of the reference speed: slower
    PEs request later. Masters need none for themselves. Default: nothing is charged that was not asked for.
    Not for steal.
    """
    start_up: Seconds = 0.0
    """Time from the job's start to a PE's first request (s), on a PE of the reference speed; a mean if
    start_up_std is given. A master serves from its own start on. Default: as above.
    """
    measured: OneOf[words.MeasuredCosts] = words.MeasuredCosts.NONE
    """Costs of scheduling that are not given: none, or those that mlsim mpi calibrate measured with mlsim's
    MPI library, mpich-epyc (MPICH 5.0.2, two ranks on one AMD EPYC). Latencies remain those of the platform.
    """
    start_up_std: Seconds = 0.0
    """Standard deviation of start_up over PEs (s): gamma-distributed, by seed and job. Default: all take the
    same time.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check that a deviation has its mean."""
        if self.start_up_std > 0.0 and self.start_up == 0.0:
            message = "given without start_up, the mean; give both, e.g. start_up: 2 s"
            yield Violation("start_up_std", message, ("start_up",))


class ExecutionConfig(Section):
    """The execution model, and the costs of scheduling."""

    other_names: ClassVar[Mapping[str, str]] = {
        name: f"parameters.{name}" for name in ExecutionParameters.model_fields
    }

    model: ModelName = words.ExecutionModel.DCA
    """Execution model; `mlsim list models` explains each. One level: cca (a master), dca (distributed;
    Eleliemy 2021, ch. 4). Two levels, nodes and PEs: hmw (masters), hdca (distributed; Eleliemy 2021, ch. 5),
    mpi+openmp. A queue for every PE: steal. Or one of your own, see docs/reference/loops.md.
    """
    master: OneOf[words.MasterRole] = words.MasterRole.NON_DEDICATED
    """Whether masters only serve (dedicated) or execute chunks themselves as well, as in LB4MPI
    (non-dedicated; Eleliemy 2021, §4.1). Without workers, a master executes all. For cca, hmw.
    """
    chunk_calculation: Seconds = 0.0
    """Time to compute one chunk size (s), on a PE of the reference speed. Default: nothing is charged that
    was not asked for.
    """
    chunk_assignment: Seconds = 0.0
    """Time to assign a chunk at a master or in a queue (s). Default: as above."""
    atomic_service: Seconds = 0.0
    """Time that one atomic operation, or one access under a lock, holds the queue (s). Default: as above. For
    dca, hdca, mpi+openmp and steal.
    """
    injected_delay: Seconds = 0.0
    """Time added to every chunk calculation (s); Eleliemy 2021, §7.1.1 uses 0, 10, 100 us."""
    message_size: Size = 16.0
    """Size of a request, a reply or an atomic operation (B). Default: two numbers of 8 B."""
    break_after: Count = 1
    """Iterations a master executes before it looks for requests again. Default: the smallest. For cca and
    hmw.
    """
    break_time: Seconds = 0.0
    """Time that each of these breaks takes a master (s), but for what it serves then and for the one at a
    chunk's end; with answers: inside, time of an interruption. Default: nothing is charged that was not asked
    for. For cca and hmw.
    """
    break_every: Seconds = 0.0
    """How long the parts between these breaks take (s) where masters choose their lengths themselves, by the
    time of the last part, as in real runs; `break_after` then does not matter. 0: they do not. For cca and
    hmw.
    """
    piece_time: Seconds = 0.0
    """Time that executing a part of a chunk takes besides its iterations (s), on a PE of the reference speed:
    what a call of the loop's body costs. A chunk is one part, or as many as a technique times (`pieces`);
    masters of cca and hmw have a break, and a part, after `break_after` iterations or fewer. Default: nothing
    is charged that was not asked for, and what a technique times leads to no breaks.
    """
    service_order: OneOf[words.ServiceOrder] = words.ServiceOrder.FIFO
    """Which waiting request is served first: fifo, or lowest-rank (the PE with the lowest number; what
    Eleliemy 2021, §4.4, saw). For cca and hmw.
    """
    request_ahead: Annotated[int, whole(0, 1_000_000_000)] = 0
    """Iterations before the end of its chunk at which a worker asks for the next one, at the chunk's start if
    it has no more; 0: when the chunk has ended. For cca, and techniques that do not follow chunks by the
    clock.
    """
    lock: OneOf[words.LockOrder] = words.LockOrder.FIFO
    """How queues go over to the next PE: fifo (in order of arrival) or polling (who finds it taken tries
    again, as Eleliemy 2021, §4.4, saw). For dca, hdca and mpi+openmp.
    """
    lock_retry: Duration = 1e-6
    """Time between two attempts of one PE to get a lock (s), messages included. Default: our assumption, two
    messages of 500 ns. For lock: polling.
    """
    global_p: OneOf[words.GlobalP] = words.GlobalP.NODES
    """What techniques between nodes take for P: the number of nodes (default; ours) or that of all PEs, which
    fits more of the ratios of Eleliemy 2021, ch. 5. For hmw, hdca and mpi+openmp; pes not with STATIC between
    nodes, which has a chunk for each node, nor with techniques that learn within a loop.
    """
    nowait: Switch = False
    """Whether threads go on without a barrier after each chunk. For mpi+openmp."""
    parameters: ExecutionParameters = Field(default_factory=ExecutionParameters)
    """Answers of masters, and times of PEs before their requests."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that no request takes time from a chunk's execution."""
        asks_ahead = self.request_ahead > 0 and self.model is words.ExecutionModel.CCA
        if asks_ahead and self.parameters.request_cost > 0.0:
            message = (
                "not with request_ahead: a PE that requests while it executes would have to stop, which is "
                "not simulated; write 0, or request_ahead: 0"
            )
            yield Violation("parameters.request_cost", message, ("request_ahead", "model"))


def _default_iterations(data: dict[str, Any]) -> IterationsConfig | None:
    costs: CostsConfig = data["costs"]
    return None if costs.profile in OWN_LENGTH else IterationsConfig(per_pe=1)


_STOPS = ("execution.model", "execution.lock", "execution.request_ahead", "parameters.compat")
"""Keys that determine whether a loop can stop for a choice amid it."""
_OF_LEVELS = (
    "execution.model",
    "execution.nowait",
    "execution.global_p",
    "execution.request_ahead",
    "parameters.compat",
)
"""Keys that determine whether a model can run a technique."""


class ApplicationConfig(Section):
    """The application of a job."""

    old_keys: ClassVar[Mapping[str, str]] = {
        f"execution.{name}": f"parameters.{name}" for name in ("first_chunk", "pieces")
    }
    other_names: ClassVar[Mapping[str, str]] = {"steps": "time_steps"}

    model: OneOf[words.ApplicationModel] = words.ApplicationModel.RIGID
    """rigid: every job runs for its run time; loop: every job is a self-scheduled loop. All other keys of
    this section are for loop.
    """
    costs: CostsConfig = Field(default_factory=CostsConfig)
    """What the iterations cost."""
    iterations: IterationsConfig | None = Field(default_factory=_default_iterations)
    """How many iterations. Default: one a PE. With costs.profile: file the length of the file, with
    mandelbrot its pixels.
    """
    technique: technique_section.TechniqueName = Field(words.Technique("STATIC"), examples=["GSS"])
    """Rule for chunk sizes; `mlsim list techniques` explains each. A Python function in a file is one as
    well: function(n, p, remaining, step, pe) gives the size; and a class, which may learn. X+Y under models
    of two levels: X between nodes, Y inside. auto: one for each time step, see selection.
    """
    selection: SelectionConfig | None = None
    """How technique: auto chooses. Default: as an empty section."""
    parameters: technique_section.ParametersConfig = Field(default_factory=technique_section.ParametersConfig)
    """Parameters of techniques."""
    min_chunk: Count = 1
    """Smallest chunk (iterations), but for the last."""
    time_steps: Annotated[int, whole(1, 1_000_000)] = 1
    """How often the loop is executed; its PEs meet at a barrier before each time. The run time of a job is
    that of all together. AWF learns its weights from one to the next.
    """
    execution: ExecutionConfig = Field(default_factory=ExecutionConfig)
    """The execution model, and the costs of scheduling."""
    pes_per_node: Count | None = None
    """PEs on each node. Default: one for every core the job holds there."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check that a rigid job has no loop, what techniques need, and the loop's length."""
        if self.model is words.ApplicationModel.RIGID:
            yield from self._loop_keys_of_rigid()
            return
        yield from self._wrong_techniques()
        profile, chosen = self.costs.profile, self.iterations
        if profile is words.CostProfile.FILE and chosen is not None:
            message = "not with costs.profile: file; the length of the file decides; take it out"
            yield Violation("iterations", message, ("costs.profile",))
        elif profile is words.CostProfile.MANDELBROT and chosen is not None:
            yield from self._wrong_pixels(chosen)
        elif profile not in OWN_LENGTH and chosen is None:
            message = "empty; give per_pe (iterations a PE) or count (iterations a job), e.g. {per_pe: 1}"
            yield Violation("iterations", message, ("costs.profile",))

    @property
    def techniques(self) -> tuple[str, ...]:
        """The technique, or those that auto chooses from."""
        return (
            (self.selects or SelectionConfig()).portfolio
            if self.technique == technique_section.AUTO
            else (self.technique,)
        )

    @property
    def selects(self) -> SelectionConfig | None:
        """Selection of techniques; None where there is one for all time steps."""
        return (self.selection or SelectionConfig()) if self.technique == technique_section.AUTO else None

    def recorded(self) -> "ApplicationConfig":
        """Return the application that recorded run times are assumed to have been measured with."""
        to = self.costs.calibrate_to
        execution = self.execution.model_copy(update={"model": to.model})
        least = to.min_chunk or self.min_chunk
        changes = {"technique": to.technique, "selection": None, "min_chunk": least, "execution": execution}
        return self.model_copy(update=changes)

    def _wrong_techniques(self) -> Iterator[Violation]:
        """Check what techniques need, and that the model can run them; also of the recorded loop."""
        execution, to = self.execution, self.costs.calibrate_to
        if self.selects is not None and self.selects.chooses_within:
            for message in cannot_stop(
                execution.model, execution.lock, self.parameters.compat, execution.request_ahead
            ):
                yield Violation("selection.parameters.every", message, _STOPS)
        key = "selection.portfolio" if self.technique == technique_section.AUTO else "technique"
        used = [(key, technique, execution.model) for technique in self.techniques]
        if self.costs.calibrate is words.Calibration.RECORDED:
            used.append(("costs.calibrate_to.technique", to.technique, to.model))
        for key, technique, model in used:
            yield from technique_section.broken_parameters(technique, self.parameters, key)
            for message in technique_section.wrong_levels(
                technique,
                model,
                execution.nowait,
                global_p=execution.global_p,
                compat=self.parameters.compat,
                request_ahead=execution.request_ahead,
            ):
                yield Violation(key, message, _OF_LEVELS)

    def _wrong_pixels(self, chosen: IterationsConfig) -> Iterator[Violation]:
        """Check that the iterations can be the pixels of a square image."""
        count, size = chosen.count, self.costs.parameters.size
        involved = ("costs.profile", "costs.parameters.size", "iterations")
        if count is None:
            message = (
                "not with costs.profile: mandelbrot; give costs.parameters.size, or count, the number of "
                "pixels"
            )
            yield Violation("iterations.per_pe", message, involved)
        elif size is not None and count != size**2:
            message = f"{count} is not costs.parameters.size², {size}² = {size**2}; give one of the two"
            yield Violation("iterations.count", message, involved)
        elif math.isqrt(count) ** 2 != count:
            root = math.isqrt(count)
            message = (
                f"{count} is no square number, so there is no mandelbrot image of so many pixels; near are "
                f"{root**2} = {root}² and {(root + 1) ** 2} = {root + 1}²"
            )
            yield Violation("iterations.count", message, involved)

    def _loop_keys_of_rigid(self) -> Iterator[Violation]:
        given = self.model_fields_set
        keys = [key for key in ApplicationConfig.model_fields if key != "model" and key in given]
        if len(keys) == 1:
            message = "only a loop has this, and model is rigid; write model: loop, or take it out"
            yield Violation(keys[0], message, ("model",))
        elif keys:
            found = "rigid" if "model" in given else "missing, and so rigid"
            message = f"{found}; only a loop has {', '.join(keys)}; write model: loop, or take them out"
            yield Violation("model", message, tuple(keys))
