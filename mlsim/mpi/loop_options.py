"""Options of a scheduler: checked, looked up, and as the keys of a scenario give them."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from mlsim.application.selection.measured_costs import has_masters
from mlsim.application.techniques import Choice, canonical, choose
from mlsim.errors import InputError
from mlsim.scenario import Scenario, section_base, technique_section, words
from mlsim.scenario.costs_section import SelectionParameters
from mlsim.scenario.field_types import nearest
from mlsim.scenario.scenario_paths import located_technique
from mlsim.scenario.section_base import Section
from mlsim.scenario.technique_section import ParametersConfig, split_technique
from mlsim.scenario.words import ExecutionModel, WeightSource

WARN_AFTER = 10.0
BREAK_EVERY = 75e-6
"""Approximate time that a master computes between two polls for requests, in s.

A poll costs some microseconds, so masters lose a tenth of their time at most. A request waits for half of
this time on average.
"""
MODELS = {
    "cca": ExecutionModel.CCA,
    "dca": ExecutionModel.DCA,
    "hdca": ExecutionModel.HDCA,
    "hmw": ExecutionModel.HMW,
    "hierarchical-master-worker": ExecutionModel.HMW,
}
EXECUTION_KEYS = ("model", "injected_delay", "master", "service_order", "request_ahead", "global_p", "lock")
"""Options that are keys of ``application.execution``, with the same words."""
_MOST_ITERATIONS = 1 << 62
_LEAST = {"n": 0, "min_chunk": 1, "pieces": 0, "request_ahead": 0, "break_after": 1, "ranks_per_node": 1}
_WORDS: dict[str, type[words.Choice]] = {
    "master": words.MasterRole,
    "service_order": words.ServiceOrder,
    "global_p": words.GlobalP,
    "lock": words.LockOrder,
    "growth": words.Growth,
    "awf_chunk": words.WeighedSize,
    "compat": words.Compat,
}
_OPTION_OF = {key: key for key in ParametersConfig.model_fields if key != "statistics"} | {"overhead": "h"}
"""Option of each parameter of techniques."""


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Options of a :class:`LoopScheduler`; the simulator's words, units and defaults."""

    n: int  # iterations, 0 to 2^62
    technique: str = "GSS"
    """Name of the catalogue, ``./file.py:function``, or ``X+Y`` under a model of two levels."""
    model: str = "dca"  # cca, dca, hdca, or hmw (hierarchical-master-worker)
    technique_parameters: Mapping[str, Any] | None = None  # of a user-defined function or class, by name
    min_chunk: int = 1  # least chunk, but for the last one
    weights: Sequence[float] | None = None
    """One number per rank, of any sum, for WF and AWF and its variants; None: all equal."""
    mu: float | None = None  # mean iteration time in s, for techniques that `mlsim list techniques` shows
    sigma: float | None = None  # likewise, standard deviation of the iteration times in s
    h: float | None = None  # likewise, overhead of one chunk in s
    alpha: float = 1.3  # of TAP
    swr: float = 0.5  # of PLS
    batches: int | None = None  # of FISS and VISS
    growth: str = "converging"  # of VISS
    awf_chunk: str = "rest"  # of AWF-C and AWF-E
    first_chunk: float = 0.1  # of AF
    random_from: float = 0.0  # lower bound of RND's chunks, as a share of N/P
    random_to: float = 1.0  # upper bound
    compat: str = "none"  # lb4mpi: chunks as the library LB4MPI assigns them; for cca and dca
    seed: int = 0  # for RND
    master: str = "non-dedicated"  # or dedicated; for cca and hmw
    break_after: int | None = None
    """Iterations that a master executes between two polls for requests; for cca and hmw, where None means as
    many as take about 75 µs, as it has measured them. Under dca and hdca, None leaves chunks uncut; a number
    cuts the coordinator's chunks, so that MPI can make progress for it where the network does not (see
    docs/how-to/cluster.md).
    """
    service_order: str = "fifo"  # or lowest-rank; for cca and hmw
    request_ahead: int = 0
    """Iterations before the end of its chunk at which a worker asks for the next one; 0: when it has ended;
    for cca, and techniques that do not follow chunks by the clock.
    """
    global_p: str = "nodes"  # P of the technique between nodes: nodes or pes; for hdca and hmw
    lock: str = "fifo"
    """fifo or polling: order in which locks are acquired, where a technique or a model needs them."""
    injected_delay: float = 0.0  # seconds added to every chunk calculation
    pieces: int = 16
    """Number of pieces in which the body executes a chunk of AF, which times each; 0: one per iteration."""
    ranks_per_node: int | None = None
    """Splits nodes into parts of this many ranks, for models of two levels on few machines; None: whole
    nodes.
    """
    wait: Literal["auto", "spin", "sleep"] = "auto"  # auto: sleep where a node has more ranks than cores
    warn_after: float = WARN_AFTER
    """Seconds after which a waiting rank reports a rank that has not arrived or was stopped; 0: never."""

    def checked(self) -> Self:
        """Return the options with every keyword in its usual spelling; InputError for a wrong one."""
        for name, low in _LEAST.items():
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            absent = value is None and name in _MAY_LACK
            if not absent and not (whole and low <= value <= _MOST_ITERATIONS):
                raise InputError(f"{name}: {value!r}; allowed: whole numbers from {low} to 2^62")
        for name in ("injected_delay", "warn_after"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name}: {getattr(self, name)!r}; allowed: 0 s or more, finite")
        if not 0.0 < self.first_chunk <= 1.0:
            raise InputError(f"first_chunk: {self.first_chunk!r}; allowed: more than 0, up to 1")
        if self.wait not in ("auto", "spin", "sleep"):
            raise InputError(f"wait: {self.wait!r}; allowed: auto, spin, sleep")
        model = MODELS.get(self.model.casefold())
        if model is None:
            raise InputError(f"model: {self.model!r} cannot be run on MPI; allowed: {', '.join(MODELS)}")
        if self.request_ahead > 0 and model is not ExecutionModel.CCA:
            raise InputError(
                f"request_ahead: {self.request_ahead} under model {model}; allowed: 0, or model cca"
            )
        levels = split_technique(self.technique.strip())
        if not 1 <= len(levels) <= 2:
            raise InputError(f"technique: {self.technique!r}; allowed: one, or two as X+Y")
        own = self.technique_parameters or section_base.parameters_of(self.technique)
        if own and sum(section_base.user_function(level) is not None for level in levels) != 1:
            raise InputError(
                f"technique_parameters: {self.technique} names no function or class of yours, or two; "
                "parameters are for one, in a file"
            )
        technique = section_base.with_parameters("+".join(map(canonical, levels)), own)
        spelt: dict[str, Any] = {
            name: _word(name, getattr(self, name), kind) for name, kind in _WORDS.items()
        }
        checked = replace(
            self, model=model.value, technique=technique, technique_parameters=own or None, **spelt
        )
        _check_levels(checked)
        return checked

    @property
    def has_master(self) -> bool:
        """Whether ranks ask a master for chunks."""
        return has_masters(self.model)

    @property
    def dedicated(self) -> bool:
        """Whether masters only serve."""
        return self.master == words.MasterRole.DEDICATED

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of techniques, by their keys in a scenario."""
        return {key: getattr(self, option) for key, option in _OPTION_OF.items()}

    def parameters_config(self) -> ParametersConfig:
        """Return the parameters of techniques as a section of a scenario; InputError for a wrong value."""
        weights: str | tuple[float, ...] | None = "equal"
        if self.weights is not None:
            weights = tuple(map(float, self.weights))
        elif self.compat == words.Compat.LB4MPI and self.technique != words.Technique("WF"):
            weights = None  # techniques of LB4MPI that learn take none, and begin as if they were equal
        try:
            return ParametersConfig(**self.parameters | {"weights": weights})
        except ValueError as error:
            raise InputError(f"LoopScheduler: {error}") from error

    def fingerprint(self, more: object = None) -> bytes:
        """Return a hash of eight bytes of all options, and of more, which must be the same on all ranks."""
        text = (repr(self).replace("array(", "") + repr(more)).encode()
        return hashlib.blake2b(text, digest_size=8).digest()


_MAY_LACK = ("break_after", "ranks_per_node")


def checked_options(given: Mapping[str, Any]) -> LoopOptions:
    """Return options by name, checked; InputError for a name or a value that is wrong."""
    known = sorted(LoopOptions.__dataclass_fields__)
    for name in given:
        if name not in known:
            hint = nearest(name, known)
            raise InputError(f"LoopScheduler: {name!r} is no option;{hint} allowed: {', '.join(known)}")
    return LoopOptions(**given).checked()


def _word(name: str, value: str, kind: type[words.Choice]) -> str:
    try:
        return kind(value).value
    except ValueError as error:
        raise InputError(f"{name}: {value!r}; allowed: {', '.join(kind)}") from error


def _check_levels(options: LoopOptions, learners: tuple[str, ...] = ()) -> None:
    more = options.global_p, learners, options.compat, options.request_ahead
    model = MODELS[options.model]
    for message in technique_section.wrong_levels(options.technique, model, False, None, *more):
        raise InputError(f"technique: {message}")


_UNSAMPLED = "sampled needs costs that are known before; a real run needs a number, 0 to 1"


def chosen(options: LoopOptions, p: int) -> tuple[Choice, ...]:
    """Return the technique, or both of ``X+Y``, for ``p`` ranks; raise InputError for wrong options."""
    parameters = options.parameters_config()
    for key, message in technique_section.lacking_parameters(options.technique, parameters):
        unit = "; in seconds" if key in ("sigma", "mu", "overhead") else ""
        message = message.replace(", or statistics: profiled", "")
        raise InputError(f"{_OPTION_OF.get(key, key)}: {message}{unit}")
    if parameters.swr is words.StaticShare.SAMPLED:
        raise InputError(f"swr: {_UNSAMPLED}")
    # Costs are not known beforehand, so there are no prefix sums, of which the loop's length would follow.
    found = choose(options.technique, np.ones(p), np.zeros(1), parameters, 1, options.seed)
    _check_levels(options, tuple(choice.name for choice in found if choice.is_object))
    least = min(options.min_chunk, options.n + 1)
    choices = tuple(choice._replace(min_chunk=least) for choice in found)
    return choices if len(choices) == 2 else choices * 2


def typical_break_after(mean: float) -> int:
    """Return the length of most pieces, in iterations of a mean cost in s."""
    return max(round(BREAK_EVERY / mean), 1) if mean > 0.0 else 1 << 30


_LOOP = (
    "seed",
    "platform.nodes.N.count",
    "platform.nodes.N.cores",
    "platform.nodes.N.speed",
    "platform.nodes.N.node_speed",
    "platform.reference_speed",
    "application.costs",
    "application.iterations",
    "application.parameters",
    "application.min_chunk",
    "application.execution.master",
    "application.execution.break_after",
    "application.execution.service_order",
    "application.execution.request_ahead",
    "application.execution.global_p",
    "application.execution.lock",
    "application.execution.injected_delay",
)
RUN_KEYS = (
    *_LOOP,
    "application.technique",
    *(f"application.selection.{name}" for name in ("method", "portfolio", "goal")),
    *(
        f"application.selection.parameters.{name}"
        for name in SelectionParameters.model_fields
        if name != "chunk_time"
    ),
    "application.execution.model",
    "application.pes_per_node",
)
"""Keys and sections of a scenario that ``mlsim mpi run`` reads."""

VALIDATE_KEYS = _LOOP  # scenario keys that `mlsim mpi validate` reads

_INSTEAD = {
    "application.technique": "give --technique",
    "application.execution.model": "give --model",
    "application.pes_per_node": "give --ranks-per-node",
    "application.time_steps": "a real run executes a loop once; give --repetitions to execute it again",
    "application.selection.parameters.chunk_time": "a real run measures how long it simulates",
    "application.selection": "--technique names what is validated",
    "platform.perturbations": "a real run cannot slow its nodes down",
    "output": "a run directory holds all that there is, if --out is given",
}
_COMPUTED = ("mean", "unit_cost", "calibrate", "scan_cost")


def check_set(keys: Mapping[str, object], read: Iterable[str], command: str, computes: bool = False) -> None:
    """Raise InputError for a key of ``--set`` not among the keys and sections that a command ``read``s."""
    for key in (leaf for name, value in keys.items() for leaf in _leaves(name, value)):
        if computes and key.startswith("application.costs.") and key.split(".")[-1] in _COMPUTED:
            raise InputError(
                f"--set {key}: {command} does not read it: iterations compute, and take what that takes; "
                "give --work sleep for the costs of the scenario"
            )
        if not _is_read(key, read):
            reason = next((text for name, text in _INSTEAD.items() if _within(key, name)), _MEASURED)
            raise InputError(f"--set {key}: {command} does not read it; {reason}")


_MEASURED = "a real run has the costs, the network and the nodes of the machine it runs on"


def _leaves(key: str, value: object) -> Iterator[str]:
    """Yield the keys that a value sets; places in lists become N."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for item in value:
            yield from _leaves(f"{key}.N", item)
    else:
        yield ".".join("N" if part.isdecimal() else part for part in key.split("."))


