"""OTF2 traces in other formats, and parts of traces."""

import gzip
import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from mlsim.errors import InputError, OutputError
from mlsim.traces.trace_reader import RankTable, seconds_of, word_of

_AT_ONCE = 200_000  # events of a frame


def convert(trace: Any, file: Path) -> None:
    """Write a trace in the format of the file's suffix, one of :data:`FORMATS`; InputError otherwise."""
    for suffix, (_, write) in FORMATS.items():
        if file.name.endswith(suffix):
            write(trace, file)
            return
    allowed = ", ".join(f"{suffix} ({words})" for suffix, (words, _) in FORMATS.items())
    raise InputError(f"{file}: no format for this name; allowed: {allowed}")


def _write_json(trace: Any, file: Path) -> None:
    with open(file, "w", encoding="utf-8", newline="\n") as out:
        _write_events(trace, out)


def _write_packed_json(trace: Any, file: Path) -> None:
    # Neither a name nor a time in the file, so that the same trace gives the same bytes.
    with (
        open(file, "wb") as packed,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as stream,
        io.TextIOWrapper(stream, "utf-8", newline="\n") as out,
    ):
        _write_events(trace, out)


def _write_events(trace: Any, out: IO[str]) -> None:
    """Write the events of Chrome's trace event format, a line each."""
    out.write('{"displayTimeUnit":"ms","traceEvents":[')
    for place, event in enumerate(_events(trace)):
        out.write(",\n" if place else "\n")
        json.dump(event, out, separators=(",", ":"))
    out.write("\n]}\n")


