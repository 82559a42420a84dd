"""Progress of the current work: reported by the code that does it, read by the command that shows it."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")


class Stage:
    """A part of the work: ``done`` of ``total`` (None: unknown), or a ``share`` that is computed.

    ``apart``: shown by itself, as what precedes the work that it is inside of and takes a time of its own.
    """

    def __init__(
        self, words: str, total: float | None, share: Callable[[], float] | None, apart: bool
    ) -> None:
        self.words, self.total, self.share, self.apart = words, total, share, apart
        self.done = 0.0
        self.began = time.monotonic()

    def advance(self, more: float = 1) -> None:
        """Add what is done."""
        self.done += more


_stages: list[Stage] = []


@contextmanager
def stage(
    words: str, total: float | None = None, share: Callable[[], float] | None = None, *, apart: bool = False
) -> Iterator[Stage]:
    """Report a :class:`Stage` while the block runs; inside of another, it is a part of its next unit."""
    own = Stage(words, total, share, apart)
    _stages.append(own)
    try:
        yield own
    finally:
        _stages.remove(own)


def followed(items: Iterable[Item], to: Stage, size: Callable[[Item], float] = lambda _: 1) -> Iterator[Item]:
    """Yield items, and add the size of each to what is done of a stage once the next one is asked for."""
    for item in items:
        yield item
        to.advance(size(item))


class HowFar(NamedTuple):
    """Progress of an activity: its name, the completed share if known, and the elapsed seconds."""

    words: str
    share: float | None
    seconds: float


def how_far() -> HowFar | None:
    """Return the progress of the work; None if it is not reported."""
    stages = list(_stages)
    if not stages:
        return None
    stages = stages[max((number for number, one in enumerate(stages) if one.apart), default=0) :]
    # Of stages inside of one another, the outermost that knows its share.
    first = next((number for number, one in enumerate(stages) if one.total or one.share), len(stages) - 1)
    share: float | None = None
    for one in reversed(stages[first:]):
        if one.share is not None:
            share = one.share()
        elif one.total:
            share = (one.done + (share or 0.0)) / one.total
        else:
            share = None
    found = None if share is None else min(max(share, 0.0), 1.0)
    return HowFar(stages[first].words, found, time.monotonic() - stages[0].began)


def progress_line(state: HowFar, width: int | None = None) -> str:
    """Return the progress of an activity as a line, of at most so many characters: its name is cut first.

    >>> progress_line(HowFar("loops", 0.25, 10.0))
    'loops: 25 %, 0:10, about 0:30 left'
    >>> progress_line(HowFar("reading log.swf", None, 3725.0))
    'reading log.swf: 1:02:05'
    >>> progress_line(HowFar("reading a-long-name.swf", 0.25, 10.0), 40)
    'reading a-…: 25 %, 0:10, about 0:30 left'
    """
    line = f": {_clock(state.seconds)}"
    if state.share is not None:
        left = state.seconds * (1 - state.share) / state.share if state.share > 0 else math.inf
        rest = f", about {_clock(left)} left" if math.isfinite(left) else ""
        line = f": {math.floor(100 * state.share)} %, {_clock(state.seconds)}{rest}"
    room = len(state.words) if width is None else max(width - len(line), 0)
    words = state.words if len(state.words) <= room else f"{state.words[: max(room - 1, 0)]}…"
    return f"{words}{line}"[:width]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
