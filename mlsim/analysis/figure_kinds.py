"""Kinds of figures of ``mlsim plot``; drawing libraries are loaded when a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlsim.record import Records


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of figure."""

    place: str
    """Module and function, imported when it is drawn."""
    meaning: str
    is_single: bool = False
    of_loops: bool = False
    has_tau: bool = False

    def load(self) -> Callable[..., Any]:
        """Return the function that draws it."""
        module, _, name = self.place.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"mlsim.analysis.plots.{module}"), name)
        return found


KINDS: Mapping[str, Kind] = {
    "gantt": Kind("paper_runs:gantt", "which job held which node when", is_single=True),
    "utilization": Kind("paper_runs:utilization_lines", "shares of the cores over time"),
    "queue": Kind("paper_runs:queue", "waiting jobs over time"),
    "slowdown-box": Kind("distribution_plots:slowdown_box", "bounded slowdowns as boxes", has_tau=True),
    "slowdown-ecdf": Kind(
        "distribution_plots:slowdown_ecdf", "share of jobs by bounded slowdown", has_tau=True
    ),
    "wait-ecdf": Kind("distribution_plots:wait_ecdf", "share of jobs by wait"),
    "wait-by-size": Kind("distribution_plots:wait_by_size", "waits by processors asked for, as boxes"),
    "chunk-sizes": Kind("pe_plot:paper_chunk_sizes", "chunk sizes over scheduling steps", of_loops=True),
    "loop-timeline": Kind("pe_plot:loop_timeline", "PEs of a loop over time", is_single=True, of_loops=True),
    "imbalance-profile": Kind("pe_plot:imbalance_profile", "finish times of PEs, sorted", of_loops=True),
    "weekly": Kind("paper_runs:weekly_lines", "mean bounded slowdown by week", has_tau=True),
    "energy": Kind("paper_runs:energy", "power of the machine over time"),
}
"""By the words of the command line."""

_DPI = 300.0


def draw_kind(
    kind: str, runs: Mapping[str, Records], path: Path, width: float, height: float | None, tau: float
) -> None:
    """Draw a figure of :data:`KINDS` into a PNG, SVG or PDF file, by its suffix.

    Figures of loops need the chunks and PEs of one loop per run. ``width`` and ``height`` are in mm; without
    a height a suitable one is used. ``tau`` is in s.
    """
    from mlsim.analysis.plots.chart_style import write_picture
    from mlsim.analysis.plots.paper_runs import paper_style

    what = KINDS[kind]
    options: dict[str, Any] = {} if height is None else {"height": height}
    if what.has_tau:
        options["tau"] = tau
    write_picture(what.load()(runs, width, **options), path, dpi=_DPI, style=paper_style)
