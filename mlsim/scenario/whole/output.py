"""The ``output`` section: what a run writes beside its tables and its summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mlsim.scenario.values.field_types import OneOf, Switch
from mlsim.scenario.values.lists import JobNumbers, TimeWindow
from mlsim.scenario.values.plugins import PluginList
from mlsim.scenario.values.section import Section, Violation
from mlsim.scenario.words import TraceLevel, TraceRows

__all__ = ["OutputConfig"]


class OutputConfig(Section):
    """What is written."""

    trace: OneOf[TraceLevel] = TraceLevel.NONE
    """Detail of the OTF2 trace: none, jobs (queue and jobs), nodes (also what each node does), chunks (also
    every chunk of every PE) or messages (also how PEs get them: requests and replies, or atomics on windows).
    """
    trace_details: Switch = False
    """Whether each chunk in the trace also has its first iteration and its scheduling step, which follow from
    the iterations of the chunks before it and make the trace a third larger. For chunks
    and messages.
    """
    trace_apart: Switch = False
    """Whether events of a row of the trace at the same time are moved apart, by 1 ns each, for readers that
    sort events by their times alone, as Pipit does for exclusive times and its time profile.
    """
    trace_window: TimeWindow | None = Field(None, examples=[["1 h", "2 h"]])
    """Span of time that the trace shows, from the scenario's start; what is open at its ends is entered and
    left there. Default: all of the run.
    """
    trace_jobs: JobNumbers | None = Field(None, examples=[[17, 18]])
    """Numbers of the jobs that the trace shows; metrics are those of all. Default: all jobs."""
    trace_rows: OneOf[TraceRows] = TraceRows.AUTO
    """Rows of the trace, each of which takes two files: cores (at the levels jobs and nodes those of a node
    are one row where jobs have their nodes to themselves), nodes (one row each, with the chunks of its cores
    shown together), or auto: cores up to 997 rows, beyond that nodes, or several nodes in a row.
    """
    pictures: Switch = True
    """Whether pictures are drawn."""
    csv: Switch = False
    """Whether tables are also written as CSV."""
    passes: Switch = False
    """Whether every pass of the dispatcher is written (passes.parquet): time, queue length, starts, wall
    time.
    """
    writers: Annotated[tuple[str, ...], PluginList("mlsim.writers")] | None = Field(
        None, examples=[["./mine.py:write"]]
    )
    """Writers of further files: functions in files, or installed ones, which get the run and a directory; see
    docs/reference/records.md. Default: none.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check what a trace shows."""
        if self.trace_details and not self.trace.shows_chunks:
            message = "tells more of chunks, and needs trace: chunks; try trace: chunks, or leave it out"
            yield Violation("trace_details", message, ("trace",))
        if self.trace_apart and self.trace is TraceLevel.NONE:
            message = "is about a trace, and needs one; try trace: jobs, or leave it out"
            yield Violation("trace_apart", message, ("trace",))
        if self.trace_rows is not TraceRows.AUTO and self.trace is TraceLevel.NONE:
            message = "is about a trace, and needs one; try trace: jobs, or leave it out"
            yield Violation("trace_rows", message, ("trace",))
        if self.trace_rows is TraceRows.NODES and self.trace is TraceLevel.MESSAGES:
            message = "has no rows of single PEs, whose requests trace: messages shows; try trace: chunks"
            yield Violation("trace_rows", message, ("trace",))
        for key in ("trace_window", "trace_jobs"):
            if getattr(self, key) is not None and self.trace is TraceLevel.NONE:
                message = "chooses a part of a trace, and needs one; try trace: jobs, or leave it out"
                yield Violation(key, message, ("trace",))
