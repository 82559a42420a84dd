"""The cluster of ``mlsim init operator``: an export of sacct, its slurm.conf and its scenario, from one seed.

Nothing in it is from a real system. The recorded starts are those of a queue without backfilling on the cores
of the machine, so that recorded and simulated waits differ, as those of a real cluster do.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

SEED = 1
_JOBS = 500
_DAYS = 7
_BEGIN = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday
_CORES = 32  # of each node


@dataclass(frozen=True, slots=True)
class _Group:
    """Nodes of one kind, as slurm.conf and the scenario name them."""

    name: str
    count: int
    memory: int  # RealMemory, in MiB


_GROUPS = (_Group("c", 24, 128_000), _Group("f", 4, 512_000))
_LIMITS = {"short": 4 * 60, "batch": 48 * 60}  # MaxTime of partitions, in minutes
_QOS = "normal"
_BACKFILL_INTERVAL = 30  # s
# Users: their share of the jobs so far, nodes of a job, median run time (min), GiB per core, program.
_USERS = (
    ("u01", 0.30, (1,), 40, 2, "post"),
    ("u02", 0.50, (1, 2), 90, 3, "train"),
    ("u03", 0.70, (2, 4), 150, 3, "cfd"),
    ("u04", 0.85, (4, 8), 120, 2, "climate"),
    ("u05", 0.95, (8, 16), 100, 2, "lattice"),
    ("u06", 1.00, (1,), 240, 12, "assembly"),
)
# Shares of jobs that did not complete; the rest did.
_CANCELLED, _FAILED, _TIMEOUT = 0.03, 0.05, 0.04
_COLUMNS = (
    "JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|State|User|Group|Partition|QOS|JobName|NNodes|"
    "ReqTRES"
)


@dataclass(slots=True)
class _Job:
    """A job of the export; times in seconds from the first midnight, the limit in minutes."""

    submit: int
    elapsed: int
    limit: int
    nodes: int
    cores: int
    memory: int  # GiB of the whole job
    state: str
    user: str
    program: str
    start: int = 0
    end: int = 0


def files(seed: int = SEED) -> dict[str, str]:
    """Return the texts of the example by file name: the same for the same seed."""
    return {"cluster.yaml": _scenario(), "sacct.txt": _export(seed), "slurm.conf": _configuration()}


def _arrivals(random: Random) -> list[int]:
    """Return times of submission: more by day than by night, fewer at the weekend."""
    found: list[int] = []
    while len(found) < _JOBS:
        time = random.random() * _DAYS * 86400
        by_hour = 0.2 + 0.8 * max(math.sin((time / 3600 % 24 - 7) * math.pi / 12), 0)
        if random.random() < by_hour * (0.4 if time >= 5 * 86400 else 1):
            found.append(int(time))
    return sorted(found)


def _jobs(seed: int) -> list[_Job]:
    random = Random(seed)
    jobs = []
    for submit in _arrivals(random):
        luck = random.random()
        user, _, sizes, median, per_core, program = next(entry for entry in _USERS if luck < entry[1])
        nodes = sizes[int(random.random() * len(sizes))]
        cores = _CORES * nodes if nodes > 1 else 2 ** (2 + int(random.random() * 4))
        # Users ask for a whole multiple of half an hour, with a margin.
        elapsed = int(60 * median * math.exp(1.2 * (random.random() + random.random() - 1)))
        limit = 30 * math.ceil(elapsed / 1800 * (1.1 + 3 * random.random()))
        limit = min(limit, _LIMITS["batch"])
        luck = random.random()
        state = "COMPLETED"
        if luck < _CANCELLED:
            state, elapsed = "CANCELLED by 1000", 0
        elif luck < _CANCELLED + _FAILED:
            state, elapsed = "FAILED", int(elapsed * random.random()) + 5
        elif luck < _CANCELLED + _FAILED + _TIMEOUT:
            state, limit = "TIMEOUT", max(30 * (elapsed // 1800), 30)
            elapsed = 60 * limit
        jobs.append(_Job(submit, elapsed, limit, nodes, cores, per_core * cores, state, user, program))
    return jobs


def _start(jobs: list[_Job]) -> None:
    """Start jobs in the order of arrival, each as soon as its cores are free; cancelled ones never start."""
    free = _CORES * sum(group.count for group in _GROUPS)
    running: list[tuple[int, int]] = []
    now = 0
    for job in jobs:
        now = max(now, job.submit)
        if not job.elapsed:
            job.end = job.submit + 600
            continue
        while running and (running[0][0] <= now or free < job.cores):
            end, cores = heapq.heappop(running)
            now, free = max(now, end), free + cores
        job.start, job.end = now, now + job.elapsed
        free -= job.cores
        heapq.heappush(running, (job.end, job.cores))


def _export(seed: int) -> str:
    jobs = _jobs(seed)
    _start(jobs)
    return "".join(f"{line}\n" for line in _lines(jobs))


def _lines(jobs: list[_Job]) -> Iterator[str]:
    yield _COLUMNS
    for number, job in enumerate(jobs, 1001):
        start = f"{_BEGIN + timedelta(seconds=job.start):%Y-%m-%dT%H:%M:%S}" if job.elapsed else "None"
        partition = next(name for name, most in _LIMITS.items() if job.limit <= most)
        yield "|".join(
            (
                str(number),
                f"{_BEGIN + timedelta(seconds=job.submit):%Y-%m-%dT%H:%M:%S}",
                start,
                f"{_BEGIN + timedelta(seconds=job.end):%Y-%m-%dT%H:%M:%S}",
                str(job.elapsed),
                str(job.limit),
                str(job.cores),
                job.state,
                job.user,
                "users",
                partition,
                _QOS,
                job.program,
                str(job.nodes),
                f"billing={job.cores},cpu={job.cores},mem={job.memory}G,node={job.nodes}",
            )
        )


def _list(group: _Group) -> str:
    return f"{group.name}[01-{group.count:02d}]"


def _configuration() -> str:
    nodes = [f"NodeName={_list(group)} CPUs={_CORES} RealMemory={group.memory}" for group in _GROUPS]
    everywhere = ",".join(map(_list, _GROUPS))
    partitions = [
        f"PartitionName={name} Nodes={everywhere} MaxTime={minutes // 60}:00:00"
        + (" Default=YES" if name == "short" else "")
        for name, minutes in _LIMITS.items()
    ]
    return "\n".join(
        (
            "# Made by `mlsim init operator`, of no real cluster. cluster.yaml describes this machine.",
            "ClusterName=example",
            "SlurmctldHost=head",
            "PriorityType=priority/basic",
            "SchedulerType=sched/backfill",
            f"SchedulerParameters=bf_interval={_BACKFILL_INTERVAL}",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core_Memory",
            *nodes,
            *partitions,
            "",
        )
    )


def _scenario() -> str:
    nodes = [
        f"    - {{name: {group.name}, count: {group.count}, cores: {_CORES}, memory: {group.memory} MiB}}"
        f"   # NodeName={_list(group)}"
        for group in _GROUPS
    ]
    return "\n".join(
        (
            "# The machine of slurm.conf and the jobs of sacct.txt, both made by `mlsim init operator`.",
            "# For your cluster, replace sacct.txt, and each value by that of the line beside it.",
            "name: cluster",
            "",
            "platform:",
            "  nodes:",
            *nodes,
            "",
            "workload:",
            "  path: sacct.txt",
            "  mapping: core                   # SelectType=select/cons_tres; whole nodes per job: packed",
            "",
            "batch:",
            "  policy: FCFS                    # PriorityType=priority/basic",
            "  backfill: easy                  # SchedulerType=sched/backfill",
            f"  backfill_interval: {_BACKFILL_INTERVAL} s         # SchedulerParameters=bf_interval",
            "",
        )
    )
