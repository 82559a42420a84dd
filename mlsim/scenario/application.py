"""The ``application`` section: what a job executes, and how its loop is scheduled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from mlsim.scenario.amounts import PositiveWork, Seconds, Size, Work
from mlsim.scenario.kinds import Count, Line, Number, Whole, WordKind
from mlsim.scenario.section import BrokenRule, Section
from mlsim.scenario.words import (
    ApplicationModel,
    Calibration,
    CostProfile,
    ExecutionModel,
    ServiceOrder,
    Technique,
)

__all__ = ["ApplicationConfig", "CostsConfig", "ExecutionConfig", "IterationsConfig"]


LoopLength = Annotated[int, Whole(1, 1_000_000_000)]


class IterationsConfig(Section):
    """How long a loop is; exactly one of the two keys."""

    per_pe: LoopLength | None = Field(
        None, description="Iterations for each PE of the job. Default: 1, unless count is given."
    )
    count: LoopLength | None = Field(
        None, description="Iterations of every job's loop, however many PEs it has."
    )

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Check that exactly one of the two is given."""
        if self.per_pe is not None and self.count is not None:
            yield BrokenRule("count", "given together with per_pe; give one of them", ("per_pe",))
        if self.per_pe is None and self.count is None:
            message = "empty; give per_pe (iterations a PE) or count (iterations a job), e.g. {per_pe: 1}"
            yield BrokenRule("", message, ("per_pe", "count"))


