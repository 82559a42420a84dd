"""OTF2 traces opened for reading: the ranks of their locations, their content, their defects."""

import errno
import os
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlsim._files import is_directory, is_file, named, read_bytes
from mlsim._runtime.processes import call, postponed, python
from mlsim._runtime.work_progress import Stage, stage
from mlsim.errors import InputError, MlsimError

_NAMES = ("traces.otf2", "trace.otf2")
"""Anchors, as mlsim names them now and once did; those of others are found by their suffix."""
_PLACES = ("", "trace")
"""Subdirectories of a directory that may contain a trace: itself, or the ``trace`` of a run."""
_LONGEST, _SLOWEST = 120.0, 1e5
"""Seconds that a trace is read for at least, and the bytes per second that it is read with at least."""
_NOT_OF_READING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE, errno.EROFS)
_READ_ALL = """
import resource
from pathlib import Path
from mlsim.traces.trace_reader import opened
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # nothing is left behind
try:
    with opened(Path(sys.argv[1])) as trace:
        for event in trace.events:
            pass
except Exception:
    pass  # whoever reads it in earnest says what is wrong
"""


def anchor_of(path: Path) -> Path:
    """Return the anchor of a trace, given it, or its directory or a run's; InputError unless there is one."""
    if is_file(path):
        if path.suffix == ".otf2":
            return path
        raise InputError(f"{named(path)}: is no anchor of an OTF2 trace, whose name ends in .otf2")
    if not is_directory(path):
        raise InputError(f"{named(path)}: there is no such file or directory; name a run, or traces.otf2")
    for place in _PLACES:
        for name in _NAMES:
            if is_file(path / place / name):
                return path / place / name
    others = sorted(path.glob("*.otf2"))
    if len(others) == 1:
        return others[0]
    found = f"has {len(others)} traces; name one" if others else "has no OTF2 trace"
    hint = "" if others else "; `output.trace: chunks` in a scenario has a run write one"
    raise InputError(f"{named(path)}: {found}{hint}")


def check_apart(anchor: Path) -> None:
    """Read a trace to its end in a separate process; InputError if a signal ends that process."""
    size = sum(file.stat().st_size for file in anchor.with_suffix("").rglob("*") if file.is_file())
    try:
        ended = call(python(_READ_ALL, str(anchor)), _LONGEST + size / _SLOWEST).code
    except OSError as error:
        raise InputError(f"{named(anchor)}: cannot be read by a process of its own: {error}") from error
    if ended < 0:
        raise InputError(f"{named(anchor)}: is damaged: reading it ends the process that does so")


def _defined(locations: Sequence[Any]) -> int:
    return sum(location.number_of_events for location in locations)


