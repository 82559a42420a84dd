"""Random records of small runs which respect capacity: what a simulator could have recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mlsim.record import (
    Chunks,
    Jobs,
    JobState,
    Loops,
    MessageKind,
    Messages,
    Nodes,
    Occupancy,
    PEs,
    Records,
)

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
    messages: list[tuple[int, int, int, float]] = field(default_factory=list)


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
        Whether jobs execute loops, release nodes early and send messages.
    """
    rng = np.random.default_rng(seed)
    run = Run(cores=[int(c) for c in rng.integers(1, 5, size=rng.integers(1, 5))])
    now = 0.0
    for job in range(jobs):
        now = _start(run, rng, job, now, exclusive=exclusive, loops=loops)
    return _tables(run, rng)


def _free(run: Run, node: int, at: float) -> int:
    """Count the free cores of a node, as an occupancy row that starts now would find them."""
    used = sum(h.cores for h in run.held if h.node <= node < h.node + h.count and h.end > at)
    return run.cores[node] - used


def _start(
    run: Run, rng: np.random.Generator, job: int, now: float, *, exclusive: bool, loops: bool
) -> float:
    """Start one job as soon as there is room on some consecutive nodes; return the time."""
    now += float(rng.choice([0.0, 0.0, 0.1, 0.7]))
    count = int(rng.integers(1, len(run.cores) + 1))
    first = int(rng.integers(0, len(run.cores) - count + 1))
    nodes = range(first, first + count)
    wanted = [run.cores[n] if exclusive else int(rng.integers(1, run.cores[n] + 1)) for n in nodes]
    while any(_free(run, n, now) < w for n, w in zip(nodes, wanted, strict=True)):
        now = min(h.end for h in run.held if h.end > now)
    end = now + float(rng.choice(LENGTHS))
    rows = [Held(job, n, 1, w, now, end) for n, w in zip(nodes, wanted, strict=True)]
    if loops and rng.random() < 0.8:
        _execute(run, rng, job, rows, end)
    if len(rows) == 2 and rows[0].cores == rows[1].cores and rows[0].end == rows[1].end:
        rows = [Held(job, first, 2, rows[0].cores, now, end)]
    run.held += rows
    run.submit.append(now - min(now, float(rng.choice([0.0, 0.5, 2.0]))))
    run.start.append(now)
    run.end.append(end)
    return now


def _execute(run: Run, rng: np.random.Generator, job: int, rows: list[Held], end: float) -> None:
    """Make up a loop: chunks of every PE, when it was told to stop, and what nodes were released."""
    pe, step, first = 0, 0, 0
    for position, row in enumerate(rows):
        if position > 0 and rng.random() < 0.5 and end - row.start > 10 * LATENCY:
            row.end, row.released = row.start + (end - row.start) / 2, True
        last = row.end - LATENCY if row.released else row.end
        told_last = row.start
        for _ in range(row.cores):
            bounds = np.sort(rng.uniform(row.start, last, size=2 * int(rng.integers(0, 4))))
            bounds[rng.random(len(bounds)) < 0.2] = row.start
            at = row.start
            for begin, stop in np.sort(bounds).reshape(-1, 2):
                size = int(rng.integers(1, 400))
                run.chunks.append((job, pe, step, first, size, at, float(begin), float(stop)))
                step, first, at = step + 1, first + size, float(stop)
            told = float(rng.uniform(at, last)) if rng.random() < 0.7 else last
            told_last = max(told_last, told)
            run.pes.append((job, pe, at, told))
            pe += 1
        if row.released:
            row.end = told_last + LATENCY
            run.messages.append((MessageKind.NODE_IDLE, job, row.node, told_last))
    run.messages.append((MessageKind.JOB_COMPLETED, job, -1, end))


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
    rows = [(h.job, h.node, h.count, h.cores, h.start, h.end, h.released) for h in run.held]
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
    kind, job, node, sent = _columns(sorted(run.messages, key=lambda message: message[3]), 4)
    left = np.arange(len(kind))
    rows = _ints(kind).astype(np.int8), row_of[_ints(job)], _ints(node), sent.copy(), sent + LATENCY
    return Messages(*rows, left, left * 0.5)