def _within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")


def _is_read(key: str, read: Iterable[str]) -> bool:
    """Return whether a key is read; the name of a group counts, as the group cannot be written without."""
    return any(_within(key, name) for name in (*read, "platform.nodes.N.name", "application.model"))


def left_aside(scenario: Scenario, read: Iterable[str]) -> list[str]:
    """Name the keys that a file sets and a real run does not read."""
    read = tuple(read)
    sections = ("name", "description", "seed", "platform", "application", "output")
    given = (key for name in sections for key in _given(scenario, name))
    return sorted({key for key in given if not _is_read(key, (*read, "name", "description"))})


def _given(section: Section, name: str, prefix: str = "") -> Iterator[str]:
    """Yield the keys below one of a section that were given."""
    if name not in section.model_fields_set:
        return
    value, key = getattr(section, name), f"{prefix}{name}"
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, Section):
            place = f"{key}.N." if isinstance(value, tuple) else f"{key}."
            for inner in type(item).model_fields:
                yield from _given(item, inner, place)
        else:
            yield key


def check_scenario(scenario: Scenario) -> None:
    """Raise InputError for keys of a scenario that a real run cannot follow, with what to do."""
    application, parameters = scenario.application, scenario.application.parameters

    def refuse(key: str, message: str) -> None:
        raise InputError(f"{scenario.source}: {key}: {message}")

    if parameters.statistics is words.Statistics.PROFILED:
        message = "profiled needs costs that are known before; a real run needs sigma and mu"
        refuse("application.parameters.statistics", message)
    if parameters.swr is words.StaticShare.SAMPLED:
        refuse("application.parameters.swr", _UNSAMPLED)
    if application.time_steps > 1:
        message = f"{application.time_steps}; {_INSTEAD['application.time_steps']}; write 1, or take it out"
        refuse("application.time_steps", message)
    if scenario.platform.perturbations:
        refuse("platform.perturbations", f"{_INSTEAD['platform.perturbations']}; take them out")
    weighs = set(technique_section.READERS["weights"]) & set(split_technique(application.technique))
    speeds = {group.core_speed for group in scenario.platform.nodes}
    if weighs and len(speeds) > 1 and parameters.weights in (None, WeightSource.SPEED):
        message = "a real run does not know how fast its nodes are; give one number a rank, or equal"
        refuse("application.parameters.weights", message)


