"""What ``mlsim advise --out`` leaves: the choices as CSV and JSON, and a picture."""

from __future__ import annotations

from typing import Any

from mlsim import _matplotlib
from mlsim.experiment.advice.advising import Advice, Candidate
from mlsim.experiment.advice.recorded import LEAST_CHUNKS, RecordedLoop, Unknown
from mlsim.experiment.directories import Place
from mlsim.experiment.manifest import write_summary

__all__ = ["facts_of", "facts_of_unknown", "write_advice", "write_unknown"]

_MOST_SHOWN = 16


def facts_of(advice: Advice, record: RecordedLoop | None) -> dict[str, Any]:
    """Return the advice as plain values; times in s."""
    facts: dict[str, Any] = {
        "best": _facts(advice.best, advice),
        "now": _facts(advice.now, advice),
        "static": _facts(advice.static, advice),
        "variations": [{"seed": one.seed, "factor": one.factor} for one in advice.variations],
        "choices": [_facts(choice, advice) for choice in advice.choices],
        "left_out": dict(advice.left_out),
    }
    if record is not None:
        facts["record"] = _facts_of_record(record) | {
            "simulated": advice.now.t_loop[0],
            "error": advice.now.t_loop[0] / record.t_loop - 1.0,
            "saved": record.t_loop - advice.best.mean,
        }
    return facts


def facts_of_unknown(unknown: Unknown, record: RecordedLoop) -> dict[str, Any]:
    """Return as plain values that a record allows no verdict; ``best`` is null."""
    return {
        "best": None,
        "reason": unknown.reason,
        "instead": unknown.instead,
        "record": _facts_of_record(record) | {"least_chunks_per_pe": LEAST_CHUNKS},
    }


def _facts_of_record(record: RecordedLoop) -> dict[str, Any]:
    return {
        "t_loop": record.t_loop,
        "chunks": record.chunks,
        "chunks_per_pe": record.parts / record.pes,
        "real": record.measured,
        "overhead": record.overhead,
    }


def write_unknown(place: Place, unknown: Unknown, record: RecordedLoop) -> None:
    """Write ``advice.json`` alone into a reserved directory: that a record allows no verdict."""
    write_summary(place.partial / "advice.json", facts_of_unknown(unknown, record))


def _facts(choice: Candidate, advice: Advice) -> dict[str, Any]:
    return {
        "technique": choice.technique,
        "model": choice.model,
        "t_loop": choice.mean,
        "least": min(choice.t_loop),
        "largest": max(choice.t_loop),
        "over_static": choice.mean / advice.static.mean,
        "over_now": choice.mean / advice.now.mean,
        "as_good_as_best": choice.as_good,
        "chunks": choice.chunks,
    }


def write_advice(place: Place, advice: Advice, record: RecordedLoop | None, title: str) -> None:
    """Write ``advice.json``, ``advice.csv`` and ``advice.png`` into a reserved directory."""
    import polars as pl

    facts = facts_of(advice, record)
    write_summary(place.partial / "advice.json", facts)
    pl.DataFrame(facts["choices"]).write_csv(place.partial / "advice.csv")
    with place.extra(place.partial / "advice.png") as path:
        _matplotlib.load()
        from mlsim.analysis.plots.bars import Panel, bars
        from mlsim.analysis.plots.style import write_picture

        shown = _shown(advice)
        panel = Panel(
            "mean, least and largest over the variations",
            [choice.label for choice in shown],
            {"T_loop": [choice.mean for choice in shown]},
            ends={"T_loop": [(min(choice.t_loop), max(choice.t_loop)) for choice in shown]},
        )
        write_picture(bars([panel], title, "parallel loop time (s)"), path)


def _shown(advice: Advice) -> list[Candidate]:
    """Return the best ones, with today's choice and STATIC wherever they stand."""
    first = advice.choices[:_MOST_SHOWN]
    return [*first, *(choice for choice in (advice.now, advice.static) if choice not in first)]
