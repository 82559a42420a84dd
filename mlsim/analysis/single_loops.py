"""Metrics of single loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from mlsim.analysis.formatting import duration, share
from mlsim.analysis.metrics import (
    coefficient_of_variation,
    max_over_mean,
    percent_imbalance,
    selection_metrics,
)
from mlsim.analysis.run_summary import json_safe
from mlsim.record import Records

Facts = Mapping[str, Any]

_COLUMNS = ("T_loop", "", "steps", "c.o.v.", "imbalance", "max/mean", "overhead")


def loop_facts(records: Records, technique: str, model: str) -> dict[str, Any]:
    """Return the metrics of a run that is one loop.

    Parameters
    ----------
    records
        The records of the run.
    technique, model
        The loop's technique and execution model, which become facts.

    Returns
    -------
    dict
        JSON-safe: ``technique``, ``model``, ``nodes``, ``pes``, ``iterations``, ``steps``; ``t_loop``,
        ``mean_finish`` (s); ``cov``, ``imbalance`` (percent), ``max_over_mean`` of the PEs' finish times;
        ``busy``, ``overhead``, ``idle`` (PE-seconds); ``efficiency``, the share of the PEs' time up to
        ``t_loop`` in which they executed iterations. If techniques were selected also ``selected``, how
        often each, and ``selection_time`` (s).
    """
    loops = records.loops
    capacity = float(loops.pes[0] * loops.t_loop[0])
    facts: dict[str, Any] = json_safe(
        {
            "technique": technique,
            "model": model,
            "nodes": len(records.nodes.name),
            "pes": loops.pes[0],
            "iterations": loops.iterations[0],
            "steps": loops.steps[0],
            "t_loop": loops.t_loop[0],
            "mean_finish": loops.mean_finish[0],
            "cov": coefficient_of_variation(loops)[0],
            "imbalance": percent_imbalance(loops)[0],
            "max_over_mean": max_over_mean(loops)[0],
            "busy": loops.busy[0],
            "overhead": loops.overhead[0],
            "idle": loops.idle[0],
            "efficiency": float(loops.busy[0]) / capacity if capacity else None,
        }
    )
    chosen = selection_metrics(records.selections)
    if chosen:
        counts = ", ".join(f"{name} {count}" for name, count in chosen["selected"].items())
        facts |= {"selected": counts, "selection_time": chosen["selection_time"]}
    return facts


def best_loop(loops: Sequence[Facts]) -> int:
    """Return the index of the loop with the least ``t_loop``, the first of equal ones."""
    return min(range(len(loops)), key=lambda row: loops[row]["t_loop"])


def loop_table(loops: Sequence[Facts]) -> Table:
    """Lay out loops for the terminal, one per row, the shortest marked with a star.

    Overhead is its share of the PEs' time from the loop's start until the last PE learns that there is no
    more work. Expects facts of :func:`loop_facts`; a rule separates techniques.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    table.add_column("technique", style="cyan", no_wrap=True)
    table.add_column("model", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    best = best_loop(loops) if len(loops) > 1 else -1
    many = len({facts["model"] for facts in loops}) > 1
    for row, facts in enumerate(loops):
        last = row + 1 == len(loops) or loops[row + 1]["technique"] != facts["technique"]
        table.add_row(*_cells(facts, row == best), end_section=last and many)
    return table


def _cells(facts: Facts, best: bool) -> list[Text]:
    total = facts["busy"] + facts["overhead"] + facts["idle"]
    imbalance = facts["imbalance"]
    words = [
        facts["technique"],
        facts["model"],
        loop_seconds(facts["t_loop"]),
        "*" if best else "",
        f"{facts['steps']:,}",
        "-" if facts["cov"] is None else f"{facts['cov']:.2g}",
        "-" if imbalance is None else f"{imbalance:.2f} %",
        "-" if facts["max_over_mean"] is None else f"{facts['max_over_mean']:.3f}",
        share(facts["overhead"] / total if total else None),
    ]
    return [
        Text(word, style="bold green" if best and place in (2, 3) else "") for place, word in enumerate(words)
    ]


def loop_seconds(seconds: float) -> str:
    """Format a loop's time with four digits, so that loops can be compared."""
    if seconds and seconds < 1e-3:
        return f"{seconds * 1e6:.4g} µs"
    if seconds and seconds < 1.0:
        return f"{seconds * 1e3:.4g} ms"
    return f"{seconds:.4g} s" if seconds < 1000 else f"{seconds:,.0f} s ({duration(seconds)})"
