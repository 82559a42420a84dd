"""Maps of the search space of mixed policies: all vectors in each week (Zrigui 2021, Fig. 5.4)."""

from collections.abc import Mapping, Sequence
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


def mapped_weeks(found: Mixed, first: int, last: int) -> list[int]:
    """Return the weeks of a search from ``first`` to ``last``; raise InputError if there are none."""
    weeks = [week for week in found.weeks.tolist() if first <= week <= last]
    if not weeks:
        raise InputError(f"map: no week from {first} to {last} was searched")
    return weeks


def map_of(log: LogWeeks, weeks: Sequence[int], found: Mixed, parts: Parts) -> dict[int, Floats]:
    """Return the mean bounded slowdown of each vector of the grid in some weeks, which ``parts`` have."""
    wanted = parts_of(log, weeks, found.searching)
    return dict(zip(weeks, searches(wanted, parts), strict=True))


def map_rows(means: Mapping[int, Floats], found: Mixed) -> list[dict[str, object]]:
    """Return what a map of each week shows: where the best vector is, and how large the area near it."""
    first = simplex_grid(found.searching.points, found.searching.features)[:, _places(found)[0]]
    rows: list[dict[str, object]] = []
    for week, values in means.items():
        best = _on_grid(found, found.best[found.weeks.tolist().index(week)])
        weights = dict(zip(found.searching.features, best.tolist(), strict=True))
        name = found.searching.features[0]
        rows.append(
            {"week": week, "least": float(values.min()), "most": float(values.max())}
            | {f"median, {name} < 0": float(np.median(values[first < 0]))}
            | {f"median, {name} > 0": float(np.median(values[first > 0]))}
            | {"within 10 % (%)": 100 * float(np.mean(values <= _NEAR * values.min()))}
            | {f"w*: {feature}": weight for feature, weight in weights.items()}
        )
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
    grid = simplex_grid(points, features)[:, _places(found)]
    frames = [
        pl.DataFrame({"week": week, **dict(zip(features, grid.T, strict=True)), "mean": values})
        for week, values in means.items()
    ]
    write_tables(directory, {"map.csv": pl.concat(frames)})
    column, row = (np.rint((grid[:, k] + 1) / 2 * (points - 1)).astype(int) for k in (1, 2))
    figure = Figure(figsize=(6.4, 2.9 * len(means)), layout="constrained")
    every = figure.subplots(len(means), 2, squeeze=False)
    for axes, (week, values) in zip(every, means.items(), strict=True):
        best = _on_grid(found, found.best[found.weeks.tolist().index(week)])
        norm = LogNorm(values.min(), max(values.max(), values.min() * (1 + 1e-9)))
        for panel, sign, word in zip(axes, (-1, 1), ("≤", "≥"), strict=True):
            taken = np.flatnonzero(grid[:, 0] * sign >= 0)
            image = np.full((points, points), np.nan)
            image[row[taken], column[taken]] = values[taken]
            shown = panel.imshow(image, cmap="viridis_r", norm=norm, origin="lower", extent=(-1, 1, -1, 1))
            for weights, mark, colour in ((best, "o", "red"), (_on_grid(found, found.learned), "^", "blue")):
                if weights[0] * sign >= 0:
                    panel.plot(*weights[1:], mark, color=colour, markeredgecolor="white", markersize=7)
            panel.set(xlabel=f"weight of {features[1]}", ylabel=f"weight of {features[2]}")
            panel.set_title(f"week {week}, {features[0]} {word} 0", fontsize=9)
        bar = figure.colorbar(shown, ax=list(axes), label="mean bounded slowdown", format="{x:g}")
        bar.ax.yaxis.set_minor_formatter("{x:g}")
    figure.savefig(directory / "map.png", dpi=110, metadata={"Software": None})


def _places(found: Mixed) -> list[int]:
    return places_of(found.searching.features)


def _on_grid(found: Mixed, vector: Floats) -> Floats:
    """Return the weights of a vector as the grid has them, which are those of scaled features if any are."""
    scale = found.searching.scale
    return normalised(np.atleast_2d(vector if scale is None else vector * scale))[0, _places(found)]
