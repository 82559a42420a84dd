"""Parts of a trace, as traces: a span of time, some of the jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlsim.errors import InputError
from mlsim.traces.reading import seconds_of

__all__ = ["cut"]

_OF_JOBS = ("Mpi", "Rma")
"""How kinds of events begin that belong to a job."""


def cut(
    trace: Any, directory: Path, *, begin: float | None, end: float | None, jobs: Collection[str] = ()
) -> int:
    """Write a part of a trace as a trace of its own, with all its definitions.

    A region that is open when the part begins is entered there, and left where it ends; metrics begin with
    the values that hold there. A message of which one side is outside of the span keeps the other.

    Parameters
    ----------
    trace
        From :func:`mlsim.traces.opened`.
    directory
        Where to; must not exist, or be empty.
    begin, end
        Seconds from the start of the trace; None: from its start, to its end.
    jobs
        Canonical names of the outermost regions to keep: numbers of jobs. Messages are kept whose attribute
        ``job id`` is one of them; those without it, and operations on windows, where one of them is open.
        Empty: all.

    Returns
    -------
    int
        Events written.

    Raises
    ------
    InputError
        If nothing is left.
    """
    import otf2

    from mlsim.record.otf2.layout import MOST_ROWS
    from mlsim.record.otf2.library import fix_trace_id

    clock = trace.definitions.clock_properties
    first = clock.global_offset + (0 if begin is None else round(begin * clock.timer_resolution))
    last = clock.global_offset + (clock.trace_length if end is None else round(end * clock.timer_resolution))
    if last < first:
        raise InputError(f"the part ends at {end:g} s, before it begins, at {begin or 0.0:g} s")
    events = 0
    with otf2.writer.open(str(directory), definitions=trace.definitions) as writer:
        writer.creator = "mlsim"
        needed = _referred(trace) if jobs or len(list(trace.definitions.locations)) > MOST_ROWS else None
        for locations, found in trace.parts():
            for location, event in _part(found, first, last, frozenset(jobs)):
                writer.event_writer_from_location(location)(event)
                events += 1
            for location in locations:
                _close(writer, trace, location, needed)
        if not events:
            raise InputError(f"nothing is left: no event is in this part of the trace, {_span(trace)}")
        writer._realtime_timestamp = 0.0  # else it is now: the same trace would give other bytes
    fix_trace_id(directory)
    return events


_CLOSED = SimpleNamespace(close=lambda: None)


def _span(trace: Any) -> str:
    clock = trace.definitions.clock_properties
    return f"which lasts from 0 to {seconds_of(trace, clock.global_offset + clock.trace_length):.9g} s"


def _referred(trace: Any) -> set[int]:
    """Return the numbers of locations that groups, as those of communicators, have as members."""
    members = (member for group in trace.definitions.groups for member in group.members)
    return {member._ref for member in members if hasattr(member, "number_of_events")}


def _close(writer: Any, trace: Any, location: Any, needed: set[int] | None) -> None:
    """Close a location's files, which readers look for; without events it is left out unless ``needed``."""
    if needed is not None and location._ref not in needed and location._ref not in writer._event_writers:
        del trace.definitions.locations._elements_by_ref[location._ref]
        return
    writer.event_writer_from_location(location).close()
    # What is closed keeps no buffers; the writer asks for it, and closes it, once more at its end.
    writer._event_writers[location._ref] = _CLOSED


def _part(
    found: Iterator[tuple[Any, Any]], first: int, last: int, jobs: frozenset[str]
) -> Iterator[tuple[Any, Any]]:
    """Yield the events of the part, with those that open and close what reaches over its ends."""
    from otf2 import events as kinds

    stacks: dict[Any, list[Any]] = {}
    metrics: dict[Any, Any] = {}
    begun: set[Any] = set()
    for location, event in found:
        kind = type(event).__name__
        stack = stacks.setdefault(location, [])
        if event.time >= first and location not in begun:
            begun.add(location)
            if location in metrics and event.time > first:
                before = metrics[location]
                yield location, kinds.Metric(first, before.metric, before.values)
            for enter in stack:
                yield location, kinds.Enter(first, enter.region, attributes=enter.attributes)
        if event.time > last:
            if kind == "Leave" and stack and stack[-1].region is event.region:
                yield location, kinds.Leave(last, stack.pop().region)
            continue
        if kind == "Metric" and event.time < first:
            metrics[location] = event  # which holds until the next one
        if kind == "Enter":
            if not jobs or stack or event.region.canonical_name in jobs:
                stack.append(event)
                if event.time >= first:
                    yield location, event
            continue
        if kind == "Leave":
            if stack and stack[-1].region is event.region:
                stack.pop()
                if event.time >= first:
                    yield location, event
            continue
        if event.time >= first and (not jobs or _is_of(event, kind, jobs, bool(stack))):
            yield location, event
    for location, before in metrics.items():
        if location not in begun:  # nothing changes any more
            yield location, kinds.Metric(first, before.metric, before.values)


def _is_of(event: Any, kind: str, jobs: frozenset[str], is_amid: bool) -> bool:
    """Return whether an event that is no enter or leave, or is ``is_amid`` one of the jobs, belongs to it."""
    if not kind.startswith(_OF_JOBS):
        return True
    said = {attribute.name: value for attribute, value in (event.attributes or {}).items()}
    return str(said["job id"]) in jobs if "job id" in said else is_amid
