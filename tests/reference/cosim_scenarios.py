"""One description of a small run, for the slow co-simulation and for the simulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from mlsim.batch.room.unit_requests import Requests
from mlsim.cosim import scenario_inputs, simulation
from mlsim.record import JobState, MessageKind, Messages, Records
from mlsim.record.derived_times import restarts
from mlsim.scenario import from_mapping
from mlsim.workload.workload_jobs import JobBlock, NodeSets
from tests.reference import cosim
from tests.reference.cosim_data import Job, Message, Platform, Rules, Run

LOOP_KEYS = {
    "calculation": "chunk_calculation",
    "assignment": "chunk_assignment",
    "atomic": "atomic_service",
    "delay": "injected_delay",
    "break_after": "break_after",
    "break_time": "break_time",
    "service_order": "service_order",
    "nowait": "nowait",
}
"""Fields of a ``Case`` and their keys under ``application.execution``."""


class Row(NamedTuple):
    """A job of the workload; ``units`` are whole nodes."""

    submit: float
    run: float
    estimate: float
    units: int
    executable: int = -1
    after: tuple[tuple[int, bool, float], ...] = ()  # job, whether it must complete, think time
    may_use: frozenset[int] | None = None  # nodes; None: all


@dataclass(frozen=True)
class Study:
    """What both simulate. All jobs share the shape of their costs, scaled to run time times PEs.

    The costs sum up to a power of two and all nodes have equally many cores, a power of two, so that
    scaled costs are exact in floating point.
    """

    rows: tuple[Row, ...]
    costs: tuple[float, ...]
    platform: Platform
    rules: Rules


class Result(NamedTuple):
    """What is compared; jobs by their number in order of arrival."""

    jobs: list[tuple[Any, ...]]  # state, start, end, backfilled, restarts
    stays: dict[int, list[tuple[Any, ...]]]  # node, from, to, released
    messages: list[tuple[Any, ...]]  # sent, job, kind, node, received, nodes asked for, id of for whom
    chunks: dict[int, list[tuple[Any, ...]]]  # pe, step, first, size, requested, start, end, attempt


def _ordered(study: Study) -> list[tuple[int, Row]]:
    """Job ids and rows in order of arrival."""
    return sorted(enumerate(study.rows, start=1), key=lambda pair: (pair[1].submit, pair[0]))


def by_reference(study: Study) -> Result:
    """Run the slow co-simulation."""
    origin = min(row.submit for row in study.rows)
    jobs = []
    for job_id, row in _ordered(study):
        work = Fraction(row.run) * row.units * study.platform.cores[0]
        scale = work / sum(Fraction(cost) for cost in study.costs)
        costs = tuple(Fraction(cost) * scale for cost in study.costs)
        submit = Fraction(row.submit) - Fraction(origin)
        jobs.append(
            Job(job_id, submit, row.estimate, row.units, costs, row.executable, row.after, row.may_use)
        )
    runs, messages = cosim.simulate(jobs, study.platform, study.rules)
    number = {run.job.id: k for k, run in enumerate(runs)}
    return Result(
        [_job(run) for run in runs],
        {k: sorted(_stays(run)) for k, run in enumerate(runs) if run.stays or run.earlier},
        sorted(row for message in messages for row in _message_rows(message, number[message.job])),
        {k: sorted(rows) for k, run in enumerate(runs) if (rows := list(_chunks(run)))},
    )


def _chunks(run: Run) -> Iterator[tuple[Any, ...]]:
    """Chunks of all attempts."""
    for number, attempt in enumerate((*run.earlier, run), start=1):
        for chunk in attempt.chunks:
            yield *chunk, number


def _stays(run: Run) -> Iterator[tuple[Any, ...]]:
    """Stays of all attempts."""
    for attempt in (*run.earlier, run):
        for stay in attempt.stays:
            yield stay.node, stay.begin, stay.end, stay.released


def _job(run: Run) -> tuple[Any, ...]:
    # A job that waits when nothing more happens never starts.
    state = "rejected" if run.state == "waiting" else run.state
    return state, run.start, run.end, run.backfilled, len(run.earlier)


def _message_rows(message: Message, job: int) -> list[tuple[Any, ...]]:
    """One row a message; an acceptance has one for each node."""
    asked, head = message.facts[:2] if message.kind == "release-request" else (0, -1)
    nodes = message.facts[0] if message.kind == "release-accepted" else (message.node,)
    return [(message.sent, job, message.kind, node, message.received, asked, head) for node in nodes]


def scenario_of(study: Study, directory: Path) -> dict[str, Any]:
    """Write the files of a scenario, and give its mapping."""
    lines = ["job_id,submit_time,run_time,estimate,processors,executable,dependencies"]
    for job_id, row in enumerate(study.rows, start=1):
        after = ";".join(
            f"{'afterok' if must else 'afterany'}:{job}+{think}s" for job, must, think in row.after
        )
        lines.append(f"{job_id},{row.submit},{row.run},{row.estimate},{row.units},{row.executable},{after}")
    (directory / "jobs.csv").write_text("\n".join(lines) + "\n")
    np.save(directory / "costs.npy", np.array(study.costs, np.float64))
    platform, rules = study.platform, study.rules
    loop = {
        key: float(value) if key in ("calculation", "assignment", "atomic", "delay") else value
        for key, value in rules.loop.items()
    }
    execution = {LOOP_KEYS[key]: value for key, value in loop.items() if key in LOOP_KEYS}
    return {
        "name": "study",
        "platform": {
            "nodes": [
                {"name": f"n{k}x", "count": 1, "cores": cores, "speed": float(speed) * 1e9}
                for k, (cores, speed) in enumerate(zip(platform.cores, platform.speed, strict=True))
            ],
            "reference_speed": 1e9,
            "network": {"latency": float(platform.between), "intra_node_latency": float(platform.within)},
            **_failures(rules),
        },
        "workload": {
            "path": "jobs.csv",
            "mapping": "node",
            "dependencies": any(row.after for row in study.rows),
        },
        "batch": {
            "backfill": "easy" if rules.easy else "none",
            "on_overrun": "kill" if rules.kill else "extend",
            "pass_interval": rules.pass_interval,
            "backfill_interval": rules.backfill_interval,
            **({"on_failure": "restart", "max_restarts": rules.max_restarts} if rules.restart else {}),
        },
        "application": {
            "model": "loop",
            "costs": {"profile": "file", "path": "costs.npy", "calibrate": "run-time"},
            "technique": loop["technique"],
            "min_chunk": loop.get("min_chunk", 1),
            "execution": {"model": rules.model, "message_size": 0, **execution},
        },
        "coordination": _coordination(rules),
        "output": {"trace": "chunks"},
    }


def _failures(rules: Rules) -> dict[str, Any]:
    rows = [
        {"node": failure.node, "at": float(failure.at)}
        | ({} if failure.repair is None else {"repair": float(failure.repair)})
        for failure in rules.failures
    ]
    drains = [
        {"nodes": drain.node, "start": float(drain.start)}
        | ({} if drain.end is None else {"end": float(drain.end)})
        for drain in rules.drains
    ]
    return ({"failures": rows} if rows else {}) | ({"drains": drains} if drains else {})


def _coordination(rules: Rules) -> dict[str, Any]:
    section: dict[str, Any] = {"rca": rules.rca}
    if rules.rca:
        section["latency"] = float(rules.latency)
    if rules.requests:
        section |= {"requests": "head-of-queue", "answer": rules.answer, "reclaim": rules.reclaim}
        if rules.answer == "tolerance":
            section["tolerance"] = float(rules.tolerance)
    if rules.short_first:
        section["released_nodes"] = "short-first"
    return section


def by_simulator(study: Study, directory: Path) -> Result:
    """Run the simulator on a scenario of the same study."""
    scenario = from_mapping(scenario_of(study, directory), directory=directory)
    if all(row.may_use is None for row in study.rows):
        return result_of(simulation.simulate(scenario).records)
    nodes, blocks, on = range(len(study.platform.cores)), scenario_inputs.Submissions.blocks, Requests.on

    def with_sets(submissions: scenario_inputs.Submissions) -> Iterator[JobBlock]:
        for block in blocks(submissions):
            allowed = [study.rows[job_id - 1].may_use for job_id in block.job_id.tolist()]
            masks = [[may_use is None or node in may_use for node in nodes] for may_use in allowed]
            yield replace(block, node_sets=NodeSets.of(np.array(masks)))

    # No scenario has sets of nodes yet.
    with (
        mock.patch.object(scenario_inputs.Submissions, "blocks", with_sets),
        mock.patch.object(Requests, "on", lambda *given: replace(on(*given), node_sets=True)),
    ):
        return result_of(simulation.simulate(scenario).records)


def result_of(records: Records) -> Result:
    """Take what is compared out of the records of a run."""
    jobs, occupancy, messages, chunks = records.jobs, records.occupancy, records.messages, records.chunks
    states = [JobState(code).name.lower() for code in jobs.state]
    stays, taken = defaultdict(list), defaultdict(list)
    for k, job in enumerate(occupancy.job):
        for node in range(occupancy.node[k], occupancy.node[k] + occupancy.count[k]):
            stays[int(job)].append((node, occupancy.start[k], occupancy.end[k], bool(occupancy.released[k])))
    for k, job in enumerate(chunks.job):
        numbers = (chunks.pe[k], chunks.step[k], chunks.first[k], chunks.size[k])
        times = (chunks.requested[k], chunks.start[k], chunks.end[k])
        attempt = 1 if chunks.attempt is None else int(chunks.attempt[k])
        taken[int(job)].append((*map(int, numbers), *times, attempt))
    return Result(
        list(
            zip(
                states,
                jobs.start_time,
                jobs.end_time,
                jobs.backfilled.tolist(),
                restarts(records.attempts, len(states)).tolist(),
                strict=True,
            )
        ),
        {job: sorted(rows) for job, rows in stays.items()},
        sorted(_sent(messages)),
        {job: sorted(rows) for job, rows in taken.items()},
    )


def _sent(messages: Messages) -> Iterator[tuple[Any, ...]]:
    for k, code in enumerate(messages.kind):
        is_request = code == MessageKind.RELEASE_REQUEST
        yield (
            messages.sent[k],
            int(messages.job[k]),
            MessageKind(code).name.lower().replace("_", "-"),
            int(messages.node[k]),
            messages.received[k],
            int(messages.nodes[k]) if is_request else 0,
            int(messages.for_job[k]) if is_request else -1,
        )


def differences(expected: Result, found: Result) -> list[str]:
    """Name everything that two results disagree on by more than 1e-9."""
    lines = []
    for name in Result._fields:
        one, other = getattr(expected, name), getattr(found, name)
        if isinstance(one, dict):
            for job in sorted(set(one) | set(other)):
                lines += _compared(f"{name} of job {job}", one.get(job, []), other.get(job, []))
        else:
            lines += _compared(name, one, other)
    return lines


def _compared(name: str, expected: Sequence[Any], found: Sequence[Any]) -> list[str]:
    if len(expected) == len(found) and all(map(_same, expected, found)):
        return []
    lines = [f"{name}: expected {len(expected)}, found {len(found)}"]
    lines += [f"  expected {_plain(row)}" for row in expected if not any(_same(row, b) for b in found)]
    return lines + [f"  found    {_plain(row)}" for row in found if not any(_same(a, row) for a in expected)]


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(map(_alike, _plain(one), _plain(other)))


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 or (one != one and other != other)
    return type(one) is type(other) and one == other


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Times as floats, those that never come as NaN."""
    return tuple(
        float("nan") if value is None else float(value) if isinstance(value, Fraction | float) else value
        for value in row
    )
