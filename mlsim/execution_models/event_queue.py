"""Event queue of a loop: tournament trees over PEs, and arrays of records."""

from typing import Any, Protocol, TypeVar

import numpy as np

from mlsim._jit import inner_kernel, leaf_kernel

Record = TypeVar("Record", covariant=True)


class Records(Protocol[Record]):
    """An array of records."""

    def __getitem__(self, index: Any, /) -> Record: ...
    def __len__(self) -> int: ...


def dtype_of(declared: type) -> np.dtype[Any]:
    """Return the NumPy type of a record from a class that declares ``float`` and ``int`` fields.

    Raises TypeError for a name that NumPy's records have, such as ``size``: Python would read that.
    """
    for name in declared.__annotations__:
        if hasattr(np.record, name):
            raise TypeError(f"{declared.__name__}.{name}: NumPy's records have a {name} of their own")
    return np.dtype((np.record, list(declared.__annotations__.items())))


class Match:
    """The winner of a match, and the time of its event in s."""

    time: float
    rank: int


MATCH = dtype_of(Match)


@inner_kernel
def play(matches: Records[Match], tree: int, width: int, members: int) -> None:
    """Play all matches of a tree whose first ``members`` leaves have their times."""
    for rank in range(width):
        leaf = matches[tree + width + rank]
        leaf.rank = rank
        if rank >= members:
            leaf.time = np.inf
    for node in range(width - 1, 0, -1):
        left, right = matches[tree + 2 * node], matches[tree + 2 * node + 1]
        winner = right if right.time < left.time else left
        matches[tree + node].time = winner.time
        matches[tree + node].rank = winner.rank


@leaf_kernel
def due_of(matches: Records[Match], tree: int, width: int, rank: int) -> float:
    """Return when the next event of a PE is due, in s."""
    return matches[tree + width + rank].time


@leaf_kernel
def move(matches: Records[Match], tree: int, width: int, rank: int, time: float) -> None:
    """Set when the next event of a PE is due, in s from the start of the loop, 0 or more; infinity: never."""
    # Unsigned, so that compiled code need not ask whether an index counts from the end.
    begin, node, one = np.uint64(tree), np.uint64(width) + np.uint64(rank), np.uint64(1)
    matches[begin + node].time = time
    # Who wins is as good as random, so nothing may branch on it: times, which are not negative, are in the
    # order of their bits, and a mask of ones or zeros, rather than a condition, which may become a branch,
    # takes over the opponent. Ranks rise from the left, so the left one wins at equal times.
    due, winner = np.float64(time).view(np.int64), np.int64(rank)
    while node > one:
        opponent = matches[begin + (node ^ one)]
        other = np.float64(opponent.time).view(np.int64)
        loses = (other - np.int64(node & one) - due) >> 63
        due ^= (due ^ other) & loses
        winner ^= (winner ^ opponent.rank) & loses
        node >>= one
        match = matches[begin + node]
        match.time = np.int64(due).view(np.float64)
        match.rank = int(winner)


@leaf_kernel
def stays_first(matches: Records[Match], tree: int, width: int, rank: int, time: float) -> bool:
    """Whether the PE that is due next would still be that if its event were due at ``time`` (s), not never.

    Ties and times are decided as by :func:`move`, without a branch for each match, too.
    """
    begin, node, one = np.uint64(tree), np.uint64(width) + np.uint64(rank), np.uint64(1)
    due, lost = np.float64(time).view(np.int64), np.int64(0)
    while node > one:
        lost |= np.float64(matches[begin + (node ^ one)].time).view(np.int64) - np.int64(node & one) - due
        node >>= one
    return bool(lost >= 0)


@inner_kernel
def due_lowest_rank(matches: Records[Match], tree: int, width: int, now: float) -> int:
    """Find the lowest rank in a tree that is due by ``now``; there must be one."""
    node = 1
    while node < width:
        node *= 2
        if matches[tree + node].time > now:
            node += 1
    return node - width
