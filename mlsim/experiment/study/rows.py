"""The rows of a study: a combination each, with its metrics, of what the store keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError
from mlsim.experiment.study.model import Study
from mlsim.experiment.study.pictures import Balance
from mlsim.experiment.study.planning import Plan
from mlsim.experiment.study.points import Point
from mlsim.experiment.study.store import Entries

__all__ = ["StudyRow", "metric_of", "row_of", "rows_of"]


@dataclass(frozen=True)
class StudyRow:
    """One combination, simulated."""

    labels: Mapping[str, str]
    """Of each axis."""
    metrics: Mapping[str, float]
    """By title; NaN where the run has none, or has failed."""
    found: Mapping[str, float]
    """What others found, by title."""
    failed: str = ""
    """Why the run failed; empty: it did not."""
    key: str = ""
    """Digest of the run."""
    entries: Entries | None = None
    """Where all that was kept of it is."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """All metrics: the summary of the run, or the facts of the loop; empty if it failed."""
        facts: Mapping[str, Any] = self._kept().get("summary", {})
        return facts

    @property
    def reference(self) -> float | None:
        """What others found for the first metric; None if they did not."""
        return self.found.get(next(iter(self.metrics)))

    @property
    def curve(self) -> tuple[Floats, Floats] | None:
        """Times (s) and busy shares of the machine, where a picture shows them."""
        curve = self._kept().get("curve")
        return None if curve is None else (np.array(curve[0], float), np.array(curve[1], float))

    @property
    def balance(self) -> Balance | None:
        """The balance of each job's loop, where a picture shows it."""
        found = self._kept().get("balance")
        if found is None:
            return None
        jobs, ratios = np.array(found["job_id"], np.int64), np.array(found["max_over_mean"], float)
        return Balance(jobs, found["executable"], ratios)

    def _kept(self) -> Mapping[str, Any]:
        found = None if self.entries is None else self.entries.get(self.key)
        return {} if found is None else found


def row_of(study: Study, point: Point, key: str, entries: Entries) -> StudyRow:
    """Make the row of a combination, whose run is done.

    Raises
    ------
    InputError
        If a metric is not in its summary, or no number.
    """
    content = entries.get(key)
    if content is None:
        raise InputError(
            f"{study.source}: the results of {dict(point.labels)} are gone; start the study again"
        )
    failed = content.get("message", "")
    metrics = {
        title: math.nan if failed else metric_of(content["summary"], name, study.source)
        for title, name in study.metrics.items()
    }
    compared = tuple(label for name, label in point.labels.items() if name != study.repetitions)
    return StudyRow(point.labels, metrics, study.reference.get(compared, {}), failed, key, entries)


def rows_of(plan: Plan, entries: Entries, made: Mapping[int, StudyRow] | None = None) -> list[StudyRow]:
    """Return the rows of all combinations, in order; see :func:`row_of`.

    Parameters
    ----------
    plan, entries
        The combinations, and where what is kept of them is.
    made
        Rows that are there already, by their places.
    """
    points = zip(plan.study.points, plan.keys, strict=True)
    there = made or {}
    return [
        there.get(place) or row_of(plan.study, point, key, entries)
        for place, (point, key) in enumerate(points)
    ]


def metric_of(summary: Mapping[str, Any], key: str, source: Path) -> float:
    """Return a metric of a run by its dotted key; NaN where it has no value.

    Raises
    ------
    InputError
        If the summary has no such key, without ``?`` behind it, or it is no number.
    """
    value: Any = summary
    for part in key.removesuffix("?").split("."):
        if not isinstance(value, Mapping) or part not in value:
            if key.endswith("?"):
                return math.nan
            raise InputError(
                f"{source}: metrics: {key}: not in the summary of {summary.get('scenario', 'a loop')}"
            )
        value = value[part]
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        allowed = ", ".join(f"{key}.{part}" for part in value) if isinstance(value, Mapping) else "numbers"
        raise InputError(f"{source}: metrics: {key} is {type(value).__name__}, no number; allowed: {allowed}")
    return float(value)
