"""Reading OTF2 traces back with the format's own Python reader, into plain lists."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import otf2
import pytest
from otf2 import events as kinds

from mlsim.record import Records
from mlsim.record.otf2 import Level, Selection, Service, TraceInfo, TraceOptions, write_otf2
from mlsim.traces import anchor_of, opened

EVERYTHING = Selection()
AT_ONCE = Service()

needs_otf2_print = pytest.mark.skipif(
    shutil.which("otf2-print") is None, reason="otf2-print is not installed"
)


@dataclass
class Span:
    """One visit of a region on a location."""

    location: int
    region: str
    depth: int
    outer: str
    begin: int
    end: int
    attributes: dict[str, Any]


@dataclass
class Message:
    """One side of a message; ``peer`` is the other side's rank, ``length`` in bytes."""

    location: int
    time: int
    peer: int
    tag: int
    length: int
    attributes: dict[str, Any]
    communicator: str = ""


@dataclass
class Atomic:
    """One atomic on a window, of which ``owner`` is the rank; ``end`` is its completion, -1: not yet."""

    location: int
    begin: int
    owner: int
    kind: str
    end: int = -1


@dataclass
class Trace:
    """What a trace says."""

    definitions: Any
    spans: list[Span] = field(default_factory=list)
    sends: list[Message] = field(default_factory=list)
    receives: list[Message] = field(default_factory=list)
    metrics: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    atomics: list[Atomic] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)

    def of_jobs(self) -> list[Span]:
        return [span for span in self.spans if span.depth == 0]

    def nested(self, region: str) -> list[Span]:
        return [span for span in self.spans if span.region == region]


def read_trace(directory: Path) -> Trace:
    """Read a trace; fail if times go backwards or regions are not nested on a location."""
    with otf2.reader.open(str(directory / "traces.otf2")) as reader:
        trace = Trace(reader.definitions)
        stacks: dict[int, list[Span]] = {}
        latest: dict[int, int] = {}
        for location, event in reader.events:
            where = location._ref
            assert event.time >= latest.get(where, 0)
            latest[where] = event.time
            trace.counts[where] = trace.counts.get(where, 0) + 1
            _take(trace, stacks.setdefault(where, []), where, event)
        assert not any(stacks.values())
        for location in reader.definitions.locations:
            assert location.number_of_events == trace.counts.get(location._ref, 0)
        assert max(latest.values()) == reader.definitions.clock_properties.trace_length
    return trace


def _take(trace: Trace, stack: list[Span], where: int, event: Any) -> None:
    """Put one event into the trace."""
    attributes = {attribute.name: value for attribute, value in (event.attributes or {}).items()}
    comm = event.communicator.name if isinstance(event, (kinds.MpiSend, kinds.MpiRecv)) else ""
    if isinstance(event, kinds.Enter):
        outer = stack[-1].region if stack else ""
        region = event.region.canonical_name
        stack.append(Span(where, region, len(stack), outer, event.time, -1, attributes))
    elif isinstance(event, kinds.Leave):
        span = stack.pop()
        assert span.region == event.region.canonical_name
        span.end = event.time
        span.attributes |= attributes
        trace.spans.append(span)
    elif isinstance(event, kinds.MpiSend):
        trace.sends.append(
            Message(where, event.time, event.receiver, event.msg_tag, event.msg_length, attributes, comm)
        )
    elif isinstance(event, kinds.MpiRecv):
        trace.receives.append(
            Message(where, event.time, event.sender, event.msg_tag, event.msg_length, attributes, comm)
        )
    elif isinstance(event, kinds.RmaAtomic):
        assert event.win.name == "chunk window"
        kind = str(event.type).rsplit(".", 1)[-1]
        trace.atomics.append(Atomic(where, event.time, event.remote, kind))
    elif isinstance(event, kinds.RmaOpCompleteBlocking):
        last = next(atomic for atomic in reversed(trace.atomics) if atomic.location == where)
        assert last.end == -1
        last.end = event.time
    else:
        assert isinstance(event, kinds.Metric)
        trace.metrics.append((event.time, tuple(event.values)))


def printed(directory: Path) -> tuple[list[str], list[str]]:
    """Print a trace with otf2-print: its lines of definitions, and of events; fail on any complaint."""
    anchor = str(directory / "traces.otf2")
    texts = []
    for options in (["-G"], []):
        command = ["otf2-print", *options, anchor]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        rows = done.stdout.split("-" * 80 + "\n", 1)[1]
        texts.append([line for line in rows.splitlines() if line and not line.startswith(" ")])
    return texts[0], texts[1]


def written(
    directory: Path | str,
    records: Records,
    level: Level,
    *,
    exclusive: bool = False,
    details: bool = True,
    selection: Selection = EVERYTHING,
    service: Service = AT_ONCE,
    apart: bool = False,
) -> TraceInfo:
    names = {"scenario_name": "demo", "technique": "GSS", "workload_name": "demo.swf"}
    more = {"details": details, "selection": selection, "service": service, "apart": apart}
    return write_otf2(directory, records, TraceOptions(level, exclusive_nodes=exclusive, **more, **names))


def traced(records: Records, level: Level, *, exclusive: bool = False) -> Trace:
    with tempfile.TemporaryDirectory() as directory:
        info = written(directory, records, level, exclusive=exclusive)
        trace = read_trace(Path(directory))
        assert info.events == sum(trace.counts.values())
        assert info.locations == len(list(trace.definitions.locations))
        files = [file for file in Path(directory).rglob("*") if file.is_file()]
        assert info.bytes == sum(file.stat().st_size for file in files)
    return trace


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def node_locations(records: Records, *, per_node: bool) -> list[int]:
    """First location of every node: the dispatcher's and that of metrics come first."""
    rows = np.ones(len(records.nodes.cores)) if per_node else records.nodes.cores
    return [2 + int(before) for before in np.cumsum(rows) - rows]


def events_of(place: Path) -> dict[int, list[tuple]]:
    """Return all that the events of each location say, in their order."""
    found: dict[int, list[tuple]] = {}
    with opened(anchor_of(place)) as reader:
        for location, event in reader.events:
            said = {a.name: value for a, value in (event.attributes or {}).items()}
            region = getattr(event, "region", None)
            about = (
                getattr(region, "canonical_name", None),
                getattr(event, "receiver", getattr(event, "sender", None)),
                getattr(event, "msg_tag", None),
                getattr(event, "values", None),
                getattr(event, "remote", None),
            )
            found.setdefault(location._ref, []).append((event.time, type(event).__name__, about, said))
    return found
