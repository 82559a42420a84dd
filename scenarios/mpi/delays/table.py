"""Medians of delayed loops with 95 % intervals, and how much longer CCA takes than DCA, as tables.

Usage: python scenarios/mpi/delays/table.py FILE.csv

FILE.csv is what ``measure.py`` wrote. Intervals of the medians, and of their ratios, are by 10,000 bootstrap
resamples of the repetitions. "100 µs" with a sign is by how much a delay of 100 µs prolongs the median.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

RESAMPLES = 10_000


def median_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the median, and the 2.5 % and 97.5 % points of those of resamples."""
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[drawn], axis=1), (2.5, 97.5))
    return float(np.median(values)), float(low), float(high)


def cell(values: np.ndarray) -> str:
    """Return a median with its interval."""
    median, low, high = median_interval(values)
    return f"{median:.4f} ({low:.4f}–{high:.4f})"


def table(loops: pl.DataFrame) -> list[str]:
    """Return the lines of one application's table."""
    delays = sorted(loops["delay"].unique())
    heads = [f"{delay * 1e6:.0f} µs" for delay in delays]
    lines = [
        f"| technique | model | chunks | {' | '.join(heads)} | at {heads[-1]} |",
        f"| --- | --- | ---: |{' ---: |' * (len(heads) + 1)}",
    ]
    for (technique, model), of in loops.group_by("technique", "model", maintain_order=True):
        times = [of.filter(pl.col("delay") == delay)["t_loop"].to_numpy() for delay in delays]
        longer = np.median(times[-1]) / np.median(times[0]) - 1.0
        chunks = int(of.filter(pl.col("delay") == delays[0])["chunks"].median())
        cells = " | ".join(map(cell, times))
        lines.append(f"| {technique} | {model} | {chunks} | {cells} | {longer:+.1%} |")
    return lines


def ratio_interval(longer: np.ndarray, shorter: np.ndarray) -> tuple[float, float, float]:
    """Return by which share one median exceeds another, and the 2.5 % and 97.5 % points of resamples."""
    rng = np.random.default_rng(0)
    medians = [
        np.median(values[rng.integers(len(values), size=(RESAMPLES, len(values)))], axis=1)
        for values in (longer, shorter)
    ]
    low, high = np.percentile(medians[0] / medians[1] - 1.0, (2.5, 97.5))
    return float(np.median(longer) / np.median(shorter) - 1.0), float(low), float(high)


def against(loops: pl.DataFrame) -> list[str]:
    """Return the lines of a table: by how much CCA takes longer than DCA, for each delay."""
    delays = sorted(loops["delay"].unique())
    lines = [
        f"| technique | {' | '.join(f'{delay * 1e6:.0f} µs' for delay in delays)} |",
        f"| --- |{' ---: |' * len(delays)}",
    ]
    for (technique,), of in loops.group_by("technique", maintain_order=True):
        cells = []
        for delay in delays:
            times = [
                of.filter(pl.col("model") == model, pl.col("delay") == delay)["t_loop"].to_numpy()
                for model in ("cca", "dca")
            ]
            share, low, high = ratio_interval(*times)
            cells.append(f"{share:+.1%} ({low:+.1%} – {high:+.1%})")
        lines.append(f"| {technique} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Read, print."""
    loops = pl.read_csv(Path(sys.argv[1])).sort("repetition", maintain_order=True)
    for name in ("psia", "mandelbrot"):
        of = loops.filter(pl.col("application") == name)
        order = list(dict.fromkeys(sorted(of["technique"].to_list())))
        of = of.sort(pl.col("technique").replace_strict(order, range(len(order))), "model")
        print(name, "", *table(of), "", "CCA against DCA", "", *against(of), "", sep="\n")


if __name__ == "__main__":
    main()
