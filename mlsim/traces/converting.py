"""Traces in other formats: Chrome's JSON, which Perfetto opens too, and Parquet, a row an event."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import IO, Any

from mlsim.errors import InputError, OutputError
from mlsim.traces.ranks import RankTable
from mlsim.traces.reading import seconds_of, word_of

__all__ = ["FORMATS", "convert"]

_AT_ONCE = 200_000
"""Events of a frame."""


def convert(trace: Any, file: Path) -> None:
    """Write a trace in another format, by the suffix of the file.

    Parameters
    ----------
    trace
        From :func:`mlsim.traces.opened`.
    file
        Where to: a name that ends in one of :data:`FORMATS`.

    Raises
    ------
    InputError
        If there is no such format.
    """
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
