"""Progress of a run, in a file that other processes read."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._files import expanded, is_directory, is_file, named, read_json
from mlsim._runtime.work_progress import how_far, progress_line
from mlsim.errors import InputError, OutputError

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from mlsim.scenario import Scenario


STATUS = "status.json"
_BETWEEN = 1.0  # Seconds between two states that are written
_VERSION = 1
_WIDE = 80  # columns from which a bar of 40 leaves room for words
_log = logging.getLogger("mlsim")
_MOST_BYTES = 64_000_000
_LETTERS = {"free": ".", "held": "#", "down": "x"}


def terminal_bar() -> Bar:
    """Return a bar on standard error, with the field ``state`` of its tasks as text, that leaves no trace.

    While the total of a task is unknown, the progress of what is being prepared stands there.
    """
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class State(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            preparing = how_far() if task.total is None else None
            return Text(task.fields["state"] if preparing is None else progress_line(preparing))

    console = Console(stderr=True)
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=40 if console.width >= _WIDE else 8),
        State(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run."""

    time: float  # simulated seconds
    done: int  # jobs that have ended
    total: int  # jobs of the workload
    waiting: int
    running: int = 0
    free_units: int = 0  # free nodes or cores, as the dispatcher counts
    # If called before the run continues: one letter per node (`.` free, `x` down, `#` held), and the last
    # coordination messages, the latest last.
    nodes: Callable[[], str] = str
    messages: Callable[[], list[dict[str, Any]]] = list


class StateOf:
    """Converts the progress of a run to plain values, at most once per second; the first maybe at once."""

    def __init__(self, scenario: Scenario, *, at_once: bool = True) -> None:
        self._name, self._began = scenario.name, time.time()
        self._groups = [(group.name, group.count) for group in scenario.platform.nodes]
        self._next = time.monotonic() + (0.0 if at_once else _BETWEEN)
        self.last: dict[str, Any] = {"schema_version": _VERSION, "scenario": scenario.name}

    def due(self, progress: Progress) -> dict[str, Any] | None:
        """Return the state if the last one is old, else None."""
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + _BETWEEN
        known = progress.done + progress.waiting + progress.running
        letters, first, groups = progress.nodes(), 0, []
        for name, nodes in self._groups:
            mine = letters[first : first + nodes]
            first += nodes
            counts = {word: mine.count(letter) for word, letter in _LETTERS.items()}
            groups.append({"name": name, "nodes": nodes, **counts, "cells": mine})
        self.last = {
            "schema_version": _VERSION,
            "scenario": self._name,
            "state": "running",
            "pid": os.getpid(),
            "began": self._began,
            "updated": time.time(),
            "time": progress.time,
            "jobs": {
                "total": progress.total,
                "ended": progress.done,
                "running": progress.running,
                "waiting": progress.waiting,
                "to_come": max(progress.total - known, 0),
            },
            "free_units": progress.free_units,
            "groups": groups,
            "messages": progress.messages(),
        }
        return self.last


class StatusFile:
    """Writes how far a run is; parameters beside the file are those of :class:`StateOf`."""

    def __init__(self, path: Path, scenario: Scenario, *, at_once: bool = False) -> None:
        self._path, self._state = path, StateOf(scenario, at_once=at_once)
        self._writes = True

    def begin(self) -> None:
        """Write the first state; raise OutputError. Later failures only warn and end the writing."""
        try:
            self._write({**self._state.last, "state": "running", "pid": os.getpid(), "updated": time.time()})
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror or error}") from error

    def __call__(self, progress: Progress) -> None:
        """Write the state if the last one is old."""
        state = self._state.due(progress)
        if state is not None:
            self._try(state)

    def end(self, state: str) -> None:
        """Write how the run ended, ``completed`` or ``failed``; all else is as of the last state."""
        self._try({**self._state.last, "state": state, "updated": time.time()})

    def _try(self, content: dict[str, Any]) -> None:
        if not self._writes:
            return
        try:
            self._write(content)
        except OSError as error:
            self._writes = False
            _log.warning("%s: cannot be written: %s; the run goes on", self._path, error.strerror or error)

    def _write(self, content: dict[str, Any]) -> None:
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        partial.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
        partial.replace(self._path)


@contextmanager
def status_kept(directory: Path | None, scenario: Scenario) -> Iterator[Callable[[Progress], None] | None]:
    """Yield what keeps the state of a run in its directory while it is simulated; results do not hold it."""
    if directory is None:
        yield None
        return
    path = directory / STATUS
    try:
        yield StatusFile(path, scenario)
    finally:
        path.unlink(missing_ok=True)


def find_status(path: str | Path) -> Path | None:
    """Return the status file of a run, by its path or the future directory; None if the run has none."""
    place = expanded(path)
    if is_file(place):
        return place
    hidden = sorted(place.parent.glob(f".{place.name}.*.partial"))
    for directory in hidden:
        if is_file(directory / STATUS):
            return directory / STATUS
    if hidden or (is_directory(place) and is_file(place / "summary.json")):
        return None
    going = sorted(found.parent.name for found in place.glob(f".*.partial/{STATUS}"))
    names = ", ".join(str(place / name[1:].split(".")[0]) for name in going)
    hint = (
        f"in progress there: {names}" if names else "name what mlsim run --out names, or a file of --status"
    )
    raise InputError(f"{named(place)}: no run in progress; {hint}")


def read_status(path: Path) -> dict[str, Any] | None:
    """Return the state in a file; None if the run has ended and removed it meanwhile."""
    try:
        content = read_json(path, "status", _MOST_BYTES)
    except InputError:
        if not path.exists():
            return None
        raise
    if not isinstance(content, dict) or content.get("schema_version") != _VERSION or "state" not in content:
        raise InputError(f"{path}: no state of a run; mlsim run --status FILE writes one")
    return content
