"""The pictures that a study of runs asks for, and what is kept of a run to draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim.errors import InputError
from mlsim.experiment.study.axes import Axis
from mlsim.experiment.study.file import entries, one_of
from mlsim.experiment.study.points import matches
from mlsim.record import Records
from mlsim.scenario import Scenario

__all__ = ["FORMATS", "PICTURE_KEYS", "Balance", "PictureSpec", "balance_of", "busy_curve", "picture_of"]


PICTURE_KEYS = {
    "utilization": ("lines", "panels", "where"),
    "balance": ("lines", "panels", "where"),
    "metric": ("along", "lines", "panels", "where", "relative", "metric"),
    "gantt": ("where", "span"),
}
_BINS = 400
FORMATS = ("png", "svg", "pdf")
"""What pictures may be written as."""


@dataclass(frozen=True)
class PictureSpec:
    """One entry of a study's pictures.

    Attributes
    ----------
    kind
        ``utilization``: busy share of the machine over time. ``balance``: max/mean of finishing times of
        each job's loop. ``metric``: a metric along an axis. ``gantt``: nodes over time.
    lines, panels, along
        Axes: a curve a label, a panel a label, and what is along the x axis.
    where
        Labels that the picture is about.
    relative
        Whether the metric is the first one relative to the study's combination.
    metric
        Title of the metric; empty: the first.
    span
        Part of the time shown (s), for ``gantt``; None: all.
    """

    kind: str
    lines: str = ""
    panels: str = ""
    along: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    relative: bool = False
    metric: str = ""
    span: tuple[float, float] | None = None

    def shows(self, labels: Mapping[str, str]) -> bool:
        """Return whether a run is in the picture."""
        return matches(labels, self.where)


class Balance(NamedTuple):
    """Each loop of a run: its job, the name of the job's executable, and max/mean of finishing times."""

    job_id: NDArray[np.int64]
    executable: list[str]
    max_over_mean: Floats


def picture_of(value: object, axes: Sequence[Axis], place: str) -> PictureSpec:
    """Read one entry of a study's pictures.

    Raises
    ------
    InputError
        If it has another shape; the message begins with ``place``.
    """
    if not isinstance(value, dict) or "kind" not in value:
        raise InputError(f"{place}: {value!r}; allowed: mappings with kind, one of {', '.join(PICTURE_KEYS)}")
    kind = one_of(value["kind"], list(PICTURE_KEYS), f"{place}: kind")
    for key in value:
        one_of(key, ["kind", *PICTURE_KEYS[kind]], f"{place}: {kind}")
    names = [axis.name for axis in axes]
    chosen = {
        key: one_of(value[key], names, f"{place}: {key}")
        for key in ("lines", "panels", "along")
        if key in value
    }
    for key in ("lines", "along"):
        if key in PICTURE_KEYS[kind] and key not in chosen:
            raise InputError(f"{place}: {kind}: {key}: missing; allowed: {', '.join(names)}")
    (where,) = entries([value.get("where", {})], axes, f"{place}: where")
    return PictureSpec(
        kind,
        **chosen,
        where=where,
        relative=bool(value.get("relative", False)),
        metric=str(value.get("metric", "")),
        span=_span(value["span"], place) if "span" in value else None,
    )


def _span(value: object, place: str) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value):
        begin, end = map(float, value)
        if begin < end:
            return begin, end
    raise InputError(f"{place}: span: {value!r}; allowed: [BEGIN, END] in s, e.g. [415, 550]")


def busy_curve(records: Records) -> tuple[Floats, Floats]:
    """Return the busy share of the machine in equal bins of a run: centres (s) and shares."""
    from mlsim.analysis.plots.style import time_axis
    from mlsim.analysis.plots.utilization import busy_share

    axis = time_axis(records.jobs)
    edges = np.linspace(axis.begin, axis.end, _BINS + 1)
    return 0.5 * (edges[1:] + edges[:-1]), busy_share(records, axis, _BINS)


def balance_of(scenario: Scenario, records: Records) -> Balance:
    """Return the load balance of each loop of a run."""
    from mlsim.analysis.metrics import max_over_mean
    from mlsim.cosim import workload_of

    names = workload_of(scenario).header.get("executable_names")
    jobs, loops = records.jobs, records.loops
    codes = jobs.executable[loops.job].tolist()
    words = [names[code - 1] if isinstance(names, list) and code > 0 else str(code) for code in codes]
    return Balance(jobs.job_id[loops.job], words, max_over_mean(loops))
