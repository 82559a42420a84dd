"""Random workloads in which two features meet, simulated and by the slow reference; what differs.

Each case has two features of :data:`FEATURES`; all others are as by default, but for a policy and a rule
of backfilling, without which hardly any two could meet. Times are quarters of a second, so that many things
happen at the same time.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np

from mlsim.batch import batch_system
from mlsim.batch.batch_system import BatchSetup, BatchSystem
from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.clock.replay_many import class_obstacle, replay_classes, replay_many
from mlsim.batch.columns.job_columns import LARGE, NUMBER
from mlsim.batch.events.handler import Handler
from mlsim.batch.events.outages import OutagePlan
from mlsim.batch.room.unit_requests import PowerCap, Requests
from mlsim.batch.state import pool_state
from mlsim.platform.machine import PowerColumns
from mlsim.record import JobState
from mlsim.scenario import BatchConfig
from mlsim.scenario.platform_section import DrainConfig, FailureConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import NodeSets
from tests.batch.builders import RigidApplications, block
from tests.batch.hardware import jobs_with_requests, machine
from tests.batch.test_dependencies import plan_of
from tests.batch.test_dispatch import KEYS, WEIGHTS
from tests.batch.test_shared import on, with_shares
from tests.reference.allocators import ALLOCATORS, Nodes
from tests.reference.planning import FOREVER, Job, Outage, PlanningSystem, Rules

FEATURES = (
    "backfilling",
    "ties",
    "threshold",
    "drains",
    "caps",
    "shared",
    "dependencies",
    "failures",
    "classes",
    "engine",
    "room",
    "sets",
)
PAIRS = tuple(itertools.combinations(FEATURES, 2))
REFUSED = {(feature, "engine") for feature in ("drains", "caps", "shared", "dependencies", "failures")} | {
    ("engine", "room"),
    ("engine", "sets"),
    ("ties", "classes"),
}
"""Compiled replay is of a pool, in which nothing of that happens; classes need ``ties: drained``: errors."""

N_NODES = 4
ONE_RESERVATION = ({"backfill": "none"}, {"backfill": "greedy"}, {"backfill": "easy"})
BACKFILLS = (
    *ONE_RESERVATION[1:],
    {"backfill": "easy", "reservations": 2},
    {"backfill": "easy", "reservations": 3},
    {"backfill": "conservative"},
    {"backfill": "conservative", "compression": "one-round"},
    {"backfill": "conservative", "compression": "every-end"},
)
USUAL = ({"backfill": "easy"}, {"backfill": "easy"}, {"backfill": "conservative"}, {"backfill": "none"})
POLICIES = ("FCFS", "FCFS", "SPF", "SAF", "LQF", "WFP", "linear")


@dataclass
class Case:
    """A workload and what is to happen to it."""

    pair: tuple[str, str]
    rows: list[tuple[float, float, float, int]]  # submission, run time, estimate, units
    batch: dict[str, object]
    cores: int = 1
    unlike: bool = False
    matrix: bool = False
    requests: list[tuple[int, ...]] = field(default_factory=list)
    outages: list[tuple[str, tuple[int, ...], float, float, float]] = field(default_factory=list)
    power: tuple[tuple[float, float, float], ...] = ()
    caps: tuple[tuple[float, float], ...] = ()
    shared: list[int] = field(default_factory=list)
    shares: list[tuple[int, ...]] = field(default_factory=list)
    after: dict[int, list[tuple[int, bool, float]]] = field(default_factory=dict)  # by number of the job + 1
    feedback: bool = False
    small: list[bool] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    safeguard: bool = False
    sets: list[tuple[int, ...] | None] = field(default_factory=list)  # nodes that each job may use; None: all

    @property
    def exclusive(self) -> bool:
        return self.cores == 1 and not self.unlike

    @property
    def hardware(self):
        groups = [(N_NODES, self.cores, 0, {})]
        if self.unlike:
            groups = [(2, 3, 0, {"gpu": 1}), (2, 2, 0, {})]
        hardware = machine(*groups)
        return on(hardware, self.shared) if self.shared else hardware


def quarters(rng: random.Random, most: int) -> float:
    return rng.randrange(most) / 4


def drawn(pair: tuple[str, str], seed: int) -> Case:
    """Draw a case; the same for the same pair and seed."""
    rng = random.Random(f"{pair[0]} {pair[1]} {seed}")
    cores = rng.choice((1, 2)) if "room" not in pair else 1
    batch: dict[str, object] = {"policy": rng.choice(POLICIES)}
    one = "caps" in pair and "room" in pair
    rules = BACKFILLS if "backfilling" in pair else USUAL
    batch |= rng.choice([rule for rule in rules if not one or rule in ONE_RESERVATION])
    if batch["backfill"] in ("greedy", "easy") and rng.random() < 0.3:
        batch["backfill_order"] = rng.choice(POLICIES)
    if "linear" in (batch["policy"], batch.get("backfill_order")):
        batch["weights"] = WEIGHTS
    batch["on_overrun"] = rng.choice(("kill", "extend"))
    n, units = rng.randint(2, 13), N_NODES * cores
    spread, exact = rng.choice((8, 24, 48)), rng.random() < 0.5
    rows = []
    for submit in sorted(quarters(rng, spread) for _ in range(n)):
        run = quarters(rng, rng.choice((3, 24)))
        estimate = run if exact or rng.random() < 0.2 else max(quarters(rng, 30), 0.25)
        rows.append((submit, run, estimate, rng.randint(1, rng.choice((units, units, units + 1)))))
    case = Case(pair, rows, batch, cores)
    for feature in pair:
        if feature in _DRAWS:
            _DRAWS[feature](case, rng)
    if case.unlike:
        case.requests = [(rng.randint(1, 2), rng.choice((0, 0, 1))) for _ in rows]
    return case


def _ties(case: Case, rng: random.Random) -> None:
    case.batch["ties"] = rng.choice(("per-event", "ends-first"))


def _threshold(case: Case, rng: random.Random) -> None:
    case.batch["threshold"] = rng.choice((0.5, 2.0, 6.0))


def _drains(case: Case, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 2)):
        first, start, length = rng.randrange(N_NODES), quarters(rng, 40), 0.25 + quarters(rng, 40)
        kind = rng.choice(("announced", "announced", "drained"))
        told = rng.choice((0.0, start / 2, start / 2, start)) if kind == "announced" else 0.0
        nodes = tuple(range(first, rng.randrange(first, N_NODES) + 1))
        case.outages.append((kind, nodes, start, rng.choice((start + length,) * 3 + (FOREVER,)), told))


def _failures(case: Case, rng: random.Random) -> None:
    for _ in range(rng.randint(1, 3)):
        node, start, length = rng.randrange(N_NODES), quarters(rng, 60), 0.25 + quarters(rng, 20)
        end = rng.choice((start + length,) * 4 + (FOREVER,))
        case.outages.append(("failed", (node,), start, end, 0.0))
    if rng.random() < 0.7:
        case.batch |= {"on_failure": "restart", "max_restarts": rng.choice((1, 5))}


def _caps(case: Case, rng: random.Random) -> None:
    watts = (0.0, 1.0, 2.5, 8.0)
    power = []
    for _ in range(N_NODES if "room" in case.pair else 1):
        off = rng.choice(watts)
        idle = off + rng.choice(watts)
        power.append((idle, idle + rng.choice(watts[1:]), off))
    case.power = tuple(power if len(power) > 1 else power * N_NODES)
    idle, busy = sum(row[0] for row in case.power), sum(row[1] for row in case.power)
    times = sorted(rng.sample(range(12), rng.randint(1, 3)))
    levels = [idle + rng.randint(4, 16) / 16 * (busy - idle) + 0.125 for _ in times]
    case.caps = tuple(zip(map(float, times), levels, strict=True))
    if not ({"room", "drains", "shared", "sets"} & set(case.pair)):
        return
    # Nodes by resources know a cap under these only.
    if case.batch["backfill"] == "conservative" or case.batch.get("reservations", 1) != 1:
        for key in ("reservations", "compression"):
            case.batch.pop(key, None)
        case.batch["backfill"] = "easy"


def _shared(case: Case, rng: random.Random) -> None:
    case.shared = [rng.randint(1, 4) for _ in range(rng.randint(1, 2))]
    case.shares = [tuple(rng.choice((0, 0, 1, has, has)) for has in case.shared) for _ in case.rows]


def _dependencies(case: Case, rng: random.Random) -> None:
    rank = list(range(1, len(case.rows) + 1))
    rng.shuffle(rank)
    for place in range(1, len(rank)):
        chosen = rng.sample(rank[:place], min(rng.choice((0, 0, 1, 2)), place))
        if chosen:
            case.after[rank[place]] = [
                (id_, rng.random() < 0.4, float(rng.choice((0, 0, 1, 3)))) for id_ in chosen
            ]
    case.feedback = rng.random() < 0.3


def _classes(case: Case, rng: random.Random) -> None:
    case.small = [rng.random() < 0.5 for _ in case.rows]
    case.safeguard = rng.random() < 0.6
    case.limits = [0.25 + quarters(rng, 16) for _ in case.rows]


def _room(case: Case, rng: random.Random) -> None:
    case.matrix, case.unlike = True, rng.random() < 0.6
    if case.unlike:
        case.batch["allocator"] = rng.choice(("first-fit", "best-fit", "worst-fit", "heterogeneity-aware"))
    else:
        case.cores = rng.choice((1, 2))


def _sets(case: Case, rng: random.Random) -> None:
    nodes = range(N_NODES)
    some = [tuple(sorted(rng.sample(nodes, rng.choice((1, 2, 2, 3, 3))))) for _ in range(rng.randint(1, 3))]
    case.sets = [rng.choice((None, *some, *some)) for _ in case.rows]
    case.batch.setdefault("allocator", rng.choice(sorted(ALLOCATORS)))


_DRAWS = {
    "ties": _ties,
    "threshold": _threshold,
    "drains": _drains,
    "failures": _failures,
    "caps": _caps,
    "shared": _shared,
    "dependencies": _dependencies,
    "classes": _classes,
    "room": _room,
    "sets": _sets,
}


# Simulated


class DrawnClasses(Handler):
    """In place of classes that are learned: those that were drawn."""

    def __init__(self, case: Case, transitions) -> None:
        super().__init__(transitions)
        self.case, self.table = case, transitions.state.table

    def on_arrival(self, slots, now) -> None:
        numbers = self.table.ints[NUMBER, slots]
        self.table.ints[LARGE, slots] = [not self.case.small[number] for number in numbers]

    def limit(self, slot) -> float:
        if not self.case.safeguard or self.table.ints[LARGE, slot]:
            return math.inf
        return self.case.limits[self.table.ints[NUMBER, slot]]

    def make_large(self, slot) -> None:
        self.table.ints[LARGE, slot] = 1


def jobs_of(case: Case):
    columns = [np.array(column, float) for column in zip(*case.rows, strict=True)]
    if case.unlike:
        rows = jobs_with_requests(case.hardware, *columns[:3], columns[3].astype(int), case.requests)
    else:
        rows = block(*columns[:3], columns[3])
    if case.sets:
        distinct = sorted({nodes for nodes in case.sets if nodes is not None})
        masks = np.array([[node in nodes for node in range(N_NODES)] for nodes in distinct], bool)
        numbers = [0 if nodes is None else 1 + distinct.index(nodes) for nodes in case.sets]
        rows = replace(rows, node_sets=NodeSets(masks.reshape(-1, N_NODES), np.array(numbers)))
    return with_shares(rows, case.shares) if case.shares else rows


def _config(case: Case) -> BatchConfig:
    classifier = {"classifier": {"by": "actual"}} if case.small else {}
    return BatchConfig.model_validate(case.batch | classifier)


def by_simpy(case: Case) -> list[tuple]:
    """What becomes of each job, event by event."""
    hardware = case.hardware
    drains = [
        {"nodes": f"{nodes[0]}-{nodes[-1]}", "start": start, "announced": kind == "announced"}
        | ({} if end == FOREVER else {"end": end})
        | ({"announced_at": told} if told else {})
        for kind, nodes, start, end, told in case.outages
        if kind != "failed"
    ]
    failures = [
        {"node": nodes[0], "at": start} | ({} if end == FOREVER else {"repair": end - start})
        for kind, nodes, start, end, _ in case.outages
        if kind == "failed"
    ]
    cap = None
    if case.caps:
        power = PowerColumns(*(np.array(column) for column in zip(*case.power, strict=True)))
        cap = PowerCap(power, hardware.cores, case.exclusive, case.caps)
    needs = pool_state.needs_resources
    with (
        mock.patch.object(pool_state, "needs_resources", lambda *given: case.matrix or needs(*given)),
        mock.patch.object(batch_system, "JobClasses", lambda handlers, *_: DrawnClasses(case, handlers)),
    ):
        batch = BatchSystem(
            hardware,
            _config(case),
            Requests.on(
                hardware,
                Mapping.NODE if case.exclusive else Mapping.CORE,
                per_job=bool(case.requests),
                node_sets=bool(case.sets),
            ),
            BatchSetup(
                plan=OutagePlan(
                    tuple(FailureConfig.model_validate(failure) for failure in failures),
                    drains=tuple(DrainConfig.model_validate(drain) for drain in drains),
                    groups=(("all", hardware.n_nodes),),
                ),
                cap=cap,
                dependencies=plan_of(case.after) if case.after else None,
                feedback=case.feedback and bool(case.after),
            ),
        )
    batch.run([jobs_of(case)], RigidApplications(batch))
    return _rows(batch.jobs(), batch.occupancy_rows())


def _rows(done, held) -> list[tuple]:
    nodes: dict[int, list[int]] = {}
    for row in range(len(held.job)):
        job = int(held.job[row])
        if held.start[row] == done.start_time[job] and held.end[row] == done.end_time[job]:
            nodes.setdefault(job, []).extend(range(held.node[row], held.node[row] + held.count[row]))
    return [
        _outcome(
            JobState(done.state[n]).name.lower(),
            float(done.start_time[n]),
            float(done.end_time[n]),
            bool(done.backfilled[n]),
            nodes.get(n, []),
        )
        for n in range(len(done.state))
    ]


def _outcome(state: str, start: float, end: float, backfilled: bool, nodes: list[int]) -> tuple:
    """A row that can be compared; where nothing ran there is nothing to compare."""
    if state == "rejected":
        return (state,)
    return state, start, end, backfilled if state != "failed" else None, sorted(set(nodes))


def by_engines(case: Case) -> Iterator[tuple[str, list[tuple], int]]:
    """What compiled clocks say: who, what becomes of each job, and how much of that they tell."""
    jobs = jobs_of(case)
    config = BatchConfig.model_validate(case.batch)
    if case.small:
        if class_obstacle(config) is None and not case.exclusive:
            small, limits = np.array(case.small), np.array(case.limits)
            fits = jobs.processors <= N_NODES * case.cores
            found = replay_classes(
                jobs, config, N_NODES * case.cores, small, limits, safeguard=case.safeguard
            )
            yield (
                "replay_classes",
                [
                    ("", *row, []) if fit else ("rejected",)
                    for fit, row in zip(
                        fits,
                        zip(found.start.tolist(), found.end.tolist(), found.backfilled.tolist(), strict=True),
                        strict=True,
                    )
                ],
                3,
            )
        return
    hardware = case.hardware
    requests = Requests.on(hardware, Mapping.NODE if case.exclusive else Mapping.CORE)
    batch = CompiledBatch(hardware, config, requests)
    batch.run([jobs.select(slice(first, first + 3)) for first in range(0, len(jobs), 3)])
    yield "compiled", _rows(batch.jobs(), batch.occupancy_rows()), 5
    found = replay_many([jobs, jobs], config, N_NODES * case.cores, starts=True)
    for k in range(2):
        starts, flags = found.starts[k][0].tolist(), found.backfilled[k][0].tolist()
        yield (
            "replay_many",
            [
                ("rejected",) if math.isnan(start) else ("", start, 0.0, flag)
                for start, flag in zip(starts, flags, strict=True)
            ],
            4,
        )


# By the reference


def links_of(hardware) -> list[list[int]]:
    return [list(hardware.network.links_from(node, hardware.n_nodes)) for node in range(hardware.n_nodes)]


def by_reference(case: Case) -> list[tuple]:
    """What becomes of each job, by the slow reference."""
    given, batch = case.requests or [(1,)] * len(case.rows), case.batch
    requests = dict(enumerate(given))
    jobs = [
        Job(
            number,
            submit,
            run,
            estimate,
            units,
            tuple(requests[number]),
            shares=case.shares[number] if case.shares else (),
            after=[(id_ - 1, must, think) for id_, must, think in case.after.get(number + 1, [])],
            small=case.small[number] if case.small else False,
            limit=case.limits[number] if case.safeguard and case.small and case.small[number] else math.inf,
            may_use=None if not case.sets or case.sets[number] is None else frozenset(case.sets[number]),
        )
        for number, (submit, run, estimate, units) in enumerate(case.rows)
    ]
    announced = any(kind == "announced" for kind, *_ in case.outages)
    rules = Rules(
        str(batch["backfill"]),
        int(batch.get("reservations", 1)),
        kill=batch["on_overrun"] == "kill",
        restart=batch.get("on_failure") == "restart",
        max_restarts=int(batch.get("max_restarts", 5)),
        power=case.power,
        caps=case.caps,
        ties=str(batch.get("ties", "drained")),
        threshold=float(batch.get("threshold", FOREVER)),
        one_round=batch.get("compression") in ("one-round", "every-end"),
        every_end=batch.get("compression") == "every-end",
        feedback=case.feedback,
        classes=bool(case.small),
        counts=not (case.unlike or announced or case.sets) and len(set(case.power)) <= 1,
    )
    hardware = case.hardware
    PlanningSystem(
        Nodes(hardware.capacity, case.exclusive, links_of(hardware)),
        ALLOCATORS[str(batch.get("allocator", "first-fit"))],
        rules,
        [
            Outage(node, start, end, kind, told)
            for kind, nodes, start, end, told in case.outages
            for node in nodes
        ],
        KEYS_OF[str(batch["policy"])],
        shared=case.shared,
        walk_key=KEYS_OF.get(str(batch.get("backfill_order"))),
    ).run(jobs)
    return [_outcome(job.state, job.start, job.end, job.backfilled, job.nodes) for job in jobs]


def _of_processors(key):
    """A policy goes by processors, of which a unit may have several."""
    return lambda job, now: key(replace(job, units=job.units * job.request[0]), now)


KEYS_OF = {name: _of_processors(key) for name, key in KEYS.items()}


def difference(case: Case) -> str:
    """Say what differs between the reference and the simulators; empty: nothing."""
    right = by_reference(case)
    found = [("simpy", by_simpy(case), 5)]
    if "engine" in case.pair:
        found += by_engines(case)
    for who, rows, width in found:
        for number, (one, other) in enumerate(zip(right, rows, strict=True)):
            first = 1 if width < 5 and one[0] != "rejected" else 0
            skipped = {2} if who == "replay_many" else set()
            picked = [
                [row[k] for k in range(first, min(width, len(row))) if k not in skipped]
                for row in (one, other)
            ]
            if picked[0] != picked[1]:
                return f"{who}: job {number}: {other}, right is {one}"
    return ""