class CostsConfig(Section):
    """What the iterations cost."""

    profile: Annotated[CostProfile, WordKind(CostProfile)] = Field(
        CostProfile.JOB,
        description="Distribution of iteration costs: job (normal around the job's run time divided by its "
        "iterations a PE; Eleliemy 2021, §3.4), constant, normal, exponential, or from a file. Never "
        "negative.",
    )
    variation: Annotated[float, Number(0, 1, high_belongs=False)] = Field(
        0.0, description="Standard deviation / mean of the profile job (Eleliemy 2021, §3.4). For job only."
    )
    mean: PositiveWork | None = Field(
        None,
        description="Mean cost of an iteration (s at the reference speed, or FLOP). For constant, normal and "
        "exponential, which need it.",
        examples=["2 ms"],
    )
    std: Work | None = Field(
        None,
        description="Standard deviation of the cost, in the unit of mean. For normal, which needs it.",
        examples=["0.5 ms"],
    )
    path: Line | None = Field(
        None,
        description="File of costs (s at the reference speed), one an iteration: .npy or .csv. For file, "
        "which needs it. Looked up like workload.path.",
        examples=["costs.npy"],
    )
    calibrate: Annotated[Calibration, WordKind(Calibration)] = Field(
        Calibration.NONE,
        description="run-time scales the costs so that a perfectly balanced loop on the job's PEs takes the "
        "run time of the log; none keeps them. Not for job, which is made from the run time.",
    )

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Check that the profile has the keys it needs, and no others."""
        needed, possible = PROFILE_KEYS[self.profile]
        given = {key for key in self.model_fields_set if getattr(self, key) is not None} - {"profile"}
        for key in needed:
            if key not in given:
                yield BrokenRule(key, f"missing; profile: {self.profile} needs it", ("profile",))
        for key in CostsConfig.model_fields:
            if key in given and key not in possible:
                owners = ", ".join(name for name, (_, keys) in PROFILE_KEYS.items() if key in keys)
                allowed = ", ".join(possible)
                message = (
                    f"not for profile: {self.profile}, which takes {allowed}; profiles with {key}: {owners}"
                )
                yield BrokenRule(key, message, ("profile",))
        if self.mean is not None and self.std is not None and self.mean.unit != self.std.unit:
            message = f"is in {self.std.unit} but mean is in {self.mean.unit}; allowed: one unit for both"
            yield BrokenRule("std", message, ("mean", "profile"))


PROFILE_KEYS: dict[CostProfile, tuple[tuple[str, ...], tuple[str, ...]]] = {
    CostProfile.JOB: ((), ("variation",)),
    CostProfile.CONSTANT: (("mean",), ("mean", "calibrate")),
    CostProfile.NORMAL: (("mean", "std"), ("mean", "std", "calibrate")),
    CostProfile.EXPONENTIAL: (("mean",), ("mean", "calibrate")),
    CostProfile.FILE: (("path",), ("path", "calibrate")),
}


class ExecutionConfig(Section):
    """Who computes the chunks, and what that costs."""

    model: Annotated[ExecutionModel, WordKind(ExecutionModel)] = Field(
        ExecutionModel.DCA,
        description="Execution model: cca (PE 0 computes and assigns every chunk and executes chunks itself) "
        "or dca (every PE computes its own chunk; Eleliemy 2021, ch. 4).",
    )
    chunk_calculation: Seconds = Field(
        0.0, description="Time to compute one chunk size (s), on a PE of the reference speed."
    )
    chunk_assignment: Seconds = Field(0.0, description="Time to assign a chunk at the coordinator (s).")
    atomic_service: Seconds = Field(
        0.0, description="Time the coordinator's memory is held by one atomic operation (s). For dca."
    )
    injected_delay: Seconds = Field(
        0.0,
        description="Time added to every chunk calculation (s); Eleliemy 2021, §7.1.1 uses 0, 10, 100 us.",
    )
    message_size: Size = Field(16.0, description="Size of a request, a reply or an atomic operation (B).")
    break_after: Count = Field(
        1, description="Iterations the coordinator executes before it looks for requests again. For cca."
    )
    service_order: Annotated[ServiceOrder, WordKind(ServiceOrder)] = Field(
        ServiceOrder.FIFO,
        description="Which waiting request is served first: fifo, or lowest-rank (the PE with the lowest "
        "number). For cca.",
    )
    first_chunk: Annotated[float, Number(0, 1, low_belongs=False)] = Field(
        0.1, description="First chunk of each PE, as a share of iterations / PEs. For technique AF."
    )


def _default_iterations(data: dict[str, Any]) -> IterationsConfig | None:
    costs: CostsConfig = data["costs"]
    return None if costs.profile is CostProfile.FILE else IterationsConfig(per_pe=1)


class ApplicationConfig(Section):
    """What a job executes."""

    model: Annotated[ApplicationModel, WordKind(ApplicationModel)] = Field(
        ApplicationModel.RIGID,
        description="rigid: every job runs for its run time; loop: every job is a self-scheduled loop. "
        "All other keys of this section are for loop.",
    )
    costs: CostsConfig = Field(default_factory=CostsConfig, description="What the iterations cost.")
    iterations: IterationsConfig | None = Field(
        default_factory=_default_iterations,
        description="How many iterations. Default: one a PE. With costs.profile: file the "
        "length of the file.",
    )
    technique: Annotated[Technique, WordKind(Technique)] = Field(
        Technique.STATIC, description="Rule for chunk sizes; `mlsim list techniques` explains each."
    )
    min_chunk: Count = Field(1, description="Smallest chunk (iterations), but for the last.")
    execution: ExecutionConfig = Field(
        default_factory=ExecutionConfig, description="Who computes the chunks, and what that costs."
    )
    pes_per_node: Count | None = Field(
        None, description="PEs on each node. Default: one for every core the job holds there."
    )

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Check that a rigid job has no loop, and that a file of costs alone says how long the loop is."""
        if self.model is ApplicationModel.RIGID:
            yield from self._loop_keys_of_rigid()
            return
        from_file = self.costs.profile is CostProfile.FILE
        if from_file and self.iterations is not None:
            message = "not with costs.profile: file; the length of the file decides; take it out"
            yield BrokenRule("iterations", message, ("costs.profile",))
        if not from_file and self.iterations is None:
            message = "empty; give per_pe (iterations a PE) or count (iterations a job), e.g. {per_pe: 1}"
            yield BrokenRule("iterations", message, ("costs.profile",))

    def _loop_keys_of_rigid(self) -> Iterator[BrokenRule]:
        for key in ApplicationConfig.model_fields:
            if key != "model" and key in self.model_fields_set:
                message = "only a loop has this, and model is rigid; write model: loop, or take it out"
                yield BrokenRule(key, message, ("model",))
