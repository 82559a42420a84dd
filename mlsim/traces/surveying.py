"""What is in a trace: events by kind, regions with their times, messages, locations, bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlsim.traces.reading import seconds_of, word_of

__all__ = ["RegionTimes", "Survey", "survey"]


@dataclass
class RegionTimes:
    """The visits of a region, or of all regions of a name."""

    visits: int = 0
    inclusive: float = 0.0
    """Seconds from entering to leaving, over all visits; one inside another of the same name counts once."""
    exclusive: float = 0.0
    """Seconds in it and in no region inside it."""


@dataclass
class Survey:
    """What a trace has."""

    creator: str
    machine: str
    length: float
    """Seconds from the first to the last event, as the clock is defined."""
    resolution: int
    """Ticks of the clock a second."""
    bytes: int
    """Of all files."""
    locations: dict[str, int] = field(default_factory=dict)
    """How many of each type."""
    processes: int = 0
    events: Counter[str] = field(default_factory=Counter)
    """How many of each kind."""
    regions: dict[str, RegionTimes] = field(default_factory=dict)
    """By name."""
    sent: int = 0
    sent_bytes: int = 0
    metrics: list[str] = field(default_factory=list)
    """Names."""

    @property
    def total(self) -> int:
        """How many events there are."""
        return sum(self.events.values())


@dataclass
class _Open:
    """A region that is open on a location."""

    name: str
    begin: float
    inside: float = 0.0


def survey(trace: Any, anchor: Path) -> Survey:
    """Read a trace to its end and count what is in it.

    Parameters
    ----------
    trace
        From :func:`mlsim.traces.opened`.
    anchor
        Its anchor, beside which its files are.
    """
    definitions = trace.definitions
    clock = definitions.clock_properties
    found = Survey(
        creator=_text(trace, "creator"),
        machine=_text(trace, "machine_name"),
        length=clock.trace_length / clock.timer_resolution,
        resolution=clock.timer_resolution,
        bytes=_bytes(anchor),
        locations=dict(Counter(word_of(location.type) for location in definitions.locations)),
        processes=sum(1 for _ in definitions.location_groups),
        metrics=[member.name for metric in definitions.metrics for member in _members(metric)],
    )
    stacks: dict[int, list[_Open]] = {}
    for location, event in trace.events:
        kind = type(event).__name__
        found.events[kind] += 1
        if kind == "Enter":
            stack = stacks.setdefault(location._ref, [])
            stack.append(_Open(event.region.name, seconds_of(trace, event.time)))
        elif kind == "Leave" and stacks.get(location._ref):
            _close(found, stacks[location._ref], seconds_of(trace, event.time))
        elif kind in ("MpiSend", "MpiIsend"):
            found.sent += 1
            found.sent_bytes += event.msg_length
    return found


def _close(found: Survey, stack: list[_Open], time: float) -> None:
    ended = stack.pop()
    length = time - ended.begin
    times = found.regions.setdefault(ended.name, RegionTimes())
    times.visits += 1
    times.exclusive += length - ended.inside
    if all(outer.name != ended.name for outer in stack):
        times.inclusive += length
    if stack:
        stack[-1].inside += length


def _members(metric: Any) -> list[Any]:
    return list(getattr(metric, "members", ()))


def _text(trace: Any, name: str) -> str:
    """Return a text of the anchor, for which the package has no names."""
    import _otf2

    function = {"creator": "Reader_GetCreator", "machine_name": "Reader_GetMachineName"}[name]
    return str(getattr(_otf2, function)(trace.handle) or "")


def _bytes(anchor: Path) -> int:
    """Return the bytes of a trace's files: the anchor, and what is named after it."""
    inner = anchor.with_suffix("")
    files = [anchor, anchor.with_suffix(".def"), *(inner.iterdir() if inner.is_dir() else ())]
    return sum(file.stat().st_size for file in files if file.is_file())
