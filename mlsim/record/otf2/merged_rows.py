"""The compiled pass over rows that show several cores at once, each in order of time.

Such a row has the job that holds its cores, or that several do; in it, when some PE executes a chunk, and
when none has work any more. What has no length is not shown. The cursors of the intervals that are open at a
time are in a heap, so that neither the chunks of a row are sorted nor memory grows with them.
"""

from typing import NamedTuple

import numpy as np

from mlsim._jit import kernel, shared
from mlsim._runtime.arrays import Ints
from mlsim.record.otf2 import event_pass as steps
from mlsim.record.otf2 import otf2_library as otf2
from mlsim.record.otf2 import trace_layout as refs
from mlsim.record.otf2.event_pass import END_OF_TIME, TOLERANCE, Target, enter_job, ticks
from mlsim.record.otf2.trace_content import Content
from mlsim.record.otf2.trace_layout import Layout
from mlsim.record.record_tables import Nodes

# What a cursor waits for; at the ends, whether its interval counts as one with work, without, or as neither.
_BEGIN, _STOP, _TOLD, _END_AT_WORK, _END_IDLE, _END_OTHER = range(6)
# Counts of a row: distinct jobs and the sum of their numbers, intervals with and without work, chunks at the
# time; since chunks were shown last, those that began, their iterations and PE-nanoseconds; the time, the
# cursors in the heap, and the next interval.
_JOBS, _SUM, _AT_WORK, _IDLE, _BUSY, _CHUNKS, _ITERATIONS, _PE_TIME, _NOW, _OPEN, _NEXT = range(11)
_OUTSIDE = -1


class Work(NamedTuple):
    """Working arrays of the pass."""

    several: int  # region of more than one job
    tally: Ints  # counts of the row
    intervals_of: Ints  # number of open intervals of each job
    heap: Ints  # numbers of all cursors: those in use, of which the first is the earliest, then the free ones
    time: Ints  # by cursor: when its next event is, what that is, its interval, its next chunk,
    state: Ints  # and the end of what came before
    interval: Ints
    chunk: Ints
    reached: Ints


def work_space(layout: Layout, nodes: Nodes, jobs: int, several: int) -> Work:
    """Make room for as many cursors as intervals of one row can be open at a time."""
    cores = np.ones_like(nodes.cores) if layout.per_node else nodes.cores
    widest = int(np.bincount(layout.node_row, cores).max())
    cursors = [np.arange(widest), *(np.zeros(widest, np.int64) for _ in range(5))]
    return Work(several, np.zeros(_NEXT + 1, np.int64), np.zeros(jobs, np.int64), *cursors)


@kernel(_nrt=False)
def write_merged_rows(
    api: otf2.Api,
    archive: int,
    attributes: int,
    state: Ints,
    content: Content,
    events: Ints,
    low: int,
    high: int,
    work: Work,
) -> None:
    """Write some rows, as :func:`mlsim.record.otf2.event_pass.write_rows` does where a row is one core."""
    known, at_hand = shared(content), shared(work)
    for row in range(low, high):
        if not known.intervals.shown[row]:
            continue
        location = refs.FIRST_ROW + row
        writer = otf2.get_writer(api.get_evt_writer, archive, location)
        to = shared(Target(api, writer, attributes, state))
        steps.begin_location(to, known.messages, location)
        if state[steps.FAILED] == 0:
            _write_row(to, known, at_hand, row)
            state[steps.FAILED] |= otf2.close_writer(api.close_evt_writer, archive, to.writer)
        if state[steps.FAILED] != 0 or state[steps.MISPLACED] >= 0:
            return
        events[location] = state[steps.EVENTS]


@kernel(_nrt=False)
def _write_row(to: Target, content: Content, work: Work, row: int) -> None:
    """Write one row: at each instant, what changes."""
    part, tally, state = content.part, work.tally, to.state
    last = content.intervals.first[row + 1]
    tally[:] = 0
    tally[_NEXT] = content.intervals.first[row]
    work.intervals_of[:] = 0
    outer, inner, next_outer, next_inner = _OUTSIDE, _OUTSIDE, _OUTSIDE, _OUTSIDE
    while state[steps.FAILED] == 0:
        time = _next_time(content, work, last)
        if time >= part.first and tally[_NOW] < part.first:  # what is open where the part begins
            _change(to, content, tally, part.first, outer, inner, next_outer, next_inner, True)
            outer, inner = next_outer, next_inner
        if time > part.last or time == END_OF_TIME:
            break
        misplaced = _advance(content, work, time, last)
        if misplaced >= 0:
            state[steps.MISPLACED] = misplaced
            return
        last_outer, last_inner = next_outer, next_inner
        next_outer, next_inner = _shown(content, tally, work.several)
        if time < part.first:
            if last_inner == refs.CHUNK_REGION and (next_inner != last_inner or next_outer != last_outer):
                _forget(tally)
        else:
            _change(to, content, tally, time, outer, inner, next_outer, next_inner, True)
            outer, inner = next_outer, next_inner
    if outer != _OUTSIDE:
        _change(to, content, tally, part.last, outer, inner, _OUTSIDE, _OUTSIDE, False)
    steps.messages_until(to, content.messages, END_OF_TIME)


