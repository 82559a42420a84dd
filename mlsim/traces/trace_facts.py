"""The content of an OTF2 trace, and its defects."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlsim.traces.trace_reader import RankTable, seconds_of, word_of


@dataclass
class RegionTimes:
    """The visits of a region, or of all regions of a name."""

    visits: int = 0
    inclusive: float = 0.0  # s from entering to leaving; a visit inside another of the same name counts once
    exclusive: float = 0.0  # s in it and in no region inside it


@dataclass
class Survey:
    """Summary of a trace's content."""

    creator: str
    machine: str
    length: float  # s from the first to the last event, as the clock is defined
    resolution: int  # ticks of the clock per second
    bytes: int  # of all files
    locations: dict[str, int] = field(default_factory=dict)  # number per type
    processes: int = 0
    events: Counter[str] = field(default_factory=Counter)  # number per kind
    regions: dict[str, RegionTimes] = field(default_factory=dict)  # by name
    sent: int = 0
    sent_bytes: int = 0
    metrics: list[str] = field(default_factory=list)  # names

    @property
    def total(self) -> int:
        """Total number of events."""
        return sum(self.events.values())


@dataclass
class _Open:
    """A region that is open on a location."""

    name: str
    begin: float
    inside: float = 0.0


def survey(trace: Any, anchor: Path) -> Survey:
    """Read a trace to its end and count its content; its files are beside ``anchor``."""
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


_SENDS = ("MpiSend", "MpiIsend")
_RECEIVES = ("MpiRecv", "MpiIrecv")
_OPERATIONS = ("RmaAtomic", "RmaGet", "RmaPut")
_COMPLETIONS = ("RmaOpCompleteBlocking", "RmaOpCompleteNonBlocking", "RmaOpCompleteRemote")

_Key = tuple[str, int, int, int]
"""Communicator, ranks of sender and receiver, tag."""
_Sides = dict[_Key, deque[int]]
"""Times of sides of messages, in order."""


@dataclass
class _Row:
    """Read state of a location."""

    latest: int
    events: int = 0
    stack: list[tuple[str, int]] = field(default_factory=list)
    """Names of open regions, and since when."""
    operations: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Times of operations on windows that are not complete, by name of the window and number."""


class _Messages:
    """Sides of messages that wait for the other one, by communicator, sender, receiver and tag."""

    def __init__(self) -> None:
        self.ranks = RankTable()
        self._sent: _Sides = defaultdict(deque)
        self._received: _Sides = defaultdict(deque)

    def sent(self, key: _Key, time: int) -> int | None:
        """Note a send; return when it was received, if that has been read before."""
        return self._other(self._received, self._sent, key, time)

    def received(self, key: _Key, time: int) -> int | None:
        """Note a receive; return when it was sent, if that has been read before."""
        return self._other(self._sent, self._received, key, time)

    def _other(self, others: _Sides, own: _Sides, key: _Key, time: int) -> int | None:
        if others[key]:
            return others[key].popleft()
        own[key].append(time)
        return None

    def left(self) -> Iterator[tuple[str, _Key, int]]:
        """Yield what has no other side: which side it is, its key, and its time."""
        for side, found in (("send", self._sent), ("receive", self._received)):
            for key, times in found.items():
                for time in times:
                    yield side, key, time


def problems_of(trace: Any) -> Iterator[str]:
    """Read a trace to its end; yield each problem as a sentence with place and time."""
    clock = trace.definitions.clock_properties
    rows: dict[int, _Row] = {}
    messages = _Messages()
    for location, event in trace.events:
        row = rows.setdefault(location._ref, _Row(clock.global_offset))
        row.events += 1
        yield from _of_clock(trace, location, row, event.time)
        yield from _of_regions(trace, location, row, event)
        yield from _of_messages(trace, messages, location, event)
        yield from _of_operations(trace, location, row, event)
    for location in trace.definitions.locations:
        read = rows.get(location._ref, _Row(clock.global_offset))
        for name, since in read.stack:
            yield f"{_at(trace, location, since)}: {name!r} is entered and never left"
        for (window, _), times in read.operations.items():
            for time in times:
                yield f"{_at(trace, location, time)}: an operation on {window!r} is never complete"
        if location.number_of_events != read.events:
            yield (
                f"{_name(location)}: has {read.events} events, where its definition says "
                f"{location.number_of_events}"
            )
    for side, (comm, sender, receiver, tag), time in messages.left():
        yield (
            f"at {seconds_of(trace, time):.9f} s: the {side} of a message from rank {sender} to rank "
            f"{receiver} (communicator {comm}, tag {tag}) has no other side"
        )


def _of_clock(trace: Any, location: Any, row: _Row, time: int) -> Iterator[str]:
    clock = trace.definitions.clock_properties
    if time < row.latest:
        before = seconds_of(trace, row.latest)
        yield f"{_at(trace, location, time)}: the clock goes back, from {before:.9f} s"
    if time > clock.global_offset + clock.trace_length:
        yield f"{_at(trace, location, time)}: an event after the end of the trace, as its clock is defined"
    row.latest = max(row.latest, time)


def _of_regions(trace: Any, location: Any, row: _Row, event: Any) -> Iterator[str]:
    kind = type(event).__name__
    if kind == "Enter":
        row.stack.append((event.region.name, event.time))
    elif kind == "Leave":
        name = event.region.name
        if not row.stack:
            yield f"{_at(trace, location, event.time)}: {name!r} is left and was not entered"
        elif row.stack[-1][0] == name:
            row.stack.pop()
        else:
            inner = row.stack.pop()[0]
            yield f"{_at(trace, location, event.time)}: {name!r} is left, where {inner!r} was entered last"


def _of_messages(trace: Any, messages: _Messages, location: Any, event: Any) -> Iterator[str]:
    kind = type(event).__name__
    if kind not in (*_SENDS, *_RECEIVES):
        return
    own = messages.ranks.of(event.communicator, location)
    if kind in _SENDS:
        key = (event.communicator.name, own, event.receiver, event.msg_tag)
        sent, received = event.time, messages.sent(key, event.time)
    else:
        key = (event.communicator.name, event.sender, own, event.msg_tag)
        sent, received = messages.received(key, event.time), event.time
    if sent is not None and received is not None and received < sent:
        yield (
            f"{_at(trace, location, event.time)}: a message from rank {key[1]} to rank {key[2]} is received "
            f"before it is sent, by {seconds_of(trace, sent) - seconds_of(trace, received):.9f} s"
        )


def _of_operations(trace: Any, location: Any, row: _Row, event: Any) -> Iterator[str]:
    kind = type(event).__name__
    if kind not in (*_OPERATIONS, *_COMPLETIONS):
        return
    begun = row.operations[event.win.name, event.matching_id]
    if kind in _OPERATIONS:
        begun.append(event.time)
    elif begun:
        begun.pop(0)
    else:
        yield f"{_at(trace, location, event.time)}: an operation on {event.win.name!r} is complete, not begun"


def _name(location: Any) -> str:
    return f"{location.name} of {location.group.name}"


def _at(trace: Any, location: Any, time: int) -> str:
    return f"{_name(location)}, at {seconds_of(trace, time):.9f} s"
