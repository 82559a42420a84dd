"""The nodes of the platform that a log names for its jobs, in lists as Slurm writes them."""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mlsim._runtime.arrays import Ints

_PART = re.compile(r"([^,\[\]]*?)(?:(\d{1,9})|\[([^\[\]]*)\])(?:,|$)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NOWHERE = np.empty(0, np.int64)

Range = tuple[str, int, int]
"""What names begin with, and the first and the last of their numbers."""


def name_ranges(text: str) -> list[Range]:
    """Return the ranges of names in a list such as ``n[01-03,7],m1``; none if a name has another form.

    Examples
    --------
    >>> name_ranges("n[08-10],m1"), name_ranges("n1-ib")
    ([('n', 8, 10), ('m', 1, 1)], [])
    """
    found, at = list[Range](), 0
    while at < len(text):
        part = _PART.match(text, at)
        numbers = [] if part is None else list(map(_RANGE.fullmatch, (part[2] or part[3]).split(",")))
        if part is None or not all(numbers):
            return []
        found += ((part[1], int(ends[1]), int(ends[2] or ends[1])) for ends in numbers if ends)
        at = part.end()
    return found


class RecordedNodes:
    """The nodes of the platform that a log names for its jobs.

    A name is that of a group of nodes with a number. mlsim counts the nodes of a group from 0. A log that
    names none with 0, and one with the size of the group, counts from 1.
    """

    def __init__(self, groups: Sequence[str], lists: Iterable[str]) -> None:
        self.nodes: Ints = np.empty(0, np.int64)
        self._used = 0
        self._first = {group: node for node, group in reversed(list(enumerate(groups)))}
        self._size = {group: groups.count(group) for group in self._first}
        ranges = {text: name_ranges(text) for text in lists}
        seen: dict[str, tuple[int, int]] = {}
        for name, first, last in (each for found in ranges.values() for each in found):
            low, high = seen.get(name, (first, last))
            seen[name] = min(low, first), max(high, last)
        self._from = {
            name: int(low > 0 and high == self._size.get(name)) for name, (low, high) in seen.items()
        }
        self._known = {
            text: np.unique(np.concatenate([_NOWHERE, *self._found(each)])) for text, each in ranges.items()
        }

    def _found(self, ranges: Sequence[Range]) -> Iterator[Ints]:
        """Yield the nodes of ranges; none if the platform lacks one of them."""
        shifted = [(name, first - self._from[name], last - self._from[name]) for name, first, last in ranges]
        if all(0 <= low <= high < self._size.get(name, 0) for name, low, high in shifted):
            for name, low, high in shifted:
                yield np.arange(low, high + 1) + self._first[name]

    def of(self, text: str | None) -> Ints:
        """Return the nodes of a list, ascending; none if the platform lacks one of them."""
        return self._known.get(text or "", _NOWHERE)

    def add(self, lists: Sequence[str | None]) -> tuple[Ints, Ints]:
        """Add the nodes of some jobs; return the first place of each job's in ``nodes``, and how many."""
        found = [self.of(text) for text in lists]
        counts = np.array([len(each) for each in found], np.int64)
        more = self._used + int(counts.sum())
        if more > len(self.nodes):
            self.nodes = np.concatenate([self.nodes[: self._used], np.zeros(2 * more - self._used, np.int64)])
        self.nodes[self._used : more] = np.concatenate([_NOWHERE, *found])
        first, self._used = self._used + np.cumsum(counts) - counts, more
        return first, counts