class Trace:
    """A trace that is open: its definitions, and its events, with a bound on memory and open files."""

    _MOST_LOCATIONS = 1000
    _MOST_BYTES = 1 << 30

    def __init__(self, reader: Any, anchor: Path) -> None:
        self._reader, self._anchor = reader, anchor
        self.definitions = reader.definitions
        self.handle = reader.handle

    def parts(self) -> Iterator[tuple[Sequence[Any], Iterator[tuple[Any, Any]]]]:
        """Yield locations, as many as may be open at once, with their events, which are in order of time."""
        locations = list(self.definitions.locations)
        with stage("reading events", _defined(locations)) as work:
            for some, events in self._parts(locations):
                yield some, self._followed(work, events, _defined(some))

    def _parts(self, locations: list[Any]) -> Iterator[tuple[Sequence[Any], Iterator[tuple[Any, Any]]]]:
        import _otf2

        # The library opens the file of each location that is read, with a buffer of this many bytes.
        at_once = self._MOST_BYTES // max(int(_otf2.Reader_GetChunkSize(self.handle)[0]), 1)
        at_once = min(max(at_once, 1), self._MOST_LOCATIONS)
        if len(locations) <= at_once:
            yield locations, iter(self._reader.events)
            return
        for low in range(0, len(locations), at_once):
            some = locations[low : low + at_once]
            yield some, self._events_of(some)

    @property
    def events(self) -> Iterator[tuple[Any, Any]]:
        """Each location with each of its events: in order of time, of very many some locations at a time."""
        for _, events in self.parts():
            yield from events

    def _followed(
        self, work: Stage, events: Iterator[tuple[Any, Any]], defined: int
    ) -> Iterator[tuple[Any, Any]]:
        """Yield events; InputError if there are fewer than defined, as in a file that ends between two."""
        read = 0
        while True:
            with postponed:  # events come by callbacks of the library
                found = next(events, None)
            if found is None:
                break
            read += 1
            work.done += 1
            yield found
        if read < defined:
            raise InputError(
                f"{named(self._anchor)}: cannot be read to its end: has {read:,} of {defined:,} events"
            )

    def _events_of(self, locations: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        import _otf2
        from otf2.event_reader import BufferedEventReader
        from otf2.reader import Reader

        # One more reader, which shares the definitions: the package reads them anew for each.
        part = Reader.__new__(Reader)
        part._handle = _otf2.Reader_Open(str(self._anchor))
        part._definitions, part._locations = self.definitions, locations
        part._global_evt_reader_handle = None
        with closing(part):
            _otf2.Reader_SetSerialCollectiveCallbacks(part._handle)
            definitions = _otf2.Reader_GetGlobalDefReader(part._handle)
            _otf2.Reader_ReadAllGlobalDefinitions(part._handle, definitions)
            _otf2.Reader_CloseGlobalDefReader(part._handle, definitions)
            yield from BufferedEventReader(part, self._reader.batch_events)


@contextmanager
def opened(anchor: Path) -> Iterator[Trace]:
    """Open a trace; InputError without the package ``otf2``, or if it cannot be read, also in the block."""
    try:
        import otf2
    except ImportError as error:
        raise InputError(
            f"traces are read by the package otf2: {error}; pip install 'mlsim[otf2]'"
        ) from error
    from mlsim.record.otf2.otf2_library import noted_errors, reason_of

    read_bytes(anchor, "trace")  # pipes, devices and what must not be read
    with noted_errors() as codes:
        try:
            with postponed:
                reader = otf2.reader.open(str(anchor))
            with reader as trace:
                yield Trace(trace, anchor)
        except MlsimError:
            raise
        except OSError as error:
            if error.errno in _NOT_OF_READING:  # what the block writes
                raise
            raise InputError(f"{named(anchor)}: cannot be read to its end: {error}") from error
        except Exception as error:  # the package has no class for what damage does to it
            _check_written(codes)
            reason = reason_of(codes[0]) if codes else f"{type(error).__name__}: {error}"
            raise InputError(f"{named(anchor)}: cannot be read to its end: {reason}") from error
        _check_written(codes)
        if codes:
            raise InputError(f"{named(anchor)}: cannot be read to its end: {reason_of(codes[0])}")


def _check_written(codes: Sequence[int]) -> None:
    """Raise what the library reports as failed of a trace that is written meanwhile."""
    from mlsim.record.otf2.otf2_library import errno_of

    number = errno_of(codes[0]) if codes else 0
    if number in _NOT_OF_READING:
        raise OSError(number, os.strerror(number))


def word_of(value: Any) -> str:
    """Return the word of a value of one of OTF2's enumerations, such as CPU_THREAD."""
    return str(value).rpartition(".")[2]


def seconds_of(trace: Any, time: int) -> float:
    """Return the seconds from a trace's start to a time of its clock."""
    clock = trace.definitions.clock_properties
    return float((time - clock.global_offset) / clock.timer_resolution)


class RankTable:
    """The ranks of a trace's locations, of which several may have one: any thread of a process may send."""

    def __init__(self) -> None:
        self._ranks: dict[int, dict[tuple[str, int], int]] = {}

    def of(self, communicator: Any, location: Any) -> int:
        """Return a location's own rank in a communicator, or that of its process; -1: it has none."""
        ranks = self._ranks.get(communicator._ref)
        if ranks is None:
            ranks = self._ranks[communicator._ref] = _ranks_of(communicator)
        return ranks.get(("location", location._ref), ranks.get(("process", location.group._ref), -1))


def _ranks_of(communicator: Any) -> dict[tuple[str, int], int]:
    members = list(enumerate(communicator.group.members))
    ranks = {("location", getattr(member, "_ref", member)): rank for rank, member in members}
    processes = ((member.group._ref, rank) for rank, member in members if hasattr(member, "group"))
    return ranks | {("process", process): rank for process, rank in processes}


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
        metrics=[member.name for metric in definitions.metrics for member in getattr(metric, "members", ())],
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

_Key = tuple[str, int, int, int]  # communicator, ranks of sender and receiver, tag
_Sides = dict[_Key, deque[int]]  # times of sides of messages, in order


@dataclass
class _Row:
    """Read state of a location."""

    latest: int
    events: int = 0
    stack: list[tuple[str, int]] = field(default_factory=list)  # names of open regions, and since when
    operations: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Times of operations on windows that are not complete, by name of the window and number."""


class _Messages:
    """Sides of messages that wait for the other one, by communicator, sender, receiver and tag."""

    def __init__(self) -> None:
        self.ranks = RankTable()
        self.waiting: dict[str, _Sides] = {"send": defaultdict(deque), "receive": defaultdict(deque)}

    def pair(self, side: str, key: _Key, time: int) -> int | None:
        """Note a side; return the time of the other one if that has been read before."""
        other = self.waiting["receive" if side == "send" else "send"][key]
        if other:
            return other.popleft()
        self.waiting[side][key].append(time)
        return None


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
        for (window, _), begun in read.operations.items():
            for time in begun:
                yield f"{_at(trace, location, time)}: an operation on {window!r} is never complete"
        if location.number_of_events != read.events:
            yield (
                f"{_name(location)}: has {read.events} events, where its definition says "
                f"{location.number_of_events}"
            )
    for side, found in messages.waiting.items():
        for (comm, sender, receiver, tag), times in found.items():
            for time in times:
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
        sent, received = event.time, messages.pair("send", key, event.time)
    else:
        key = (event.communicator.name, event.sender, own, event.msg_tag)
        sent, received = messages.pair("receive", key, event.time), event.time
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
