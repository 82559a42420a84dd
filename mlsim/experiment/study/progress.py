"""How far a study is: shown while it goes on, and kept beside its store for `mlsim study status`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlsim._files import expanded, read_bytes
from mlsim.errors import InputError
from mlsim.experiment.study.lock import holder
from mlsim.experiment.study.points import words_of
from mlsim.experiment.study.store import Store, write_whole
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["Watching", "seconds_there", "status_of", "time_words"]

_STATE = "state.json"
_BETWEEN = 1.0
"""Seconds between two states that are kept."""
_RUNS = "runs"
_SHOWN = 8
"""Running runs that are named."""


class Watching:
    """Shows on standard error how far a study is: a bar on a terminal, otherwise a line for each event.

    Parameters
    ----------
    name
        Of the study.
    shown
        False for nothing at all.
    things
        What is done, in words.
    """

    def __init__(self, name: str, *, shown: bool, things: str = _RUNS) -> None:
        self._name, self._shown, self._things = name, shown, things
        self._total = self._there = self._done = self._failed = 0
        self._running: dict[str, str] = {}
        self._store: Store | None = None
        self._began = self._kept = 0.0
        self._bar: Any = None
        self._task: Any = None

    def begin(self, total: int, there: int, store: Store | None) -> None:
        """Show that so many runs are to be there in the end, and are there already."""
        again = self._began > 0.0
        self._total, self._there, self._store = total, there, store
        self._began = self._began or time.time()
        self._keep(now=True)
        if again:
            self._update()
            return
        if not self._shown or there == total:
            return
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
            self._task = self._bar.add_task(self._name, total=total, completed=there, state="")
        else:
            self._say(f"{total} {self._things}, {there} are there, {total - there} to be done")

    def started(self, task: Task) -> None:
        """Show that a run is begun."""
        self._running[task.key] = words_of(task.labels)
        self._keep()
        self._update()

    def done(self, task: Task, done: Done) -> None:
        """Show that a run has ended."""
        self._running.pop(task.key, None)
        self._done += 1
        self._failed += bool(done.failed)
        self._keep()
        self._update()
        if self._shown and self._bar is None:
            ended = f"failed: {done.failed}" if done.failed else f"done in {done.seconds:.3g} s"
            place = self._there + self._done
            self._say(f"{place}/{self._total} {words_of(task.labels)}: {ended}")

    def note(self, words: str) -> None:
        """Show what has been found so far."""
        if self._bar is not None:
            self._bar.console.print(f"{self._name}: {words}", highlight=False)
        elif self._shown:
            self._say(words)

    def end(self) -> None:
        """Show that no run is going on any more."""
        self._running.clear()
        self._keep(now=True)
        if self._bar is not None:
            self._bar.stop()

    def _say(self, words: str) -> None:
        print(f"{self._name}: {words}", file=sys.stderr, flush=True)

    def _update(self) -> None:
        if self._bar is None:
            return
        state = (
            f"{self._there + self._done}/{self._total}, {self._failed} failed, {len(self._running)} running"
        )
        self._bar.update(self._task, completed=self._there + self._done, total=self._total, state=state)

    def _keep(self, *, now: bool = False) -> None:
        """Keep the state for other processes; they can do without it."""
        at = time.time()
        if self._store is None or (not now and at - self._kept < _BETWEEN):
            return
        self._kept = at
        state = {
            "things": self._things,
            "total": self._total,
            "there": self._there,
            "done": self._done,
            "failed": self._failed,
            "running": list(self._running.values())[:_SHOWN],
            "began": self._began,
            "at": at,
        }
        with suppress(OSError):
            write_whole(self._store.inner(_STATE), json.dumps(state).encode())


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def status_of(directory: str | Path) -> Iterator[str]:
    """Say how far a study is, line by line.

    Raises
    ------
    InputError
        If there is no store of a study.
    """
    store = Store(expanded(directory))
    try:
        state = json.loads(read_bytes(store.inner(_STATE)))
        total, there, done, failed = (int(state[key]) for key in ("total", "there", "done", "failed"))
        running, began, at = list(state["running"]), float(state["began"]), float(state["at"])
        things = str(state.get("things", _RUNS))
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{directory}: no store of a study, or one that nothing has been done of; `mlsim study` makes "
            "one in runs/NAME, or where --out says, and `mlsim learn` where its --out says"
        ) from error
    ended = there + done
    who = holder(store)
    yield f"{directory}: {ended} of {total} {things} are done; {failed} of them failed since the last start"
    if who:
        left = (at - began) / done * (total - ended) if done else None
        words = "" if left is None else f"; about {time_words(left)} left"
        yield f"{who} is doing it{words}"
        for words in running:
            yield f"running: {words}"
    elif ended < total:
        yield "nobody is doing it; starting it again does what is missing"


def seconds_there(keys: Iterable[str], store: Store) -> list[float]:
    """Return how long those of some runs took that a study's store has."""
    found = (store.get(key) for key in dict.fromkeys(keys))
    return [content["seconds"] for content in found if content is not None]


def time_words(seconds: float) -> str:
    """Write a time as people say it."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