@kernel(_nrt=False)
def _next_time(content: Content, work: Work, last: int) -> int:
    """Return when something happens next."""
    intervals, time = content.intervals, END_OF_TIME
    if work.tally[_OPEN] > 0:
        time = work.time[work.heap[0]]
    if work.tally[_NEXT] < last:
        row = intervals.occupancy_row[work.tally[_NEXT]]
        time = min(time, ticks(intervals.start[row]))
    return time


@kernel(_nrt=False)
def _shown(content: Content, tally: Ints, several: int) -> tuple[int, int]:
    """Return the outer and the inner region of what holds."""
    if tally[_JOBS] == 0:
        return _OUTSIDE, _OUTSIDE
    outer = several if tally[_JOBS] > 1 else -2 - tally[_SUM]  # the job's row
    if tally[_BUSY] > 0:
        return outer, refs.CHUNK_REGION
    if tally[_AT_WORK] == 0 and tally[_IDLE] > 0:
        return outer, content.idle_region
    return outer, _OUTSIDE


@kernel(_nrt=False)
def _change(
    to: Target,
    content: Content,
    tally: Ints,
    time: int,
    outer: int,
    inner: int,
    next_outer: int,
    next_inner: int,
    whole: bool,
) -> None:
    """Leave the regions that no longer hold, enter those that do; ``whole``: not cut by the part's end."""
    if outer == next_outer and inner == next_inner:
        return
    steps.messages_until(to, content.messages, time + (next_outer == _OUTSIDE))
    if inner != _OUTSIDE:
        listed = 0
        if inner == refs.CHUNK_REGION and content.describe:
            listed = to.attributes if whole else 0
            if whole:
                _describe(to, tally)
            _forget(tally)
        _leave(to, time, inner, listed)
    if outer != next_outer:
        if outer != _OUTSIDE:
            _leave(to, time, outer if outer >= 0 else content.jobs.region[-2 - outer], 0)
        if next_outer >= 0:
            _enter(to, time, next_outer)
        elif next_outer != _OUTSIDE:
            steps.wrote(to, time, enter_job(to, content, -2 - next_outer, time))
    if next_inner != _OUTSIDE:
        _enter(to, time, next_inner)


@kernel(_nrt=False)
def _enter(to: Target, time: int, region: int) -> None:
    steps.wrote(to, time, otf2.enter(to.api.enter, to.writer, 0, steps.stamp(to, time), region))


@kernel(_nrt=False)
def _leave(to: Target, time: int, region: int, listed: int) -> None:
    steps.wrote(to, time, otf2.leave(to.api.leave, to.writer, listed, steps.stamp(to, time), region))


@kernel(_nrt=False)
def _forget(tally: Ints) -> None:
    """Begin to count what happens in chunks anew."""
    tally[_CHUNKS], tally[_ITERATIONS], tally[_PE_TIME] = 0, 0, 0


@kernel(_nrt=False)
def _describe(to: Target, tally: Ints) -> None:
    """Add what has happened in the chunks that were shown to the attributes of the next event."""
    otf2.add_uint(to.api.add_uint64, to.attributes, refs.CHUNKS, tally[_CHUNKS])
    otf2.add_uint(to.api.add_uint64, to.attributes, refs.ITERATIONS, tally[_ITERATIONS])
    otf2.add_double(to.api.add_double, to.attributes, refs.PE_TIME, tally[_PE_TIME] * 1e-9)


@kernel(_nrt=False)
def _advance(content: Content, work: Work, time: int, last: int) -> int:
    """Process all events of a time; return a chunk that is outside of its job, or -1."""
    tally, intervals = work.tally, content.intervals
    tally[_PE_TIME] += tally[_BUSY] * (time - tally[_NOW])
    tally[_NOW] = time
    while True:
        while tally[_OPEN] > 0 and work.time[work.heap[0]] <= time:
            misplaced = _step(content, work, work.heap[0], time)
            if misplaced >= 0:
                return misplaced
        if tally[_NEXT] == last:
            return -1
        interval = tally[_NEXT]
        row = intervals.occupancy_row[interval]
        begin, end = ticks(intervals.start[row]), ticks(intervals.end[row])
        if begin > time:
            return -1
        tally[_NEXT] += 1
        job = intervals.job[row]
        if not content.part.shown[job] or end <= begin:
            continue
        if work.intervals_of[job] == 0:
            tally[_JOBS] += 1
            tally[_SUM] += job
        work.intervals_of[job] += 1
        tally[_AT_WORK] += _is_at_work(content, interval, job)
        cursor = work.heap[tally[_OPEN]]  # the first that is free
        work.interval[cursor], work.reached[cursor] = interval, begin
        if len(content.chunks.rows) > 0:
            work.chunk[cursor] = content.chunks.first[interval]
        tally[_OPEN] += 1
        misplaced = _wait(content, work, cursor)
        if misplaced >= 0:
            return misplaced
        _rise(work, tally[_OPEN] - 1)


