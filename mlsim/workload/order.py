"""Arrival order: jobs by (submit_time, job_id), whatever the order of the log's lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from mlsim.workload.jobs import JobBlock
from mlsim.workload.log import LogBlock

__all__ = ["DisorderCount", "TooDisorderedError", "in_order"]


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


def in_order(blocks: Iterable[JobBlock], look_ahead: int) -> Iterator[JobBlock]:
    """Sort a stream of blocks into arrival order, holding back `look_ahead` jobs.

    Gives exactly the order that sorting everything gives: jobs that tie in submit time and job_id
    stay in the order of the log.

    Raises
    ------
    TooDisorderedError
        A job would have to go before one already yielded.
    """
    held = JobBlock.empty()
    last = (-np.inf, -1)
    for block in blocks:
        held = _sorted(JobBlock.concatenate([held, block]))
        ready = len(held) - look_ahead
        if ready > 0:
            _check_after(last, held)
            last = (float(held.submit_time[ready - 1]), int(held.job_id[ready - 1]))
            yield held.select(slice(0, ready))
            held = held.select(slice(ready, None))
    if len(held):
        _check_after(last, held)
        yield held


def _sorted(block: JobBlock) -> JobBlock:
    return block if block.is_ordered() else block.select(block.arrival_order())


def _check_after(last: tuple[float, int], block: JobBlock) -> None:
    if (float(block.submit_time[0]), int(block.job_id[0])) < last:
        raise TooDisorderedError
