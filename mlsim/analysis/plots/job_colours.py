"""Colours of jobs in Gantt charts: one for each job, or for each user, partition, application."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.patches import Patch

from mlsim._runtime.arrays import Floats, Ints
from mlsim.analysis.formatting import count, share
from mlsim.analysis.plots.chart_style import job_palette, rgb
from mlsim.analysis.plots.gantt_plot import job_colours
from mlsim.errors import InputError
from mlsim.record import Records
from mlsim.record.derived_times import allocated_seconds

BY_JOB = "job"
COLOURED_BY = {
    "user": "user", "group": "group", "application": "application", "executable": "executable",
    "technique": "technique", "partition": "partition", "queue": "queue", "qos": "qos",
}  # fmt: skip
"""Words for properties by which jobs are coloured, to their columns of :class:`mlsim.record.Jobs`."""
_HUES = 7  # values with colours of their own, those with the most core-seconds
_OTHERS, _UNKNOWN = "#BBBBBB", "#888888"


class Colours(NamedTuple):
    """Colours of the jobs of a run."""

    row: Ints  # of the palette, for each job
    entries: list[tuple[str, int]]  # words and row of the colours, if these mean anything

    def handles(self) -> list[Any]:
        """Return the legend entries."""
        palette = palette_of_jobs()
        return [Patch(color=tuple(palette[row]), label=words) for words, row in self.entries]


def palette_of_jobs() -> Floats:
    """Return the colours of jobs, then those of other and of unknown values; RGB in [0, 1]."""
    return np.concatenate([job_palette(), [rgb(_OTHERS), rgb(_UNKNOWN)]])


def colours_of(records: Records, by: str = BY_JOB) -> Colours:
    """Return the colours of jobs: one each, or by a property; raise InputError if none of them has it.

    The values with the most allocated core-seconds have hues, all others share a grey. The legend has the
    share of each in the core-seconds of all jobs.
    """
    if by == BY_JOB:
        return Colours(job_colours(records.jobs.job_id), [])
    values = _values(records, by)
    if values is None:
        known = [word for word in COLOURED_BY if _values(records, word) is not None]
        raise InputError(
            f"--colour {by}: no job of this run has a known {by}; allowed here: {', '.join([BY_JOB, *known])}"
        )
    held = allocated_seconds(records.occupancy, len(values))
    codes, of = np.unique(values, return_inverse=True)
    seconds = np.bincount(of, weights=held, minlength=len(codes))
    order = np.lexsort((codes, -seconds))
    order = order[codes[order] >= 0]
    rows = np.full(len(codes), len(job_palette()))  # of others
    rows[order[:_HUES]] = np.arange(min(len(order), _HUES))
    rows[codes < 0] = len(job_palette()) + 1
    names, total = _names(records, by, codes), max(float(seconds.sum()), 1e-300)
    entries = [(f"{names[k]} ({share(float(seconds[k]) / total)})", int(rows[k])) for k in order[:_HUES]]
    for rest, words in ((order[_HUES:], count(len(order) - _HUES, "other")), (codes < 0, "unknown")):
        if np.any(rest):
            part = share(float(seconds[rest].sum()) / total)
            entries.append((f"{words} ({part})", int(rows[rest][0])))
    return Colours(rows[of], entries)


def known_colours(records: Records) -> dict[str, Colours]:
    """Return the colours by each property in which the jobs of a run differ."""
    both = records.jobs.application is not None  # else executables are the applications
    values = {by: _values(records, by) for by in COLOURED_BY if both or by != "executable"}
    return {
        by: colours_of(records, by)
        for by, found in values.items()
        if found is not None and found.min() != found.max()
    }


def _column(records: Records, by: str) -> str:
    """Return the column of a property; with one application for all jobs executables are applications."""
    alone = by == "application" and records.jobs.application is None
    return "executable" if alone else COLOURED_BY[by]


def _values(records: Records, by: str) -> Ints | None:
    """Return the value of each job, -1 where unknown; None if all are."""
    values: Ints | None = getattr(records.jobs, _column(records, by))
    return None if values is None or not np.any(values >= 0) else values


def _names(records: Records, by: str, codes: Ints) -> list[str]:
    """Return the names of values, with their numbers where several have one name."""
    known = records.names.of.get(_column(records, by), {})
    names = [known.get(code, f"{by} {code}") for code in codes.tolist()]
    return [
        f"{name} [{code}]" if names.count(name) > 1 else name
        for name, code in zip(names, codes.tolist(), strict=True)
    ]
