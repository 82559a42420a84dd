"""The part of a run that its trace shows: a span of time, some of the jobs.

What reaches over an end of the span is entered and left there, and metrics begin with the values that hold,
as in parts that ``mlsim.traces.cut`` takes from traces which are there already.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim.record.otf2.layout import LATEST, nanoseconds
from mlsim.record.otf2.message_events import MessageEvents
from mlsim.record.otf2.metrics import Samples
from mlsim.record.tables import Jobs

__all__ = ["Part", "Selection", "part_of", "select_messages", "select_samples"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a run is shown.

    Attributes
    ----------
    begin, end
        The span of time, in s; both ends belong to it.
    jobs
        Identifiers of jobs; empty: all.
    """

    begin: float = 0.0
    end: float = math.inf
    jobs: Collection[int] = ()


class Part(NamedTuple):
    """The same, as compiled code reads it: the span in ns, and for each job whether it is shown."""

    first: int
    last: int
    shown: NDArray[np.bool_]


def part_of(selection: Selection, jobs: Jobs) -> Part:
    """Prepare a selection for the jobs of a run."""
    ends = nanoseconds(np.minimum(np.array([selection.begin, selection.end]), LATEST))
    shown = np.ones(len(jobs.job_id), np.bool_)
    if selection.jobs:
        shown = np.isin(jobs.job_id, list(selection.jobs))
    return Part(int(ends[0]), int(ends[1]), shown)


def select_messages(messages: MessageEvents, part: Part, jobs: Jobs) -> MessageEvents:
    """Keep the sides of messages in the span, of jobs that are shown."""
    kept = (messages.time >= part.first) & (messages.time <= part.last)
    if not part.shown.all():
        kept &= np.isin(messages.job_id, jobs.job_id[part.shown])
    if kept.all():
        return messages
    before = np.concatenate([[0], np.cumsum(kept)])
    columns = {name: getattr(messages, name)[kept] for name in MessageEvents._fields[1:]}
    return MessageEvents(first=before[messages.first], **columns)


def select_samples(samples: Samples, part: Part) -> Samples:
    """Keep the values that hold in the span, of which the first may have begun to before."""
    times = samples.times
    low = max(int(np.searchsorted(times, part.first, side="right")) - 1, 0)
    high = int(np.searchsorted(times, part.last, side="right"))
    return Samples(np.maximum(times[low:high], part.first), samples.values[low:high])
