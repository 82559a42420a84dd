"""The section ``workload.generate``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from mlsim.scenario.amount_types import Duration
from mlsim.scenario.field_types import ChoiceType, FieldType, Natural, Number, OneOf, Whole
from mlsim.scenario.list_types import Pairs, as_mapping
from mlsim.scenario.plugin_names import PluginKind
from mlsim.scenario.section_base import Section, Violation
from mlsim.scenario.unit_types import shown
from mlsim.scenario.words import EstimateModel, JobKinds, WorkloadModel

WorkloadModelName = Annotated[str, PluginKind(WorkloadModel, "mlsim.workloads")]
_FACTOR = Number(0, low_belongs=False)
_ANY = Number(-1e300, 1e300)


class ModelParameters(Pairs[str, float]):
    """Numbers by name; a mapping that can be hashed."""


@dataclass(frozen=True)
class ModelParametersKind(FieldType[ModelParameters]):
    """Parameters of a model of mlsim's own."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "names with numbers, e.g. {batch.aarr: 7}"

    def parse(self, value: object) -> ModelParameters:
        """Read a mapping; a mapping inside stands for names with a point in them."""
        pairs: dict[str, float] = {}
        for name, number in as_mapping(value, self.allowed).items():
            inner = number.items() if isinstance(number, dict) else [(None, number)]
            for part, each in inner:
                key = str(name) if part is None else f"{name}.{part}"
                try:
                    pairs[key] = _ANY.parse(each)
                except ValueError:
                    raise ValueError(f"{key}: {shown(each)}; allowed: {self.allowed}") from None
        return ModelParameters(tuple(pairs.items()))

    def show(self, value: ModelParameters) -> object:
        """Return the mapping."""
        return dict(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        number = {"type": "number"}
        inner = {"type": "object", "additionalProperties": number}
        return {"type": "object", "additionalProperties": {"anyOf": [number, inner]}}


@dataclass(frozen=True)
class WalltimesKind(FieldType["EstimateModel | tuple[float, float]"]):
    """A model of walltimes, or the factor by which they exceed run times."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return f"{ChoiceType(EstimateModel).allowed}; a factor, more than 0; [low, high], two of them"

    def parse(self, value: object) -> EstimateModel | tuple[float, float]:
        """Read a word, a factor or two."""
        if isinstance(value, str):
            try:
                return EstimateModel(value)
            except ValueError:
                raise ValueError(f"{shown(value)} is not known; allowed: {self.allowed}") from None
        ends = list(value) if isinstance(value, list | tuple) else [value, value]
        if len(ends) != 2:
            raise ValueError(f"{shown(value)} is no pair; allowed: {self.allowed}")
        try:
            low, high = (_FACTOR.parse(end) for end in ends)
        except ValueError:
            raise ValueError(f"{shown(value)} is no factor; allowed: {self.allowed}") from None
        if low > high:
            raise ValueError(f"{shown(value)}: the first is above the second; allowed: {self.allowed}")
        return low, high

    def show(self, value: EstimateModel | tuple[float, float]) -> object:
        """Return a word, a factor or two."""
        if isinstance(value, EstimateModel):
            return value.value
        return value[0] if value[0] == value[1] else list(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        factor = _FACTOR.json()
        pair = {"type": "array", "items": factor, "minItems": 2, "maxItems": 2}
        return {"anyOf": [{"enum": [word.value for word in EstimateModel]}, factor, pair]}


class GenerateConfig(Section):
    """What draws the jobs, and how many; see docs/reference/workloads.md."""

    model: WorkloadModelName = Field(examples=["lublin"])
    """The model: lublin (Lublin and Feitelson 2003), poisson or weibull (arrivals of that kind, plain sizes
    and run times, for tests), a class or function in a file, or an installed one.
    """
    jobs: Annotated[int, Whole(1, 1_000_000_000)] | None = Field(None, examples=[10_000])
    """How many jobs. This, duration or both must be given; with both, whichever ends first."""
    duration: Duration | None = Field(None, examples=["365 d"])
    """Time in which jobs are submitted (s)."""
    seed: Natural | None = None
    """Seed of the jobs. Default: that of the scenario."""
    processors: Annotated[int, Whole(1, 1 << 30)] | None = None
    """Processors of the machine that the jobs are meant for, in the sense of workload.mapping; sizes and load
    follow. Default: those of the platform. More than these need cleaning.oversize: clamp or drop.
    """
    load: Annotated[float, Number(0, low_belongs=False)] | None = Field(None, examples=[0.8])
    """Offered load: run time x processors of all jobs, over the machine's processors x the time until the
    last submission (with duration: x that). Reached by one factor on all times between arrivals. Default: the
    model's own.
    """
    kinds: OneOf[JobKinds] = JobKinds.BOTH
    """Which jobs of model lublin: both, batch, interactive, or typeless (parameters of all jobs together)."""
    parameters: Annotated[ModelParameters, ModelParametersKind()] | None = Field(
        None, examples=[{"batch.aarr": 7}]
    )
    """Other values of parameters of a model of mlsim's own, by name, e.g. {batch.aarr: 7} of lublin. Default:
    as published. Models of your own have theirs beside their name, {class: ..., parameters: {...}}.
    """
    estimates: Annotated[EstimateModel | tuple[float, float], WalltimesKind()] | None = Field(
        None, examples=["tsafrir"]
    )
    """Walltimes of the jobs: perfect (run times), tsafrir (20 popular values, Tsafrir, Etsion and Feitelson
    2005), a factor of the run time, or [low, high], between which one is drawn for each job. Default: what a
    model of your own says, else perfect.
    """
    max_estimate: Duration | None = Field(None, examples=["36 h"])
    """Largest walltime (s) that the system lets users ask for, with estimates: tsafrir. Default: the longest
    run time, rounded up to whole hours.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check that there is an end, and that nothing is said that nobody reads."""
        if self.jobs is None and self.duration is None:
            yield Violation("jobs", "missing; give jobs, duration, or both", ("duration",))
        if self.model != WorkloadModel.LUBLIN and self.kinds is not JobKinds.BOTH:
            message = f"read by model lublin only, and the model is {self.model}; take it out"
            yield Violation("kinds", message, ("model",))
        if self.parameters and not isinstance(self.model, WorkloadModel):
            message = f"write {{class: {self.model}, parameters: {{...}}}} at model, in place of this"
            yield Violation("parameters", message, ("model",))
        if self.max_estimate is not None and self.estimates is not EstimateModel.TSAFRIR:
            message = "needs estimates: tsafrir; write that, or take it out"
            yield Violation("max_estimate", message, ("estimates",))
