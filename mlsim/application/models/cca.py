"""CCA, centralized chunk calculation: a master sizes all chunks (Eleliemy 2021, §4.1).

The master is PE 0 and not dedicated: it executes chunks of its own, and looks for requests only at its
breaks, which are after every ``break_after`` iterations of its own chunk, at the chunk's end, and, when
it has nothing to execute, at once. At a break it serves until no request is waiting. Its own request
stands in the same queue, from the moment its chunk ended. To serve a request it calculates and assigns
a chunk, then sends it; a request that comes when nothing is left is answered without a calculation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.calendar import due_lowest_rank, move, new_calendar
from mlsim.application.models.notes import Costs, PENotes, Rows, write_row
from mlsim.application.techniques.adaptive import learn, new_measurements
from mlsim.application.techniques.rules import AF, SIZE, STATIC, new_rule, recursive_size

__all__ = ["FIFO", "LOWEST_RANK", "run"]

Floats = NDArray[np.float64]

FIFO = 0
LOWEST_RANK = 1


@kernel
def _execute_until(
    prefix: Floats, speed: float, now: float, position: int, end: int, break_after: int, request: float
) -> tuple[float, int]:
    """Execute a chunk from ``position`` up to the first break at which a request waits, or to its end.

    ``request`` is when the next request arrives. Gives the time and the iteration reached.
    """
    reached = position
    while True:
        reached = min(reached + break_after, end)
        time = now + (prefix[reached] - prefix[position]) / speed
        if reached == end or time >= request:
            return time, reached


@kernel
def run(
    prefix: Floats,
    speed: Floats,
    latency: Floats,
    code: int,
    min_chunk: int,
    first_size: int,
    costs: Costs,
    until: float,
    break_after: int,
    service_order: int,
    notes: PENotes,
    rows: Rows,
) -> int:
    """Simulate one loop from time 0, when every PE asks for its first chunk.

    Parameters
    ----------
    prefix
        float64[N+1], prefix sums of the iteration costs in s at speed 1.
    speed, latency
        float64[P], P >= 1: relative speeds; one-way times of a message to PE 0 in s (0 for PE 0).
    code, min_chunk, first_size
        Technique, least chunk, AF's chunk without statistics.
    costs
        Costs of the model.
    until
        When the loop is ended whatever remains, in s; infinity: never.
    break_after, service_order
        Iterations of its own that the master executes between two looks for requests, and which of
        the requests that wait it serves first: ``FIFO`` or ``LOWEST_RANK``.
    notes, rows
        Receive the results.

    Returns
    -------
    int
        How many chunks were begun.
    """
    n, p = len(prefix) - 1, len(speed)
    finish, told, busy, overhead, chunks, last_first, last_size = notes
    row_pe, row_numbers, row_times = rows
    rule = new_rule(code, n, p, min_chunk, first_size)
    measured, sums = new_measurements(p if code == AF else 1)
    times, ranks = new_calendar(latency)  # of requests reaching the master, its own among them

    serving = costs.calculation / speed[0] + costs.delay + costs.assignment
    asked = np.zeros(p)
    told[:] = -1.0  # not yet
    now = 0.0  # the master's clock
    position, own_end = 0, 0  # what is left of the master's own chunk
    own_step, own_row, own_start, own_seconds = 0, -1, 0.0, 0.0  # own_row < 0: not begun
    step, begin, count = 0, 0, 0

    while now < until:
        if times[1] <= now:
            pe = ranks[1] if service_order == FIFO else due_lowest_rank(times, now)
            if code == AF and last_size[pe] > 0:
                learn(measured, sums, pe, prefix, speed[pe], last_first[pe], last_size[pe])
            first, chunk_step = begin, step
            if code == STATIC:
                first, chunk_step = pe * rule[SIZE] if chunks[pe] == 0 else n, pe
            if first >= n:
                told[pe] = min(now + latency[pe], until)
                overhead[pe] += told[pe] - asked[pe]
                move(times, ranks, pe, np.inf)
                continue
            if code == STATIC:
                size = min(rule[SIZE], n - first)
            else:
                size = recursive_size(rule, measured, sums, step, n - first, pe)
            begin = first + size
            step += 1
            now += serving
            if pe == 0:
                position, own_end, own_step, own_row = first, begin, chunk_step, -1
                move(times, ranks, pe, np.inf)
                continue
            start = now + latency[pe]
            if start >= until:
                move(times, ranks, pe, np.inf)
                continue
            seconds = (prefix[begin] - prefix[first]) / speed[pe]
            end = start + seconds
            if end >= until:
                end, seconds = until, until - start
            write_row(
                row_pe, row_numbers, row_times, count, pe, chunk_step, first, size, asked[pe], start, end
            )
            count += 1
            chunks[pe] += 1
            last_first[pe], last_size[pe] = first, size
            busy[pe] += seconds
            overhead[pe] += start - asked[pe]
            finish[pe] = end
            asked[pe] = end
            move(times, ranks, pe, end + latency[pe])
        elif position < own_end:
            if own_row < 0:
                own_row, own_start, own_seconds = count, now, 0.0
                count += 1
                chunks[0] += 1
                last_first[0], last_size[0] = position, own_end - position
                overhead[0] += now - asked[0]
            time, position = _execute_until(
                prefix, speed[0], now, position, own_end, break_after, min(times[1], until)
            )
            own_seconds += min(time, until) - now
            now = time
            if position == own_end and now < until:
                first, size = last_first[0], last_size[0]
                write_row(
                    row_pe,
                    row_numbers,
                    row_times,
                    own_row,
                    0,
                    own_step,
                    first,
                    size,
                    asked[0],
                    own_start,
                    now,
                )
                busy[0] += (prefix[own_end] - prefix[first]) / speed[0]
                finish[0] = now
                asked[0] = now
                own_row = -1
                move(times, ranks, 0, now)
        elif times[1] < np.inf:
            now = times[1]
        else:
            break

    if own_row >= 0:  # the loop was ended amid the master's chunk
        first, size = last_first[0], last_size[0]
        write_row(
            row_pe, row_numbers, row_times, own_row, 0, own_step, first, size, asked[0], own_start, until
        )
        busy[0] += own_seconds
        finish[0] = until
        asked[0] = until
    for pe in range(p):
        if told[pe] < 0.0:
            told[pe] = until
            overhead[pe] += until - asked[pe]
    return count