def scenario_options(scenario: Scenario) -> dict[str, Any]:
    """Return the options of a :class:`LoopScheduler` for a scenario; raises as :func:`check_scenario`."""
    application = scenario.application
    model = application.execution.model
    options = {
        "technique": str(located_technique(scenario)),
        "technique_parameters": section_base.parameters_of(application.technique) or None,
        "model": str(model),
        "injected_delay": application.execution.injected_delay,
        **loop_options(scenario, model),
    }
    if application.selects is not None:
        options["selection"] = application.selects
    sizes = {group.cores for group in scenario.platform.nodes}
    if model in (ExecutionModel.HDCA, ExecutionModel.HMW) and len(sizes) == 1:
        # Many nodes of the scenario may be one machine here.
        options["ranks_per_node"] = application.pes_per_node or sizes.pop()
    return options


def loop_options(scenario: Scenario, model: str) -> dict[str, Any]:
    """Return the options of a scenario's loop under a model, without technique, model, delay and nodes."""
    check_scenario(scenario)
    application, execution = scenario.application, scenario.application.execution
    options = {option: getattr(application.parameters, key) for key, option in _OPTION_OF.items()}
    options |= {"min_chunk": application.min_chunk, "seed": scenario.seed}
    options |= {name: getattr(execution, name) for name in ("master", "service_order", "global_p", "lock")}
    options |= {key: word.value for key, word in options.items() if isinstance(word, words.Choice)}
    if isinstance(application.parameters.weights, WeightSource):
        options["weights"] = None
    if options["pieces"] is None:
        del options["pieces"]
    # Not its default: then masters choose themselves.
    if model in (ExecutionModel.CCA, ExecutionModel.HMW) and "break_after" in execution.model_fields_set:
        options["break_after"] = execution.break_after
    if model == ExecutionModel.CCA:
        options["request_ahead"] = execution.request_ahead
    return options
