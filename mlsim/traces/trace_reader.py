"""OTF2 traces opened for reading, and the ranks of their locations."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
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
    """Return the anchor of a trace, given that anchor, the trace's directory or a run's.

    Raises InputError if there is no trace, or more than one.
    """
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
        total = sum(location.number_of_events for location in locations)
        with stage("reading events", total) as work:
            for some, events in self._parts(locations):
                yield some, self._followed(work, events)

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

    def _followed(self, work: Stage, events: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        while True:
            with postponed:  # events come by callbacks of the library
                found = next(events, None)
            if found is None:
                return
            work.done += 1
            yield found

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
    """Open a trace for the block.

    Raises InputError if the package ``otf2`` is not installed, or the trace cannot be read, also within the
    block.
    """
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
