"""Files of a comparison of real and simulated loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlsim.experiment.run_directory import write_json
from mlsim.mpi.validation.validate import Row

if TYPE_CHECKING:
    from mlsim.experiment.result_directories import Place


def write_comparison(place: Place, rows: Sequence[Row], machine: dict[str, object], name: str) -> None:
    """Write ``table.md``, ``loops.json`` and ``loops.png`` into a directory of results."""
    (place.partial / "table.md").write_text(error_table(rows), encoding="utf-8")
    write_json(
        place.partial / "loops.json",
        {"machine": machine, "loops": [asdict(row) | {"error": row.error} for row in rows]},
    )
    with place.extra(place.partial / "loops.png") as path:
        _draw(path, rows, f"{name}: real and simulated")


def error_table(rows: Sequence[Row]) -> str:
    """Lay out the rows as a Markdown table."""
    lines = [
        "| technique | model | delay µs | T_loop real s | simulated s | error % | chunks real | simulated | "
        "imbalance real % | simulated % | real from – to s | simulated from – to s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        pair = row.pair
        lines.append(
            f"| {pair.technique} | {pair.model} | {pair.delay * 1e6:.0f} | {row.t_loop:.4f} | "
            f"{row.t_simulated:.4f} | {row.error * 100:+.2f} | {row.steps} | {row.steps_simulated} | "
            f"{row.imbalance:.2f} | {row.imbalance_simulated:.2f} | {_range(row.times)} | "
            f"{_range(row.times_simulated)} |"
        )
    return "\n".join(lines) + "\n"


def _range(times: Sequence[float]) -> str:
    return f"{min(times):.4f} – {max(times):.4f}"


def _draw(path: Path, rows: Sequence[Row], title: str) -> None:
    """Draw real against simulated times: a point a repetition, a bar the simulation."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.0, 0.42 * len(rows) + 2.0), 4.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))
    axes.bar(places, [row.t_simulated for row in rows], color="#b9cfe4", label="simulated", width=0.7)
    for place, row in zip(places.tolist(), rows, strict=True):
        axes.plot([place] * len(row.times), row.times, "o", color="#b5452c", markersize=4)
    axes.plot([], [], "o", color="#b5452c", label="real, each repetition")
    words = [
        f"{row.pair.technique} {row.pair.model}"
        + (f" {row.pair.delay * 1e6:.0f} µs" if row.pair.delay else "")
        for row in rows
    ]
    axes.set_xticks(places, words, rotation=60, ha="right", fontsize=8)
    axes.set_ylabel("T_loop, s")
    axes.set_title(title)
    axes.legend(loc="lower right")
    FigureCanvasAgg(figure).print_figure(str(path), dpi=120)
