"""The content of a trace's rows, as columns that the compiled pass reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.record.otf2.message_events import MessageEvents
from mlsim.record.otf2.selection import Part

__all__ = ["CHUNK_FIELDS", "ChunkColumns", "Content", "Intervals", "JobColumns"]


class Intervals(NamedTuple):
    """Intervals on the rows: columns by interval (see ``Layout``), then of the occupancy rows behind them.

    ``told`` is when the interval's PEs knew that no work is left, or has no rows where none is shown.
    """

    first: Ints
    occupancy_row: NDArray[np.int32]
    told: Floats
    job: Ints
    start: Floats
    end: Floats


class JobColumns(NamedTuple):
    """Regions of jobs, and the attributes of their enter events."""

    region: Ints
    job_id: Ints
    has_loop: NDArray[np.bool_]


CHUNK_FIELDS = ("start", "end", "first iteration", "iterations", "step")
"""What there is of a chunk; times in ns."""


class ChunkColumns(NamedTuple):
    """Chunks; those of interval i are ``rows[first[i]:first[i + 1]]``, in order of time.

    A row has :data:`CHUNK_FIELDS`. Where none are shown there are no rows, and ``first`` means nothing.
    """

    first: Ints
    rows: Ints


class Content(NamedTuple):
    """The content to write.

    Enter events of jobs have attributes where ``describe`` is true, those of chunks more than their
    iterations where ``details`` is. Iterations are written in ``size_bits`` bits.
    """

    intervals: Intervals
    jobs: JobColumns
    describe: bool
    details: bool
    size_bits: int
    part: Part
    idle_region: int
    chunks: ChunkColumns
    messages: MessageEvents
