"""The axis of all weeks in which the logs of a study have jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mlsim._shared import forget, sharing
from mlsim.errors import InputError, NothingLeftError
from mlsim.experiment.study.axes import Axis, Point, points, week_axis
from mlsim.experiment.study.subjects import Base, Subject
from mlsim.scenario import Scenario, SelectConfig

_WEEK = 7 * 86_400.0

Weeks = Callable[[Mapping[str, str]], bool]
"""Returns whether the log of a combination has the week that its labels name."""


def all_weeks(
    axes: Sequence[Axis], base: Base, subject: Subject, filled: Callable[[Point], Point], place: str
) -> tuple[list[Axis], Weeks]:
    """Find the weeks of the axis that stands for all of them.

    Parameters
    ----------
    axes
        Of the study; where none is that of all weeks, they stay as they are.
    base, subject
        Of the study.
    filled
        Adds the keys of all runs to a combination.
    place
        What messages begin with.

    Returns
    -------
    tuple
        The axes, and what tells which combinations there are: logs need not have the same weeks.

    Raises
    ------
    InputError
        If a log cannot be read, or the study is of loops.
    """
    if not any(axis.every_week for axis in axes):
        return list(axes), lambda _: True
    if subject.kind == "loops":
        raise InputError(f"{place}: weeks: are those of a log, and this study is of loops; give of: runs")
    others = [axis for axis in axes if not axis.every_week]
    known: dict[str, set[int]] = {}
    found: dict[tuple[str, ...], set[int]] = {}
    with sharing():
        for point in points(others, []):
            overrides = filled(replace(point, labels={**point.labels, "week": "1"})).overrides
            given = subject.given(base, overrides)
            key = json.dumps([given.get("workload"), given.get("platform")], default=str)
            if key not in known:
                known[key] = _weeks_of(subject.scenario(base, overrides))
            found[tuple(point.labels.values())] = known[key]
    forget()
    names = [axis.name for axis in others]

    def has(labels: Mapping[str, str]) -> bool:
        return int(labels["week"]) in found[tuple(labels[name] for name in names)]

    weeks = sorted(set().union(*known.values()))
    if not weeks:
        raise InputError(f"{place}: weeks: no week of the log has a job")
    return [week_axis(weeks) if axis.every_week else axis for axis in axes], has


def _weeks_of(scenario: Scenario) -> set[int]:
    """Return the weeks of a scenario's log in which its selection leaves jobs."""
    from mlsim.cosim import workload_of

    select = scenario.workload.select

    def selected(other: SelectConfig) -> Scenario:
        return scenario.model_copy(
            update={"workload": scenario.workload.model_copy(update={"select": other})}
        )

    *_, last = workload_of(selected(SelectConfig(warm_up=select.warm_up))).blocks()
    weeks = set()
    cut = scenario.workload.weeks is not None
    for week in range(0 if cut else 1, int(last.submit_time[-1] // _WEEK) + 2):
        try:
            workload_of(selected(select.model_copy(update={"weeks": (week, week)})))
        except NothingLeftError:
            continue
        weeks.add(week)
    return weeks
