"""Runs: neighbouring nodes that are alike, so that a wide job costs as much as its nodes differ.

Where a run begins is a bit of its first node. The bits are in words of 64; a bit of the next level says
whether a word has any, and so on, so that the run of a node and the next one are found in a few steps on
machines of any size. What the nodes of a run have in common stands at its first node; at others there is
anything.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import last_bit, leaf_kernel, next_bit

__all__ = ["begin_run", "copy_runs", "first_nodes", "join_run", "next_run", "run_of", "runs_of"]

Ints = NDArray[np.int64]

_LEVELS: Final = 3
_BITS: Final = 64


def runs_of(kinds: Ints, amounts: Ints | None = None) -> Ints:
    """Return the runs of nodes of the same kind, with the same amounts: ``starts`` of the kernels here."""
    begins = np.ones(len(kinds), np.bool_)
    begins[1:] = kinds[1:] != kinds[:-1]
    if amounts is not None:
        begins[1:] |= (amounts[1:] != amounts[:-1]).any(axis=1)
    starts = np.zeros((_LEVELS, -(-len(kinds) // _BITS)), np.int64)
    for level in range(_LEVELS):
        whole = np.zeros(-(-len(begins) // _BITS) * _BITS, np.bool_)
        whole[: len(begins)] = begins
        words = np.packbits(whole, bitorder="little").view("<u8").astype(np.uint64).view(np.int64)
        starts[level, : len(words)] = words
        begins = words != 0
    return starts


def first_nodes(starts: Ints, n_nodes: int) -> Ints:
    """Return the first node of the run of each node."""
    begins = np.unpackbits(starts[0].view(np.uint8), count=n_nodes, bitorder="little")
    first: Ints = np.flatnonzero(begins)[np.cumsum(begins, dtype=np.int64) - 1]
    return first


@leaf_kernel
def copy_runs(target: Ints, source: Ints) -> None:
    """Have runs begin where those of others do."""
    for level in range(_LEVELS):
        for word in range(((source.shape[1] - 1) >> (6 * level)) + 1):
            target[level, word] = source[level, word]


@leaf_kernel
def next_run(node: int, n_nodes: int, starts: Ints) -> int:
    """Return the first node of the run that follows that of a node; the number of nodes if none does."""
    at, level = node, 0
    while level < _LEVELS:
        word = at >> 6
        place = next_bit(starts[level, word], at & 63)
        if place < _BITS:
            at = (word << 6) + place
            break
        at = word
        level += 1
    if level == _LEVELS:  # beyond 262,144 nodes there are several words at the top
        level, most = _LEVELS - 1, ((starts.shape[1] - 1) >> 12) + 1
        at += 1
        while at < most and starts[level, at] == 0:
            at += 1
        if at >= most:
            return n_nodes
        at = (at << 6) + _first_bit(starts[level, at])
    while level > 0:
        level -= 1
        at = (at << 6) + _first_bit(starts[level, at])
    return int(at)


@leaf_kernel
def _first_bit(word: int) -> int:
    """Return the place of the first bit of a word that has one."""
    return 0 if word & 1 else next_bit(word, 0)


@leaf_kernel
def run_of(node: int, starts: Ints) -> int:
    """Return the first node of the run that a node belongs to."""
    at, level = node + 1, 0  # the last bit before it; the first node always has one
    while level < _LEVELS:
        word, bits = at >> 6, at & 63
        place = last_bit(starts[level, word], bits - 1) if bits > 0 else -1
        at = word
        if place >= 0:
            at = (word << 6) + place
            break
        level += 1
    if level == _LEVELS:
        level = _LEVELS - 1
        at -= 1
        while starts[level, at] == 0:
            at -= 1
        at = (at << 6) + last_bit(starts[level, at], _BITS - 1)
    while level > 0:
        level -= 1
        at = (at << 6) + last_bit(starts[level, at], _BITS - 1)
    return int(at)


@leaf_kernel
def begin_run(node: int, starts: Ints) -> None:
    """Have a run begin at a node."""
    at = node
    for level in range(_LEVELS):
        word = starts[level, at >> 6]
        starts[level, at >> 6] = word | (np.int64(1) << np.int64(at & 63))
        if word != 0:
            break
        at >>= 6


@leaf_kernel
def join_run(node: int, starts: Ints) -> None:
    """Have the run that begins at a node go on the one before it."""
    at = node
    for level in range(_LEVELS):
        word = starts[level, at >> 6] & ~(np.int64(1) << np.int64(at & 63))
        starts[level, at >> 6] = word
        if word != 0:
            break
        at >>= 6
