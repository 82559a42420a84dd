"""Techniques as a scenario names them, and which fit which execution model."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from mlsim.execution_models import ModelProperties
from mlsim.scenario import field_types, section_base, words
from mlsim.scenario.amount_types import Seconds, list_schema
from mlsim.scenario.field_types import AdviceError, FieldType, OneOf, nearest, shown
from mlsim.techniques import TECHNIQUES
from mlsim.techniques.technique_entry import Rule

AUTO = "auto"
"""In place of a technique: each time step has the one that a method of ``application.selection`` chooses."""


@lru_cache(maxsize=256)
def split_technique(name: str) -> tuple[str, ...]:
    """Split ``X+Y``, techniques between and inside nodes; one alone stays one.

    Parameters of the name go with that level which is a function of the user.

    Examples
    --------
    >>> split_technique("GSS"), split_technique("GSS+./a+b.py:rule")
    (('GSS',), ('GSS', './a+b.py:rule'))
    """
    levels: list[str] = []
    pending: str | None = None  # parts of a name with a + in it, or of none
    for part in name.split("+"):
        pending = part if pending is None else f"{pending}+{part}"
        own = section_base.user_function(pending) is not None
        if own or _is_known(pending):
            levels.append(
                section_base.with_parameters(pending, section_base.parameters_of(name)) if own else pending
            )
            pending = None
    return tuple(levels) if pending is None else (*levels, pending)


def _is_known(name: str) -> bool:
    try:
        words.Technique(name)
    except ValueError:
        return False
    return True


def technique_name(*, selects: bool = True) -> section_base.CodeType:
    """Return the type of techniques, or two with a +, of the catalogue or in files; ``selects``: or auto."""

    def read(value: object) -> str:
        given, parameters = section_base.split_code(value, "function")
        if not isinstance(given, str):
            raise ValueError(f"{shown(given)} is no technique")
        if selects and given.strip().casefold() == AUTO and not parameters:
            return AUTO
        levels = split_technique(given.strip())
        if len(levels) > 2:
            message = f"{shown(given)} names {len(levels)} techniques"
            raise AdviceError(f"{message}; allowed: one, or two as X+Y")
        names = tuple(map(one, levels))
        name = names[0] if len(names) == 1 else "+".join(map(str, names))
        if not parameters:
            return name
        own = sum(section_base.user_function(level) is not None for level in levels)
        if own != 1:
            found = "two functions" if own else "no function"
            message = f"{shown(given)} names {found} of your own"
            raise AdviceError(f"{message}; parameters are for one, in a file")
        return section_base.with_parameters(name, parameters)

    def one(name: str) -> str:
        if section_base.user_function(name):
            return name
        try:
            return words.Technique(name)
        except ValueError as error:
            meant = nearest(name, [*words.Technique, *words.Technique.aliases()])
            raise AdviceError(f"{shown(name)} is not known;{meant} allowed: {allowed}") from error

    allowed = (
        f"{field_types.word_of(words.Technique).allowed}; ./file.py:function; X+Y between and inside nodes; "
        f"{{function: ./file.py:function, parameters: {{...}}}}{f'; {AUTO}' if selects else ''}"
    )
    kind = section_base.code_type(words.Technique, allowed, read, r"\+|\.py:", "function")
    if selects:
        kind.schema["anyOf"].insert(-1, {"const": AUTO})
    return kind


TechniqueName = Annotated[str, technique_name()]
_SOURCES = field_types.word_of(words.WeightSource)


def _read_weights(value: object) -> words.WeightSource | tuple[float, ...]:
    if isinstance(value, list | tuple) and value:
        return tuple(map(field_types.POSITIVE.read, value))
    try:
        return _SOURCES.read(value)
    except ValueError as error:
        raise ValueError(str(error).split(";")[0]) from error


Weights = Annotated[
    words.WeightSource | tuple[float, ...],
    FieldType(
        f"{', '.join(words.WeightSource)}, or a list of numbers, each more than 0",
        _read_weights,
        {"anyOf": [*_SOURCES.json()["anyOf"], list_schema(field_types.POSITIVE.json())]},
        lambda value: value.value if isinstance(value, words.WeightSource) else list(value),
    ),
]


_SHARE, _SAMPLED = field_types.number(0, 1), field_types.word_of(words.StaticShare)


def _read_ratio(value: object) -> words.StaticShare | float:
    try:
        return _SAMPLED.read(value) if isinstance(value, str) and value.isalpha() else _SHARE.read(value)
    except ValueError as error:
        raise ValueError(str(error).split(";")[0]) from error


StaticRatio = Annotated[
    words.StaticShare | float,
    FieldType(
        f"{_SHARE.allowed}, or sampled",
        _read_ratio,
        {"anyOf": [_SHARE.json(), *_SAMPLED.json()["anyOf"]]},
        lambda value: value.value if isinstance(value, words.StaticShare) else value,
    ),
]


def _readers(key: str) -> str:
    """Name the techniques that read a parameter."""
    *names, last = (
        name for name, entry in TECHNIQUES.items() if f"application.parameters.{key}" in entry.options
    )
    return f"{', '.join(names)} and {last}" if names else last


class ParametersConfig(section_base.Parameters):
    """Parameters of techniques; each reads only its own keys, see ``mlsim list techniques``."""

    statistics: OneOf[words.Statistics] = Field(
        words.Statistics.GIVEN,
        description=f"Where {_readers('statistics')} know the iteration times from: given (keys sigma and "
        "mu) or profiled (mean and standard deviation of each loop's own costs, as if it had been measured "
        "before).",
    )
    sigma: Seconds | None = Field(
        None,
        examples=["1 ms"],
        description="Standard deviation of the iteration times (s at the reference speed). For "
        f"{_readers('sigma')}, which need it unless statistics: profiled; FSC more than 0.",
    )
    mu: Seconds | None = Field(
        None,
        examples=["5 ms"],
        description="Mean of the iteration times (s at the reference speed), more than 0. For "
        f"{_readers('mu')}, which need it unless statistics: profiled.",
    )
    overhead: Seconds | None = Field(
        None,
        examples=["10 us"],
        description="Scheduling overhead h of one chunk (s), more than 0. For "
        f"{_readers('overhead')}, which need it.",
    )
    alpha: Annotated[float, field_types.number(0)] = 1.3
    """Factor of sigma / mu in TAP. Default: Lucco 1992."""
    batches: Annotated[int, field_types.whole(2, 1_000_000)] | None = None
    """Batches B of FISS and VISS. Default: as many as FAC2 has in its straightforward form (Philip and Das
    1997).
    """
    growth: OneOf[words.Growth] = words.Growth.CONVERGING
    """How VISS's chunks grow: converging (by half as much as in the batch before; Eleliemy 2021, Eq. 4.7) or
    geometric (1.5 times in every batch; Eq. 2.11).
    """
    awf_chunk: OneOf[words.WeighedSize] = words.WeighedSize.REST
    """What AWF-C and AWF-E weigh at every request: rest (half of what is left, divided by the PEs, as LB4MPI
    and LB4OMP do) or batch (FAC2's chunk of the batch, as AWF-B and AWF-D do).
    """
    random_from: Annotated[float, field_types.number(0, 1)] = 0.0
    """Smallest chunk of RND, as a share of N/P, rounded up; at least one iteration."""
    random_to: Annotated[float, field_types.number(0, 1, low_belongs=False)] = 1.0
    """Largest chunk of RND, as a share of N/P, rounded up; not below random_from. Default: Eleliemy 2021,
    Eq. 2.12.
    """
    compat: OneOf[words.Compat] = words.Compat.NONE
    """lb4mpi: chunks as the library LB4MPI (DLS4LB) hands them out, where it departs from the sources (see
    docs/reference/lb4mpi.md). For models cca and dca, and the techniques that the library has.
    """
    swr: StaticRatio = 0.5
    """Static workload ratio of PLS: the share of the iterations that the first P chunks hold, or sampled: the
    shortest over the longest of the costs of five random iterations of the loop, by the seed (Shih, Yang and
    Tseng 2007). Default: our choice.
    """
    weights: Weights | None = Field(None, examples=["speed"])
    """Weights of the PEs, scaled to the sum P: speed (their relative speeds), equal, or one number a PE. For
    WF, and for AWF and AWF-B to AWF-E to begin with. Default: speed for WF, equal for the others.
    """

    first_chunk: Annotated[float, field_types.number(0, 1, low_belongs=False)] = 0.1
    """First chunk of each PE, as a share of iterations / PEs. For techniques AF and mAF."""
    pieces: Annotated[int, field_types.whole(0, 1_000_000_000)] | None = None
    """In how many parts of about the same length the times of a chunk are taken, from which mean and variance
    are estimated; 0: each iteration is timed. For techniques AF and mAF. Default: 0 in simulations, 16 in
    real runs.
    """


NEEDS = {word: word.entry.rule.needs for word in words.Technique if word.entry.rule.needs}
"""The parameters without which a technique cannot size chunks."""

LB4MPI = tuple(word for word in words.Technique if word.entry.lb4mpi)  # techniques that LB4MPI has

READERS = {
    key: tuple(word for word in words.Technique if f"application.parameters.{key}" in word.entry.options)
    for key in ParametersConfig.model_fields
}
"""The techniques that read each key."""


def lacking_parameters(technique: str, parameters: ParametersConfig) -> Iterator[tuple[str, str]]:
    """Name the parameters that a technique lacks or cannot use: key and message.

    Examples
    --------
    >>> list(lacking_parameters("FSC", ParametersConfig(sigma=1.0)))
    [('overhead', 'missing; FSC needs the scheduling overhead of one chunk, e.g. 10 us')]
    """
    library = parameters.compat is words.Compat.LB4MPI
    for level in split_technique(technique):
        if library:
            yield from _unknown_to_lb4mpi(level, parameters)
        if level == words.Technique("RND") and parameters.random_from > parameters.random_to:
            found = f"{parameters.random_to}, below random_from, {parameters.random_from}"
            yield "random_to", f"{found}; RND draws sizes from random_from to random_to"
        for key, meaning, positive in _rule_of(level, library).needs:
            profiled = parameters.statistics is words.Statistics.PROFILED and key in ("sigma", "mu")
            value = getattr(parameters, key)
            if value is None and not profiled:
                such = ParametersConfig.model_fields[key].examples or [""]
                other = "" if key == "overhead" else ", or statistics: profiled"
                yield key, f"missing; {level} needs {meaning}, e.g. {such[0]}{other}"
            elif value == 0.0 and positive and not profiled:
                yield key, f"0 s; {level} divides by it or is 0 with it; allowed: {meaning}, more than 0 s"


def _rule_of(level: str, library: bool) -> Rule:
    """Return how a technique sizes chunks, in LB4MPI if it is there; an empty rule if it is user-defined."""
    if level not in TECHNIQUES:
        return Rule()
    entry = TECHNIQUES[level]
    return (library and entry.lb4mpi) or entry.rule


def _unknown_to_lb4mpi(level: str, parameters: ParametersConfig) -> Iterator[tuple[str, str]]:
    """Name what LB4MPI does not have, or does not read."""
    if level not in LB4MPI:
        yield "compat", f"lb4mpi, and LB4MPI has no {level}; allowed: {', '.join(LB4MPI)}, or compat: none"
    elif level in READERS["weights"] and level != words.Technique("WF") and parameters.weights is not None:
        yield "weights", f"{level} of LB4MPI begins without weights; take it out, or compat: lb4mpi"
    elif level in READERS["awf_chunk"] and parameters.awf_chunk is words.WeighedSize.BATCH:
        yield "awf_chunk", f"batch; {level} of LB4MPI has no batches; write rest, or compat: none"


def broken_parameters(
    technique: str, parameters: ParametersConfig, named_by: str = "technique"
) -> Iterator[section_base.Violation]:
    """Name them as rules of the section ``application``, where the technique is named by a key."""
    for key, message in lacking_parameters(technique, parameters):
        yield section_base.Violation(f"parameters.{key}", message, (named_by, "parameters.statistics"))


TWO_LEVELS = tuple(model for model in words.ExecutionModel if model.entry.properties.levels == 2)
"""Models that schedule between nodes and inside them."""

RELEASING = tuple(model for model in words.ExecutionModel if model.entry.properties.releases)
"""Models under which nodes can leave a loop while it runs."""

SCHEDULES = {word: word.entry.openmp for word in words.Technique if word.entry.openmp}
"""Techniques of OpenMP inside a node, with their OpenMP names (Eleliemy 2021, Table 5.1)."""

ONE_QUEUE = tuple(model for model in words.ExecutionModel if model.entry.properties.one_queue)
"""Models with one queue of chunks for all PEs, as LB4MPI has."""

_CYCLIC = words.Technique("CYCLIC")
_LEARNING = tuple(word for word in words.Technique if word.entry.adaptive)
_FOLLOWING = tuple(word for word in words.Technique if word.entry.rule.follows_chunks)


def properties_of(model: str) -> ModelProperties | None:
    """Return what others need to know of a model; None of one of the user's own, until it is executed."""
    return model.entry.properties if isinstance(model, words.ExecutionModel) else None


def wrong_levels(
    technique: str,
    model: str,
    nowait: bool,
    properties: ModelProperties | None = None,
    global_p: str = words.GlobalP.NODES,
    learners: tuple[str, ...] = (),
    compat: str = words.Compat.NONE,
    request_ahead: int = 0,
) -> Iterator[str]:
    """Yield why a model cannot run a technique, or two as X+Y.

    ``properties``: of the model (default: those of its word; without, a user-defined model is not checked).
    ``learners``: user-defined techniques that learn, by name.

    Examples
    --------
    >>> next(wrong_levels("GSS+SS", words.ExecutionModel.DCA, nowait=False))
    'GSS+SS names two, and model dca has one level; allowed: one, or models hmw, hdca, mpi+openmp'
    """
    known = properties or properties_of(model)
    if known is None:
        return
    if compat == words.Compat.LB4MPI and model not in ONE_QUEUE:
        yield (
            f"LB4MPI has one queue of chunks, and not model {model}; with compat: lb4mpi allowed: "
            f"{', '.join(ONE_QUEUE)}"
        )
    levels = split_technique(technique)
    outside, inside = levels[0], levels[-1]
    if len(levels) > known.levels:
        models = ", ".join(TWO_LEVELS)
        yield (f"{technique} names two, and model {model} has one level; allowed: one, or models {models}")
    adaptive = (*_LEARNING, *learners)
    learning = [level for level in (outside, inside) if level in adaptive]
    if known.asking == "own part" and learning:
        yield (
            f"{learning[0]} learns at a queue that many PEs share, and under model {model} each has a queue "
            "of its own; take SS with a min_chunk, or FAC2"
        )
    elif learning and not known.adaptive:
        yield f"{learning[0]} learns within a loop, and model {model} is not declared adaptive"
    following = [level for level in levels if level in _FOLLOWING]
    if following and not known.adaptive:
        own = known.asking == "own part"
        why = "each PE has a queue of its own" if own else "it is not declared adaptive"
        yield (
            f"{following[0]} follows by the clock what all PEs of a queue execute, and under model {model} "
            f"{why}; take FAC2"
        )
    if following and request_ahead > 0 and "request_ahead" in known.reads:
        yield (
            f"{following[0]} takes a request for a sign that the PE has executed its chunk, and with "
            "request_ahead it is none; take FAC2, or request_ahead: 0"
        )
    if _CYCLIC in levels and not known.one_queue and (known.asking != "threads" or outside == _CYCLIC):
        yield (
            f"CYCLIC assigns chunk j to PE j mod P, and {technique} under model {model} lets any PE take it; "
            f"allowed: models {', '.join(ONE_QUEUE)}, or X+CYCLIC with mpi+openmp; else SS with a min_chunk"
        )
    if (
        global_p == words.GlobalP.PES
        and "global_p" in known.reads
        and outside in (words.Technique("STATIC"), *adaptive)
    ):
        is_static = outside == words.Technique("STATIC")
        reason = "has a chunk for each node" if is_static else "learns from nodes, not from PEs"
        yield f"{outside} between nodes {reason}; take another one there, or global_p: nodes"
    if known.asking != "threads":
        return
    if inside not in SCHEDULES:
        allowed = ", ".join(f"{name} ({schedule})" for name, schedule in SCHEDULES.items())
        yield (
            f"OpenMP has no schedule for {inside} inside a node; allowed there: {allowed}; e.g. {outside}+GSS"
        )
    elif nowait and inside in (words.Technique("STATIC"), _CYCLIC) and outside in adaptive:
        yield (
            f"with nowait and {inside} inside, threads run several chunks ahead of each other, and a node "
            f"cannot tell what {outside} learns from; take SS or GSS inside, or nowait: off"
        )
