"""How good candidates and baselines are, by the rows of their runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlsim.experiment.study.rows import StudyRow
from mlsim.experiment.study.search.candidates import FITTED, HELD_OUT, LABELS
from mlsim.experiment.study.search.model import Search

__all__ = ["Outcome", "Tried", "best_of", "outcome_of", "tried_of"]

_NAN = float("nan")


@dataclass(frozen=True)
class Tried:
    """A candidate, or a baseline, on some repetitions."""

    name: str
    """Number of the candidate, or label of the baseline."""
    generation: str
    labels: Mapping[str, str]
    """Of the parameters."""
    objective: float
    """NaN if a run has failed, or has no such value."""
    values: Mapping[str, float]
    """What the objective is the average of, by repetition."""
    metrics: Mapping[str, Mapping[str, float]]
    """Title of a metric to its values, by repetition."""
    failed: Sequence[str]
    """Why runs failed."""

    @property
    def works(self) -> bool:
        """Whether it can be judged."""
        return math.isfinite(self.objective)


@dataclass(frozen=True)
class Outcome:
    """What came out of a search."""

    candidates: Sequence[Tried]
    """In the order they were asked for."""
    baselines: Mapping[str, Tried]
    """By label, on what candidates were chosen by."""
    best: Tried
    held_out: Mapping[str, Tried]
    """The best candidate (``best``) and the baselines, on what was held out; empty if nothing was."""


def tried_of(
    search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None = None
) -> list[Tried]:
    """Return the candidates or baselines of some rows, in their order.

    Parameters
    ----------
    search
        Whose rows they are.
    rows
        Of one part: a row a repetition, those of a candidate behind each other.
    below
        By repetition, what values are divided by; None: nothing.
    """
    groups: dict[str, list[StudyRow]] = {}
    for row in rows:
        groups.setdefault(row.labels["candidate"], []).append(row)
    return [_tried(search, group, below) for group in groups.values()]


def _tried(search: Search, rows: Sequence[StudyRow], below: Mapping[str, float] | None) -> Tried:
    names = [parameter.name for parameter in search.parameters]
    first = rows[0].labels
    repetitions = [_repetition(row, names) for row in rows]
    titles = list(rows[0].metrics)
    metrics = {
        title: {name: row.metrics[title] for name, row in zip(repetitions, rows, strict=True)}
        for title in titles
    }
    values = {
        name: _divided(value, below.get(name, _NAN)) if below is not None else value
        for name, value in metrics[search.title].items()
    }
    return Tried(
        name=first["candidate"],
        generation=first["generation"],
        labels={name: first[name] for name in names},
        objective=_average(search.average, list(values.values())),
        values=values,
        metrics=metrics,
        failed=[row.failed for row in rows if row.failed],
    )


def _repetition(row: StudyRow, names: Sequence[str]) -> str:
    """Return what tells the repetitions of a candidate apart."""
    return ", ".join(label for name, label in row.labels.items() if name not in (*LABELS, *names))


def _divided(value: float, below: float) -> float:
    return value / below if below > 0.0 else _NAN


def _average(kind: str, values: Sequence[float]) -> float:
    """Return the mean or median; NaN where one of the values is not a number."""
    known = np.array(values)
    if not np.isfinite(known).all():
        return _NAN
    return float(np.median(known) if kind == "median" else known.mean())


def best_of(search: Search, candidates: Sequence[Tried]) -> Tried | None:
    """Return the best candidate, the first of those that are equally good; None if none can be judged."""
    known = [one for one in candidates if one.works]
    return min(known, key=lambda one: search.loss(one.objective)) if known else None


def outcome_of(search: Search, rows: Sequence[StudyRow]) -> Outcome:
    """Return what came out of a search, by all of its rows."""
    parts = {part: [row for row in rows if row.labels["part"] == part] for part in (FITTED, HELD_OUT)}
    fitted, candidates = _split(search, parts[FITTED])
    best = best_of(search, candidates)
    assert best is not None, "a search in which none can be judged ends with an error"
    others, chosen = _split(search, parts[HELD_OUT])
    held_out = {"best": chosen[0], **others} if chosen else {}
    return Outcome(candidates, fitted, best, held_out)


def _split(search: Search, rows: Sequence[StudyRow]) -> tuple[dict[str, Tried], list[Tried]]:
    """Return baselines and candidates of rows that have the same repetitions."""
    ours = [row for row in rows if row.labels["candidate"] in search.baselines]
    below = None
    if search.relative:
        (one,) = tried_of(search, [row for row in ours if row.labels["candidate"] == search.relative])
        below = one.values
    baselines = {one.name: one for one in tried_of(search, ours, below)}
    rest = [row for row in rows if row.labels["candidate"] not in search.baselines]
    return baselines, tried_of(search, rest, below)
