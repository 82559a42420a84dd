"""Arrival order: jobs by (submit_time, job_id), whatever the order of the log's lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from mlsim.workload.jobs import JobBlock
from mlsim.workload.log import LogBlock

__all__ = ["DisorderCount", "DuplicateCount", "TooDisorderedError", "in_order"]


_MAPPED_IDS = 1 << 28


class TooDisorderedError(Exception):
    """A job arrived earlier than one that had left the look-ahead; the log must be sorted as a whole."""


class DisorderCount:
    """Counts the jobs that the log lists right after one that was submitted later."""

    def __init__(self) -> None:
        self.jobs = 0
        self._last = -np.inf

    def watch(self, blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
        """Pass blocks on, counting."""
        for block in blocks:
            if len(block):
                self.jobs += int(np.sum(np.diff(block.submit_time, prepend=self._last) < 0))
                self._last = float(block.submit_time[-1])
            yield block


class DuplicateCount:
    """Counts the jobs whose job_id an earlier job of the log has.

    Memory: one bit for each number up to the largest job_id below :data:`_MAPPED_IDS`; larger ones, which are
    no order of submission, take 8 bytes each.
    """

    def __init__(self) -> None:
        self.jobs = 0
        self._seen = np.zeros(1, np.uint8)
        self._large = np.empty(0, np.int64)

    def watch(self, blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
        """Pass blocks on, counting."""
        for block in blocks:
            numbers = np.unique(block.job_id.astype(np.int64))
            self.jobs += len(block) - numbers.size
            split = int(np.searchsorted(numbers, _MAPPED_IDS))
            self._map(numbers[:split])
            self._keep(numbers[split:])
            yield block

    def has(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the identifiers occurred among the jobs counted so far."""
        place = np.minimum(ids >> 3, self._seen.size - 1)
        mapped = (self._seen[place] >> (ids & 7).astype(np.uint8)) & 1
        low: NDArray[np.bool_] = (ids >> 3 < self._seen.size) & (ids < _MAPPED_IDS) & (mapped != 0)
        low |= np.isin(ids, self._large)
        return low

    def _map(self, numbers: NDArray[np.int64]) -> None:
        if not numbers.size:
            return
        needed = int(numbers[-1]) // 8 + 1
        if needed > self._seen.size:
            grown = np.zeros(max(needed, 2 * self._seen.size), np.uint8)
            grown[: self._seen.size] = self._seen
            self._seen = grown
        place, bit = numbers >> 3, np.left_shift(1, numbers & 7).astype(np.uint8)
        self.jobs += int(np.count_nonzero(self._seen[place] & bit))
        np.bitwise_or.at(self._seen, place, bit)

    def _keep(self, numbers: NDArray[np.int64]) -> None:
        if numbers.size:
            self.jobs += int(np.count_nonzero(np.isin(numbers, self._large)))
            self._large = np.union1d(self._large, numbers)


def in_order(blocks: Iterable[JobBlock], look_ahead: int) -> Iterator[JobBlock]:
    """Sort a stream of blocks into arrival order, holding back `look_ahead` jobs.

    Gives exactly the order that sorting everything gives: jobs that tie in submit time and job_id
    stay in the order of the log.

    Raises
    ------
    TooDisorderedError
        A job would have to go before one already yielded.
    """
    held: deque[JobBlock] = deque()  # each sorted, one after the other
    count = 0
    last = (-np.inf, -1)
    for block in blocks:
        if not len(block):
            continue
        block = _sorted(block)
        if held and _first(block) < _last(held[-1]):
            block = _sorted(JobBlock.concatenate([*held, block]))
            held.clear()
            count = 0
        held.append(block)
        count += len(block)
        if _first(held[0]) < last:
            raise TooDisorderedError
        while held and count - len(held[0]) >= look_ahead:
            ready = held.popleft()
            count -= len(ready)
            last = _last(ready)
            yield ready
        if len(held) == 1 and count > look_ahead:
            # What was sorted together is long; let no more of it wait than needed.
            whole, ready_rows = held.popleft(), count - look_ahead
            ready = whole.select(slice(0, ready_rows))
            held.append(whole.select(slice(ready_rows, None)))
            count = look_ahead
            last = _last(ready)
            yield ready
    yield from held


def _first(block: JobBlock) -> tuple[float, int]:
    return float(block.submit_time[0]), int(block.job_id[0])


def _last(block: JobBlock) -> tuple[float, int]:
    return float(block.submit_time[-1]), int(block.job_id[-1])


def _sorted(block: JobBlock) -> JobBlock:
    return block if block.is_ordered() else block.select(block.arrival_order())