def _events(trace: Any) -> Iterator[dict[str, Any]]:
    for group in trace.definitions.location_groups:
        yield {"ph": "M", "name": "process_name", "pid": group._ref, "args": {"name": group.name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": group._ref, "args": {"sort_index": group._ref}}
    for location in trace.definitions.locations:
        about = {"ph": "M", "pid": location.group._ref, "tid": location._ref}
        yield about | {"name": "thread_name", "args": {"name": location.name}}
    stacks: dict[int, list[tuple[Any, int, dict[str, Any]]]] = {}
    flows = _Flows()
    for location, event in trace.events:
        kind = type(event).__name__
        where = {"pid": location.group._ref, "tid": location._ref}
        time = _micros(trace, event.time)
        if kind == "Enter":
            stacks.setdefault(location._ref, []).append((event.region, event.time, _said(event)))
        elif kind == "Leave" and stacks.get(location._ref):
            region, begin, said = stacks[location._ref].pop()
            start = _micros(trace, begin)
            span = {"ph": "X", "name": region.name, "cat": word_of(region.region_role).lower(), "ts": start}
            yield span | {"dur": round(time - start, 3)} | where | ({"args": said} if said else {})
        elif kind == "Metric":
            for member, value in zip(event.metric.members, event.values, strict=True):
                yield {"ph": "C", "name": member.name, "ts": time, **where, "args": {member.unit: value}}
        elif kind in ("MpiSend", "MpiRecv"):
            sent = kind == "MpiSend"
            peer = event.receiver if sent else event.sender
            said = {"peer": peer, "bytes": event.msg_length} | _said(event)
            name = str(said.get("message", event.communicator.name))
            yield {"ph": "i", "s": "t", "name": f"{kind} {name}", "ts": time, **where, "args": said}
            flow = {"cat": "message", "name": name, "id": flows.number(event, location, peer, sent=sent)}
            yield flow | {"ph": "s" if sent else "f", "bp": "e", "ts": time} | where
        elif kind == "RmaAtomic":
            said = {"owner": event.remote, "bytes": event.bytes_sent}
            about = {"ph": "i", "s": "t", "name": f"atomic on {event.win.name}"}
            yield about | {"ts": time, **where, "args": said}


class _Flows:
    """Numbers of messages, the same for both sides: the n-th send goes with the n-th receive."""

    def __init__(self) -> None:
        self._ranks = RankTable()
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._sides: dict[tuple[Any, ...], Iterator[int]] = {}

    def number(self, event: Any, location: Any, peer: int, *, sent: bool) -> int:
        """Return the number of the message that an event is a side of."""
        own = self._ranks.of(event.communicator, location)
        ends = (own, peer) if sent else (peer, own)
        key = (event.communicator._ref, *ends, event.msg_tag)
        nth = next(self._sides.setdefault((sent, *key), count()))
        return self._numbers.setdefault((*key, nth), len(self._numbers) + 1)


def _micros(trace: Any, time: int) -> float:
    return round(seconds_of(trace, time) * 1e6, 3)


def _said(event: Any) -> dict[str, Any]:
    return {attribute.name: value for attribute, value in (event.attributes or {}).items()}


def _write_parquet(trace: Any, file: Path) -> None:
    import polars as pl

    frames, rows = [], []
    for row in _rows(trace):
        rows.append(row)
        if len(rows) == _AT_ONCE:
            frames.append(_frame(rows))
            rows = []
    frames.append(_frame(rows))
    try:
        pl.concat(frames, rechunk=False).write_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:  # a full disk is no OSError in all versions
        raise OutputError(f"{file}: cannot be written: {error}") from error


def _rows(trace: Any) -> Iterator[tuple[Any, ...]]:
    for location, event in trace.events:
        kind = type(event).__name__
        region = event.region.name if kind in ("Enter", "Leave") else None
        peer = getattr(event, "receiver", getattr(event, "sender", getattr(event, "remote", None)))
        said = _said(event)
        if kind == "Metric":
            said |= dict(zip((member.name for member in event.metric.members), event.values, strict=True))
        yield (
            event.time,
            location._ref,
            location.group.name,
            location.name,
            kind,
            region,
            peer,
            getattr(event, "msg_tag", None),
            getattr(event, "msg_length", getattr(event, "bytes_sent", None)),
            json.dumps(said) if said else None,
        )


def _frame(rows: list[tuple[Any, ...]]) -> Any:
    import polars as pl

    return pl.DataFrame(
        rows, schema={name: getattr(pl, kind) for name, kind in _COLUMNS.items()}, orient="row"
    )


_COLUMNS = {
    "time": "Int64",
    "location": "Int64",
    "process": "String",
    "name": "String",
    "event": "String",
    "region": "String",
    "peer": "Int64",
    "tag": "Int64",
    "bytes": "Int64",
    "attributes": "String",
}

FORMATS: Mapping[str, tuple[str, Callable[[Any, Path], None]]] = {
    ".json": ("Chrome's trace events, which Perfetto opens too", _write_json),
    ".json.gz": ("the same, packed", _write_packed_json),
    ".parquet": ("a row an event", _write_parquet),
}
"""By the end of a file's name: what it is, and who writes it."""


_OF_JOBS = ("Mpi", "Rma")  # prefixes of the kinds of events that belong to a job


def cut(
    trace: Any, directory: Path, *, begin: float | None, end: float | None, jobs: Collection[str] = ()
) -> int:
    """Write a part of a trace, from ``begin`` to ``end`` [s], into a new directory; return its events.

    A region that is open when the part begins is entered there, and left where it ends; metrics begin with
    the values that hold there. A message of which one side is outside of the span keeps the other. ``jobs``
    are canonical names of outermost regions (numbers of jobs); messages are kept whose attribute ``job id``
    is one of them; those without it, and operations on windows, where one of them is open. Empty: all. Raises
    InputError if nothing is left.
    """
    clock = trace.definitions.clock_properties
    first = clock.global_offset + (0 if begin is None else round(begin * clock.timer_resolution))
    last = clock.global_offset + (clock.trace_length if end is None else round(end * clock.timer_resolution))
    if last < first:
        raise InputError(f"the part ends at {end:g} s, before it begins, at {begin or 0.0:g} s")
    events = _write_trace(
        trace, directory, lambda found: _part(found, first, last, frozenset(jobs)), bool(jobs)
    )
    if not events:
        raise InputError(f"nothing is left: no event is in this part of the trace, {_span(trace)}")
    return events


def move_apart(trace: Any, directory: Path) -> int:
    """Write a trace for readers that sort events by time alone, such as Pipit; return its events.

    Every event of a location is at least one tick of the clock after the one before.
    """
    latest: dict[Any, int] = {}

    def moved(found: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        for location, event in found:
            event.time = latest[location] = max(event.time, latest.get(location, -1) + 1)
            yield location, event

    return _write_trace(trace, directory, moved)


def _write_trace(
    trace: Any,
    directory: Path,
    changed: Callable[[Iterator[tuple[Any, Any]]], Iterator[tuple[Any, Any]]],
    leaves_out: bool = False,
) -> int:
    """Write changed events with all definitions; return their number; may leave out empty locations."""
    import otf2

    from mlsim.record.otf2.otf2_library import fix_trace_id
    from mlsim.record.otf2.trace_layout import MOST_ROWS

    events = 0
    with otf2.writer.open(str(directory), definitions=trace.definitions) as writer:
        writer.creator = "mlsim"
        leaves_out |= len(list(trace.definitions.locations)) > MOST_ROWS
        needed = _referred(trace) if leaves_out else None
        for locations, found in trace.parts():
            for location, event in changed(found):
                writer.event_writer_from_location(location)(event)
                events += 1
            for location in locations:
                _close(writer, trace, location, needed)
        writer._realtime_timestamp = 0.0  # else it is now: the same trace would give other bytes
    if events:
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
