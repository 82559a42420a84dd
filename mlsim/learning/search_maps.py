"""Maps of the search space of mixed policies: all vectors in each week (Zrigui 2021, Fig. 5.4)."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from mlsim._runtime.arrays import Floats
from mlsim._runtime.late import load_matplotlib
from mlsim.errors import InputError
from mlsim.experiment.weekly_runs import LogWeeks
from mlsim.learning.learning_parts import Parts, write_tables
from mlsim.learning.mixed_policies import Mixed, normalised, parts_of, places_of, searches, simplex_grid

_NEAR = 1.1  # of the least mean: the area of good vectors


def map_of(log: LogWeeks, first: int, last: int, found: Mixed, parts: Parts) -> dict[int, Floats]:
    """Return the mean bounded slowdown of each vector of the grid in some weeks, which ``parts`` have."""
    weeks = [week for week in found.weeks.tolist() if first <= week <= last]
    if not weeks:
        raise InputError(f"map: no week from {first} to {last} was searched")
    return dict(zip(weeks, searches(parts_of(log, weeks, found.searching), parts), strict=True))


def _on_grid(found: Mixed, vectors: Floats) -> Floats:
    """Return weights as the grid has them, which are those of scaled features if any are scaled."""
    scale = 1.0 if found.searching.scale is None else found.searching.scale
    return normalised(vectors * scale)[:, places_of(found.searching.features)]


def map_rows(means: Mapping[int, Floats], found: Mixed) -> list[dict[str, object]]:
    """Return what the map of each week shows: where the best vector is, and how large the area near it."""
    features = found.searching.features
    sign = simplex_grid(found.searching.points, features)[:, places_of(features)[0]]
    best = dict(zip(found.weeks.tolist(), _on_grid(found, found.best).tolist(), strict=True))
    rows: list[dict[str, object]] = []
    for week, values in means.items():
        halves = (np.median(values[sign < 0]).item(), np.median(values[sign > 0]).item())
        near = 100.0 * np.mean(values <= _NEAR * values.min()).item()
        row = {"week": str(week), "least": values.min().item(), "most": values.max().item()}
        row |= dict(zip((f"median, {features[0]} < 0", f"{features[0]} > 0"), halves, strict=True))
        row |= {"near the least %": near}
        rows.append(row | {f"w*: {name}": w for name, w in zip(features, best[week], strict=True)})
    return rows


def write_map(directory: Path, means: Mapping[int, Floats], found: Mixed) -> None:
    """Write ``map.csv``, a row per week and vector, and ``map.png``, two squares per week.

    The squares are the signs of the first weight, and their axes the other weights; lighter is better, the
    dot is w* and the triangle w*_train.
    """
    load_matplotlib()
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    features, points = found.searching.features, found.searching.points
    grid = simplex_grid(points, features)[:, places_of(features)]
    weights = dict(zip(features, grid.T, strict=True))
    frames = [pl.DataFrame({"week": week, **weights, "mean": values}) for week, values in means.items()]
    write_tables(directory, {"map.csv": pl.concat(frames)})
    column, row = np.rint((grid[:, 1:].T + 1) / 2 * (points - 1)).astype(int)
    best, (learned,) = _on_grid(found, found.best), _on_grid(found, found.learned[np.newaxis])
    figure = Figure(figsize=(6.4, 2.9 * len(means)), layout="constrained")
    every = figure.subplots(len(means), 2, squeeze=False)
    for axes, (week, values) in zip(every, means.items(), strict=True):
        marks = ((best[found.weeks == week][0], "o", "red"), (learned, "^", "blue"))
        norm = LogNorm(values.min(), max(values.max(), values.min() * (1 + 1e-9)))
        for panel, sign, word in zip(axes, (-1, 1), ("≤", "≥"), strict=True):
            taken = grid[:, 0] * sign >= 0
            image = np.full((points, points), np.nan)
            image[row[taken], column[taken]] = values[taken]
            shown = panel.imshow(image, cmap="viridis_r", norm=norm, origin="lower", extent=(-1, 1, -1, 1))
            for vector, mark, colour in marks:
                if vector[0] * sign >= 0:
                    panel.plot(*vector[1:], mark, color=colour, markeredgecolor="white", markersize=7)
            panel.set(xlabel=f"weight of {features[1]}", ylabel=f"weight of {features[2]}")
            panel.set_title(f"week {week}, {features[0]} {word} 0", fontsize=9)
        bar = figure.colorbar(shown, ax=list(axes), label="mean bounded slowdown", format="{x:g}")
        bar.ax.yaxis.set_minor_formatter("{x:g}")
    figure.savefig(directory / "map.png", dpi=110, metadata={"Software": None})
