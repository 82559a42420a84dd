"""Real logs, job by job: the SimPy simulator, compiled replay and the slow twin give one schedule."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from mlsim.cosim import simulation
from mlsim.record import Jobs, Occupancy, Records
from mlsim.scenario import from_mapping
from tests.batch.builders import block, simulate
from tests.effort import THOROUGH
from tests.reference.batch import Job, ReferenceBatchSystem

pytestmark = [pytest.mark.logs, pytest.mark.slow]

DISPATCHERS = {
    "FCFS": {"policy": "FCFS"},
    "EASY-FCFS": {"policy": "FCFS", "backfill": "easy"},
    "EASY-SAF-SAF": {"policy": "SAF", "backfill": "easy", "backfill_order": "SAF"},
    "EASY-SPF-FCFS": {"policy": "SPF", "backfill": "easy", "backfill_order": "FCFS"},
    "EASY-WFP-SAF": {"policy": "WFP", "backfill": "easy", "backfill_order": "SAF", "threshold": 200_000},
}
KEYS = {
    "FCFS": lambda job, now: job.submit,
    "SPF": lambda job, now: job.estimate,
    "SAF": lambda job, now: job.estimate * job.units,
    "WFP": lambda job, now: -(((now - job.submit) / job.estimate) ** 3) * job.units,
}
# Log, processors, mean bounded slowdowns (tau = 10 s) of EASY-FCFS and EASY-SAF-SAF as published.
LOGS = {
    "KTH": ("KTH-SP2-1996-2.1-cln.swf.gz", 100, {"EASY-FCFS": 91, "EASY-SAF-SAF": 39}),
    "SDSC": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, {"EASY-FCFS": 93}),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", 240, {"EASY-FCFS": 87, "EASY-SAF-SAF": 44}),
}
JOBS_OF_REFERENCE = None if THOROUGH else 5_000
"""The slow twin takes minutes for whole logs; the first jobs are enough for every day."""


@pytest.fixture(autouse=True)
def _traces(logs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_TRACES", str(logs_dir))


def simulated(log: str, processors: int, engine: str, first: int | None = None, **batch) -> Records:
    scenario = from_mapping(
        {
            "platform": {"nodes": [{"name": "n", "count": processors, "cores": 1}]},
            "workload": {
                "path": log,
                "mapping": "node",
                "select": {"first": first},
                "cleaning": {"zero_run_time": "drop", "unknown_run_time": "drop", "underestimate": "clamp"},
            },
            "batch": {**batch, "engine": engine},
        }
    )
    return simulation.simulate(scenario).records


def twins_of(jobs: Jobs) -> list[Job]:
    return [
        Job(int(i), float(r), float(p), float(e), int(q))
        for i, r, p, e, q in zip(
            jobs.job_id, jobs.submit_time, jobs.log_run_time, jobs.walltime, jobs.processors, strict=True
        )
    ]


def reference_starts(
    jobs: Jobs, processors: int, options: dict[str, object], twins: list[Job] | None = None
) -> list[float | None]:
    twins = twins_of(jobs) if twins is None else twins
    order = options.get("backfill_order")
    ReferenceBatchSystem(
        processors,
        str(options.get("backfill", "none")),
        KEYS[str(options["policy"])],
        kill=True,
        walk_key=KEYS[str(order)] if order else None,
        threshold=float(str(options.get("threshold", math.inf))),
        reservations=int(str(options.get("reservations", 1))),
        per_event=options.get("ties", "drained") != "drained",
        ends_first=options.get("ties") == "ends-first",
        easy=str(options.get("easy", "standard")),
        one_round=options.get("compression") == "one-round",
        every_end=options.get("compression") == "every-end",
    ).run(twins)
    return [twin.start for twin in twins]


@pytest.mark.slow
@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("log", LOGS)
def test_simpy_and_replay_are_the_same_on_whole_logs(log, dispatcher):
    path, processors, published = LOGS[log]
    simpy = simulated(path, processors, "simpy", **DISPATCHERS[dispatcher])
    replay = simulated(path, processors, "replay", **DISPATCHERS[dispatcher])
    pairs = ((Jobs, simpy.jobs, replay.jobs), (Occupancy, simpy.occupancy, replay.occupancy))
    for table, one, other in pairs:
        for field in fields(table):
            ours, theirs = getattr(one, field.name), getattr(other, field.name)
            assert (ours is None) == (theirs is None), field.name
            assert ours is None or ours.tobytes() == theirs.tobytes(), field.name
    if dispatcher in published:
        jobs = replay.jobs
        response, time = jobs.end_time - jobs.submit_time, jobs.end_time - jobs.start_time
        mean = np.maximum(response / np.maximum(time, 10.0), 1.0).mean()
        assert mean == pytest.approx(published[dispatcher], abs=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("log", LOGS)
def test_replay_starts_each_job_when_the_slow_twin_does(log, dispatcher):
    path, processors, _ = LOGS[log]
    options = DISPATCHERS[dispatcher]
    jobs = simulated(path, processors, "replay", JOBS_OF_REFERENCE, **options).jobs
    assert jobs.start_time.tolist() == reference_starts(jobs, processors, options)


OTHERS = {
    "AccaSim": {"policy": "FCFS", "backfill": "easy", "easy": "accasim"},
    "CQSim": {"policy": "FCFS", "backfill": "easy", "easy": "cqsim", "ties": "ends-first"},
    "batsched": {"policy": "FCFS", "backfill": "easy", "easy": "batsched"},
    "per-event SAF": {"policy": "SAF", "backfill": "easy", "ties": "per-event"},
    "per-event SPF greedy": {"policy": "SPF", "backfill": "greedy", "ties": "per-event"},
    "ends-first WFP": {"policy": "WFP", "backfill": "easy", "ties": "ends-first"},
}
RESERVING = {
    "two per-event": {"policy": "SPF", "backfill": "easy", "reservations": 2, "ties": "per-event"},
    "conservative": {"policy": "FCFS", "backfill": "conservative"},
    "one-round": {"policy": "FCFS", "backfill": "conservative", "compression": "one-round"},
    "every-end per-event": {
        "policy": "FCFS",
        "backfill": "conservative",
        "compression": "every-end",
        "ties": "per-event",
    },
    "one-round per-event": {
        "policy": "SAF",
        "backfill": "conservative",
        "compression": "one-round",
        "ties": "per-event",
    },
}
CTC, CTC_PROCESSORS = "CTC-SP2-1996-3.1-cln.swf.gz", 338
# With reservations the slow twin looks at all stays for each waiting job. Compression matters from job 389.
FIRST = {
    **dict.fromkeys(OTHERS, 6_000 if THOROUGH else 3_000),
    **dict.fromkeys(RESERVING, 1_000 if THOROUGH else 450),
}


@pytest.mark.slow
@pytest.mark.parametrize("dispatcher", FIRST)
def test_other_meanings_start_each_job_when_the_slow_twin_does(dispatcher):
    options = {**OTHERS, **RESERVING}[dispatcher]
    first = FIRST[dispatcher]
    jobs = simulated(CTC, CTC_PROCESSORS, "replay", first, **options).jobs
    assert len(jobs.start_time) == first
    assert (jobs.start_time > jobs.submit_time).any()
    assert jobs.start_time.tolist() == reference_starts(jobs, CTC_PROCESSORS, options)
    simpy = simulated(CTC, CTC_PROCESSORS, "simpy", first, **options).jobs
    assert simpy.start_time.tobytes() == jobs.start_time.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("dispatcher", ["EASY-FCFS", "EASY-SAF-SAF"])
def test_nodes_given_back_early_on_a_real_log(dispatcher):
    """Every job of several nodes gives half of them back halfway, while others have reservations."""
    options = DISPATCHERS[dispatcher]
    jobs = simulated(CTC, CTC_PROCESSORS, "replay", 2_000, policy="FCFS").jobs
    twins = twins_of(jobs)
    for twin in twins:
        twin.releases = [twin.run / 2] * (twin.units // 2)
    releases = {n: list(twin.releases) for n, twin in enumerate(twins) if twin.releases}
    rows = block(jobs.submit_time, jobs.log_run_time, jobs.walltime, jobs.processors, jobs.job_id)
    _, done, _ = simulate(rows, CTC_PROCESSORS, releases=releases, **options)
    assert done.start_time.tolist() == reference_starts(jobs, CTC_PROCESSORS, options, twins)


def test_compression_makes_a_difference_on_a_real_log():
    """The figure of docs/explanation/easy.md."""
    rule = {"policy": "FCFS", "backfill": "conservative"}
    starts = [
        simulated(CTC, CTC_PROCESSORS, "replay", 6_000, **rule, compression=compression).jobs.start_time
        for compression in ("fixpoint", "one-round")
    ]
    assert np.count_nonzero(starts[0] != starts[1]) == 2_383
