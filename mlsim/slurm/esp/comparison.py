"""Real and simulated makespans side by side, as in the source's Fig. 7.7."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

__all__ = ["COLUMNS", "Row", "as_csv", "cells_of"]

COLUMNS = (
    "technique",
    "rca",
    "real makespan (s)",
    "least (s)",
    "largest (s)",
    "on/off",
    "simulated (s)",
    "simulated/real",
    "on/off simulated",
    "with launches (s)",
    "with launches/real",
    "on/off with launches",
    "nodes given back",
)


@dataclass(frozen=True)
class Row:
    """A technique, without or with RCA; makespans in s.

    Attributes
    ----------
    technique, rca
        Of the runs.
    real
        Makespan of every repetition.
    simulated
        Makespan where jobs take what their loops take.
    launched
        Makespan where every job takes the measured launch time besides.
    given_back
        Nodes given back in a real run, on average.
    """

    technique: str
    rca: bool
    real: tuple[float, ...]
    simulated: float
    launched: float
    given_back: float


def cells_of(rows: Sequence[Row]) -> list[Mapping[str, str | float | None]]:
    """Return the rows of the table, by :data:`COLUMNS`; on/off is that of means, None without RCA."""
    off = {row.technique: row for row in rows if not row.rca}
    return [_cells(row, off.get(row.technique) if row.rca else None) for row in rows]


def _cells(row: Row, without: Row | None) -> Mapping[str, str | float | None]:
    real = mean(row.real)
    values: tuple[str | float | None, ...] = (
        row.technique,
        "on" if row.rca else "off",
        real,
        min(row.real),
        max(row.real),
        None if without is None else real / mean(without.real),
        row.simulated,
        row.simulated / real,
        None if without is None else row.simulated / without.simulated,
        row.launched,
        row.launched / real,
        None if without is None else row.launched / without.launched,
        row.given_back,
    )
    return dict(zip(COLUMNS, values, strict=True))


def as_csv(rows: Sequence[Row]) -> str:
    """Return the table as text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for cells in cells_of(rows):
        writer.writerow(
            {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in cells.items()}
        )
    return text.getvalue()
