"""Random records of small runs which respect capacity: what a simulator could have recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from mlsim.record import Chunks, Jobs, JobState, Loops, MessageKind, Messages, Nodes, Occupancy, PEs, Records

LATENCY = 0.001
# Times that meet at the same instants, have no length, or are not exact in binary.
LENGTHS = (0.0, 0.0, 0.1, 0.3, 1.0, 1.0, 2.5, 1 / 3)


@dataclass
class Held:
    """One occupancy row."""

    job: int
    node: int
    count: int
    cores: int
    start: float
    end: float
    released: bool = False


class Said(NamedTuple):
    """One coordination message."""

    sent: float
    kind: MessageKind
    job: int
    node: int = -1
    nodes: int = 0
    for_job: int = -1


@dataclass
class Run:
    """A run as it is made up, jobs numbered in order of start."""

    cores: list[int]
    held: list[Held] = field(default_factory=list)
    submit: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    chunks: list[tuple[int, int, int, int, int, float, float, float]] = field(default_factory=list)
    pes: list[tuple[int, int, float, float]] = field(default_factory=list)
    messages: list[Said] = field(default_factory=list)


def random_records(seed: int, *, jobs: int = 12, exclusive: bool = False, loops: bool = True) -> Records:
    """Make up the records of a run.

    Parameters
    ----------
    seed
        Of the random choices.
    jobs
        How many jobs start; two more are rejected.
    exclusive
        Whether jobs hold whole nodes.
    loops
        Whether jobs execute loops, release nodes early, some of which they get back, and messages are sent.
    """
    rng = np.random.default_rng(seed)
    run = Run(cores=[int(c) for c in rng.integers(1, 5, size=rng.integers(1, 5))])
    now = 0.0
    for job in range(jobs):
        now = _start(run, rng, job, now, exclusive=exclusive, loops=loops)
    return _tables(run, rng)


def with_requests(records: Records, seed: int) -> Records:
    """Make up what rows of PEs tell of their requests; some have no answer."""
    rng, pes = np.random.default_rng(seed), records.pes
    latency = np.where(pes.pe > 0, rng.choice([0.0, 1e-6, 1e-3, 0.1], len(pes.pe)), 0.0)
    last = pes.told - rng.choice([0.0, 1e-3, 0.25], len(pes.pe))
    last[(rng.random(len(last)) < 0.2) | (pes.pe == 0)] = np.nan
    return replace(records, pes=replace(pes, latency=latency, last_request=last))


def _free(run: Run, node: int, begin: float, end: float) -> int:
    """Count the cores of a node that are free all the time for an occupancy row made now."""
    held = [h for h in run.held if h.node <= node < h.node + h.count]
    used = [sum(h.cores for h in held if h.start <= begin < h.end)]
    for time in {h.start for h in held if begin < h.start < end}:
        used.append(sum(h.cores for h in held if h.start <= time < h.end or h.start == time == h.end))
    return run.cores[node] - max(used)


def _start(
    run: Run, rng: np.random.Generator, job: int, now: float, *, exclusive: bool, loops: bool
) -> float:
    """Start one job as soon as there is room on some consecutive nodes; return the time."""
    now += float(rng.choice([0.0, 0.0, 0.1, 0.7]))
    count = int(rng.integers(1, len(run.cores) + 1))
    first = int(rng.integers(0, len(run.cores) - count + 1))
    nodes = range(first, first + count)
    wanted = [run.cores[n] if exclusive else int(rng.integers(1, run.cores[n] + 1)) for n in nodes]
    length = float(rng.choice(LENGTHS))
    while any(_free(run, n, now, now + length) < w for n, w in zip(nodes, wanted, strict=True)):
        now = min(h.end for h in run.held if h.end > now)
    end = now + length
    rows = [Held(job, n, 1, w, now, end) for n, w in zip(nodes, wanted, strict=True)]
    back = _execute(run, rng, job, rows, end) if loops and rng.random() < 0.8 else []
    if len(rows) == 2 and rows[0].cores == rows[1].cores and rows[0].end == rows[1].end:
        rows = [Held(job, first, 2, rows[0].cores, now, end)]
    run.held += rows + back
    run.submit.append(now - min(now, float(rng.choice([0.0, 0.5, 2.0]))))
    run.start.append(now)
    run.end.append(end)
    return now


def _execute(run: Run, rng: np.random.Generator, job: int, rows: list[Held], end: float) -> list[Held]:
    """Make up a loop: chunks of every PE, when it was told to stop, and what nodes were released.

    Returns the rows of nodes that were given back to the job.
    """
    pe, back = 0, []
    for position, row in enumerate(rows):
        stay, told = row, [row.start] * row.cores
        while position > 0 and rng.random() < 0.6 and end - stay.start > 10 * LATENCY:
            middle = stay.start + (end - stay.start) / 2
            told = [_work(run, rng, job, pe + core, stay.start, middle) for core in range(row.cores)]
            stay.end, stay.released = max(told) + LATENCY, True
            _release(run, rng, stay)
            if rng.random() < 0.3:
                break
            again = float(rng.choice([stay.end, rng.uniform(stay.end, (stay.end + end) / 2)]))
            stay = Held(job, row.node, 1, row.cores, again, end)
            run.messages.append(Said(again, MessageKind.NODE_RETURNED, job, row.node, 1))
            back.append(stay)
        if not stay.released and (stay is row or rng.random() < 0.8):  # else it came too late to ask again
            told = [_work(run, rng, job, pe + core, stay.start, stay.end) for core in range(row.cores)]
        run.pes += [(job, pe + core, told[core], told[core]) for core in range(row.cores)]
        pe += row.cores
    _refuse(run, rng, job, rows[0].start, end)
    run.messages.append(Said(end, MessageKind.JOB_COMPLETED, job))
    return back


def _work(run: Run, rng: np.random.Generator, job: int, pe: int, begin: float, end: float) -> float:
    """Make up the chunks of a PE in a time; return when it was told to stop, or left."""
    bounds = np.sort(rng.uniform(begin, end, size=2 * int(rng.integers(0, 4))))
    bounds[rng.random(len(bounds)) < 0.2] = begin
    at = begin
    for start, stop in np.sort(bounds).reshape(-1, 2):
        step = len(run.chunks)
        size = int(rng.integers(1, 400))
        run.chunks.append((job, pe, step, 400 * step, size, at, float(start), float(stop)))
        at = float(stop)
    return float(rng.uniform(at, end)) if rng.random() < 0.7 else end


def _release(run: Run, rng: np.random.Generator, stay: Held) -> None:
    """Send that a node is idle, maybe after it was asked for; some messages meet at an instant."""
    idle = stay.end - LATENCY
    if rng.random() < 0.6:
        asked = float(rng.choice([stay.start, rng.uniform(stay.start, idle), idle]))
        run.messages.append(Said(asked, MessageKind.RELEASE_REQUEST, stay.job, -1, 2, 100 + stay.job))
        run.messages.append(Said(asked + LATENCY, MessageKind.RELEASE_ACCEPTED, stay.job, stay.node, 1))
    run.messages.append(Said(idle, MessageKind.NODE_IDLE, stay.job, stay.node, 1))


def _refuse(run: Run, rng: np.random.Generator, job: int, begin: float, end: float) -> None:
    """Ask in vain, maybe at the very start or end."""
    for asked in rng.choice([begin, rng.uniform(begin, end), end], size=int(rng.integers(0, 3))).tolist():
        run.messages.append(Said(asked, MessageKind.RELEASE_REQUEST, job, -1, 1, 3))
        run.messages.append(Said(asked + LATENCY, MessageKind.RELEASE_REJECTED, job))


def _tables(run: Run, rng: np.random.Generator) -> Records:
    """Put the run into tables, with jobs in order of submission and two that were rejected."""
    submit = np.array([*run.submit, 0.0, float(rng.uniform(0, 3))])
    jobs = len(submit)
    order = np.argsort(submit, kind="stable")
    row_of = np.argsort(order)
    nan = [np.nan, np.nan]
    state = np.append(rng.choice([JobState.COMPLETED, JobState.KILLED, JobState.FAILED], jobs - 2), [2, 2])
    ones = np.ones(jobs, np.int64)
    table = Jobs(
        job_id=100 + 7 * np.arange(jobs),
        submit_time=submit[order],
        start_time=np.array([*run.start, *nan])[order],
        end_time=np.array([*run.end, *nan])[order],
        walltime=np.full(jobs, 10.0),
        prediction=np.full(jobs, 10.0),
        log_run_time=np.full(jobs, 5.0),
        processors=rng.integers(1, 9, jobs),
        cores=ones,
        working=ones,
        state=state[order].astype(np.int8),
        backfilled=rng.random(jobs) < 0.3,
        user=rng.integers(-1, 4, jobs),
        group=ones,
        executable=rng.integers(-1, 4, jobs),
        queue=ones,
        partition=ones,
    )
    return Records(
        nodes=Nodes(
            [f"n{n}" for n in range(len(run.cores))],
            ["fat" if n % 2 else "thin" for n in range(len(run.cores))],
            np.array(run.cores),
            np.ones(len(run.cores)),
        ),
        jobs=table,
        occupancy=_occupancy(run, row_of),
        loops=_loops(run, row_of),
        chunks=_chunks(run, row_of),
        pes=_pes(run, row_of),
        messages=_messages(run, row_of),
    )


def _columns(rows: list[tuple[float, ...]], width: int) -> list[np.ndarray]:
    """Turn rows into columns; no rows give empty columns."""
    return list(np.array(rows, np.float64).reshape(len(rows), width).T)


def _ints(column: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(column).astype(np.int64)


def _occupancy(run: Run, row_of: np.ndarray) -> Occupancy:
    in_order = sorted(run.held, key=lambda held: held.start)
    rows = [(h.job, h.node, h.count, h.cores, h.start, h.end, h.released) for h in in_order]
    job, node, count, cores, start, end, released = _columns(rows, 7)
    held = row_of[_ints(job)], _ints(node), _ints(count), _ints(cores), start.copy(), end.copy()
    return Occupancy(*held, released.astype(np.bool_))


def _loops(run: Run, row_of: np.ndarray) -> Loops:
    jobs = sorted({pe[0] for pe in run.pes})
    ones = np.ones(len(jobs), np.int64)
    return Loops(row_of[jobs] if jobs else _ints(ones), *(ones,) * 3, *(ones.astype(np.float64),) * 7)


def _chunks(run: Run, row_of: np.ndarray) -> Chunks:
    job, pe, step, first, size, requested, start, end = _columns(run.chunks, 8)
    order = np.lexsort((np.arange(len(job)), start, job))
    ints = row_of[_ints(job)], _ints(pe).astype(np.int32), _ints(step), _ints(first), _ints(size)
    return Chunks(*(column[order] for column in (*ints, requested, start, end)))


def _pes(run: Run, row_of: np.ndarray) -> PEs:
    job, pe, finish, told = _columns(run.pes, 4)
    return PEs(row_of[_ints(job)], _ints(pe).astype(np.int32), finish.copy(), told.copy(), finish.copy())


def _messages(run: Run, row_of: np.ndarray) -> Messages:
    sent, *rest = _columns(sorted(run.messages), 6)
    kind, job, node, nodes, for_job = map(_ints, rest)
    left = np.where(kind <= MessageKind.JOB_COMPLETED, np.arange(len(kind)), 0)
    rows = kind.astype(np.int8), row_of[job], node, sent.copy(), sent + LATENCY
    return Messages(*rows, nodes, for_job, left, left * 0.5)
