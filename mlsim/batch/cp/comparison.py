"""Dispatchers that solved the same instances, compared with the first of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from mlsim.batch.cp.replay import Group, Replayed, group_of
from mlsim.scenario import Dispatcher

__all__ = ["compare", "write_csv"]


def compare(rows: Sequence[Replayed], names: Sequence[Dispatcher]) -> list[dict[str, Any]]:
    """Return means of each dispatcher, and its ratios and groups against the first."""
    of = {name: [row for row in rows if row.dispatcher == name] for name in names}
    table = []
    for name in names:
        mine, base = of[name], of[names[0]]
        groups = [group_of(one, other) for one, other in zip(mine, base, strict=True)]
        table.append(
            {
                "dispatcher": str(name),
                "instances": len(mine),
                "solved": sum(not math.isnan(row.objective) for row in mine),
                "empty": sum(row.solve.status == "empty" for row in mine),
                "optimal": sum(row.solve.status == "optimal" for row in mine),
                "variables": _mean([row.solve.variables for row in mine]),
                "constraints": _mean([row.solve.constraints for row in mine]),
                "branches": _mean([row.solve.branches for row in mine]),
                "time_ms": _mean([row.seconds * 1e3 for row in mine]),
                "variables_ratio": _median_ratio(
                    [(a.solve.variables, b.solve.variables) for a, b in zip(mine, base, strict=True)]
                ),
                "time_ratio": _median_ratio(
                    [(a.seconds, b.seconds) for a, b in zip(mine, base, strict=True)]
                ),
                "objective_ratio": _mean_ratio(
                    [(a.objective, b.objective) for a, b in zip(mine, base, strict=True)]
                ),
                "groups": {str(group): groups.count(group) for group in Group},
            }
        )
    return table


def write_csv(path: Path, rows: Sequence[Replayed]) -> None:
    """Write every solve as a row of a CSV file."""
    names = list(rows[0].solve.__slots__) if rows else []
    pl.DataFrame(
        [
            {"instance": row.instance, "dispatcher": str(row.dispatcher)}
            | {name: getattr(row.solve, name) for name in names}
            for row in rows
        ],
        infer_schema_length=None,
    ).write_csv(path)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratios(pairs: list[tuple[float, float]]) -> list[float]:
    return sorted(a / b for a, b in pairs if b > 0 and not math.isnan(a))


def _median_ratio(pairs: list[tuple[float, float]]) -> float | None:
    ratios = _ratios(pairs)
    return ratios[len(ratios) // 2] if ratios else None


def _mean_ratio(pairs: list[tuple[float, float]]) -> float | None:
    return _mean(_ratios(pairs))