@kernel(_nrt=False)
def _is_at_work(content: Content, interval: int, job: int) -> bool:
    """Whether an interval counts as one that has work: cores of a loop that none of its PEs is on do not."""
    told = content.intervals.told
    return bool(len(told) == 0 or content.jobs.technique[job] == 0 or np.isfinite(told[interval]))


@kernel(_nrt=False)
def _wait(content: Content, work: Work, cursor: int) -> int:
    """Find what a cursor waits for next, outside of chunks; return a chunk that is misplaced, or -1."""
    intervals, interval, reached = content.intervals, work.interval[cursor], work.reached[cursor]
    row = intervals.occupancy_row[interval]
    end = ticks(intervals.end[row])
    if len(content.chunks.rows) > 0:
        while work.chunk[cursor] < content.chunks.first[interval + 1]:
            chunk = work.chunk[cursor]
            start, stop = content.chunks.rows[chunk, 0], content.chunks.rows[chunk, 1]
            begins = max(reached, min(start, end))
            stops = max(begins, min(stop, end))
            if abs(begins - start) > TOLERANCE or abs(stops - stop) > TOLERANCE:
                return int(chunk)
            if stops > begins:
                work.time[cursor], work.state[cursor] = begins, _BEGIN
                return -1
            work.chunk[cursor] += 1
    job = intervals.job[row]
    work.time[cursor] = end
    work.state[cursor] = _END_AT_WORK if _is_at_work(content, interval, job) else _END_OTHER
    if len(intervals.told) > 0 and intervals.told[interval] < intervals.end[row]:
        told = max(reached, ticks(intervals.told[interval]))
        if told < end:
            work.time[cursor], work.state[cursor] = told, _TOLD
    return -1


@kernel(_nrt=False)
def _step(content: Content, work: Work, cursor: int, time: int) -> int:
    """Process the next event of the first cursor; return a chunk that is misplaced, or -1."""
    tally, intervals, chunks = work.tally, content.intervals, content.chunks
    state, interval = work.state[cursor], work.interval[cursor]
    row = intervals.occupancy_row[interval]
    if state == _BEGIN:
        chunk = work.chunk[cursor]
        tally[_BUSY] += 1
        tally[_CHUNKS] += 1
        tally[_ITERATIONS] += chunks.rows[chunk, 3]
        stop = min(chunks.rows[chunk, 1], ticks(intervals.end[row]))
        work.time[cursor], work.state[cursor] = max(time, stop), _STOP
    elif state == _STOP:
        tally[_BUSY] -= 1
        work.chunk[cursor] += 1
        work.reached[cursor] = time
        misplaced = _wait(content, work, cursor)
        if misplaced >= 0:
            return misplaced
    elif state == _TOLD:
        tally[_AT_WORK] -= 1
        tally[_IDLE] += 1
        work.time[cursor], work.state[cursor] = ticks(intervals.end[row]), _END_IDLE
    else:
        tally[_AT_WORK] -= state == _END_AT_WORK
        tally[_IDLE] -= state == _END_IDLE
        job = intervals.job[row]
        work.intervals_of[job] -= 1
        if work.intervals_of[job] == 0:
            tally[_JOBS] -= 1
            tally[_SUM] -= job
        tally[_OPEN] -= 1
        work.heap[0], work.heap[tally[_OPEN]] = work.heap[tally[_OPEN]], cursor
    _sink(work)
    return -1


@kernel(_nrt=False)
def _rise(work: Work, place: int) -> None:
    """Move the cursor at the end of the heap up to its place."""
    heap, time = work.heap, work.time
    while place > 0 and time[heap[place]] < time[heap[(place - 1) // 2]]:
        above = (place - 1) // 2
        heap[place], heap[above] = heap[above], heap[place]
        place = above


@kernel(_nrt=False)
def _sink(work: Work) -> None:
    """Move the cursor at the top of the heap down to its place."""
    heap, time, n, place = work.heap, work.time, work.tally[_OPEN], 0
    while 2 * place + 1 < n:
        below = 2 * place + 1
        if below + 1 < n and time[heap[below + 1]] < time[heap[below]]:
            below += 1
        if time[heap[place]] <= time[heap[below]]:
            return
        heap[place], heap[below] = heap[below], heap[place]
        place = below
