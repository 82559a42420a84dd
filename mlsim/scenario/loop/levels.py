"""Which techniques fit which execution model: one level or two, and what OpenMP can do."""

from __future__ import annotations

from collections.abc import Iterator

from mlsim.scenario.loop.techniques import split_technique
from mlsim.scenario.words import Compat, ExecutionModel, GlobalP, Technique
from mlsim.scenario.words.application import ModelProperties

__all__ = ["RELEASING", "SCHEDULES", "TWO_LEVELS", "properties_of", "wrong_levels"]

TWO_LEVELS = tuple(model for model in ExecutionModel if model.properties.levels == 2)
"""Models that schedule between nodes and inside them."""

RELEASING = tuple(model for model in ExecutionModel if model.properties.releases)
"""Models under which nodes can leave a loop while it runs."""

SCHEDULES = {Technique.STATIC: "static", Technique.SS: "dynamic,1", Technique.GSS: "guided,1"}
"""What OpenMP can do inside a node, and its name there (Eleliemy 2021, Table 5.1)."""

_LB4MPI_MODELS = (ExecutionModel.CCA, ExecutionModel.DCA)
_LEARNING = (
    Technique.AWF_B,
    Technique.AWF_C,
    Technique.AWF_D,
    Technique.AWF_E,
    Technique.AF,
    Technique.MAF,
)


def properties_of(model: str) -> ModelProperties | None:
    """Return what others need to know of a model; None of one of the user's own, until it is executed."""
    return model.properties if isinstance(model, ExecutionModel) else None


def wrong_levels(
    technique: str,
    model: str,
    nowait: bool,
    properties: ModelProperties | None = None,
    global_p: str = GlobalP.NODES,
    learners: tuple[str, ...] = (),
    compat: str = Compat.NONE,
    request_ahead: int = 0,
) -> Iterator[str]:
    """Yield why a model cannot run a technique, or two as X+Y.

    Parameters
    ----------
    technique, model, nowait, global_p
        As in a scenario.
    properties
        Of the model; None: those of its word. Of a model of the user's own nothing is known without them.
    learners
        Techniques of the user that are known to learn, by name: classes.
    compat, request_ahead
        As in a scenario's ``application.parameters`` and ``application.execution``.

    Examples
    --------
    >>> next(wrong_levels("GSS+SS", ExecutionModel.DCA, nowait=False))
    'GSS+SS names two, and model dca has one level; allowed: one, or models hmw, hdca, mpi+openmp'
    """
    known = properties or properties_of(model)
    if known is None:
        return
    if compat == Compat.LB4MPI and model not in _LB4MPI_MODELS:
        yield (
            f"LB4MPI has one queue of chunks, and not model {model}; with compat: lb4mpi allowed: "
            f"{', '.join(_LB4MPI_MODELS)}"
        )
    levels = split_technique(technique)
    outside, inside = levels[0], levels[-1]
    if len(levels) > known.levels:
        models = ", ".join(TWO_LEVELS)
        yield (f"{technique} names two, and model {model} has one level; allowed: one, or models {models}")
    adaptive = (*_LEARNING, *learners)
    learning = [level for level in (outside, inside) if level in adaptive]
    if model is ExecutionModel.STEAL and learning:
        yield (
            f"{learning[0]} learns at a queue that many PEs share, and under model {model} each has a queue "
            "of its own; take SS with a min_chunk, or FAC2"
        )
    elif learning and not known.adaptive:
        yield f"{learning[0]} learns within a loop, and model {model} is not declared adaptive"
    if Technique.BOLD in levels and not known.adaptive:
        why = "it is not declared adaptive"
        if model is ExecutionModel.STEAL:
            why = "each PE has a queue of its own"
        yield (
            f"BOLD follows by the clock what all PEs of a queue execute, and under model {model} {why}; "
            "take FAC2"
        )
    if Technique.BOLD in levels and request_ahead > 0 and "request_ahead" in known.reads:
        yield (
            "BOLD takes a request for a sign that the PE has executed its chunk, and with request_ahead it "
            "is none; take FAC2, or request_ahead: 0"
        )
    if global_p == GlobalP.PES and "global_p" in known.reads and outside in (Technique.STATIC, *adaptive):
        reason = (
            "has a chunk for each node" if outside == Technique.STATIC else "learns from nodes, not from PEs"
        )
        yield f"{outside} between nodes {reason}; take another one there, or global_p: nodes"
    if model is not ExecutionModel.MPI_OPENMP:
        return
    if inside not in SCHEDULES:
        allowed = ", ".join(f"{name} ({schedule})" for name, schedule in SCHEDULES.items())
        yield (
            f"OpenMP has no schedule for {inside} inside a node; allowed there: {allowed}; e.g. {outside}+GSS"
        )
    elif nowait and inside == Technique.STATIC and outside in adaptive:
        yield (
            f"with nowait and STATIC inside, threads run several chunks ahead of each other, and a node "
            f"cannot tell what {outside} learns from; take SS or GSS inside, or nowait: off"
        )
