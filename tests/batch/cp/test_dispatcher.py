"""Planners as dispatchers of a run: every job ends, whatever the solver does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlsim
from mlsim.batch.cp.experience import Experience
from mlsim.batch.cp.instance import instance_of
from mlsim.batch.cp.planning_dispatcher import CpDispatcher, control_for
from mlsim.batch.view import RunningJobs, StateView, WaitingJobs
from mlsim.errors import InputError
from mlsim.record import SolveStatus
from mlsim.scenario import CpConfig, from_mapping
from mlsim.scenario.words import Dispatcher

PLANNING = [word for word in Dispatcher if word.solves]


def scenario(path: Path, nodes: int = 8, cores: int = 4, keys=None, **batch):
    return from_mapping(
        {
            "name": "t",
            "platform": {"nodes": [{"name": "n", "count": nodes, "cores": cores}]},
            "workload": {"path": str(path), "mapping": batch.pop("mapping", "core")},
            "batch": {"on_overrun": "extend"} | batch,
        },
        overrides=keys,
    )


def quick(name: Dispatcher) -> dict:
    """Few jobs in a model; lists have no limits."""
    limits = {} if name is Dispatcher.LISTS else {"time_limit": 0.002, "time_limit_max": 0.002}
    return {"jobs": 8} | limits


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    n = 30
    submit = np.sort(rng.integers(0, 450, n))
    run = rng.integers(0, 300, n)  # some of no length
    estimate = np.maximum(run * rng.uniform(0.3, 3, n), 1).astype(int)  # some too short
    processors = rng.choice([1, 2, 4, 7, 16, 32], n)
    rows = zip(range(1, n + 1), submit, run, estimate, processors, strict=True)
    path = tmp_path / "jobs.csv"
    header = "job_id,submit_time,run_time,estimate,processors"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "mapping"),
    [*((name, "core") for name in PLANNING), (Dispatcher.CP, "packed"), (Dispatcher.PCP21, "packed")],
)
def test_every_job_ends(jobs: Path, name: Dispatcher, mapping: str):
    result = mlsim.run(scenario(jobs, dispatcher=str(name), cp=quick(name), mapping=mapping))
    assert result.summary["jobs"]["completed"] == 30
    solves = result.records.solves
    assert (solves.started.sum(), result.summary["cp"]["passes"]) == (30, len(solves.time))
    assert (solves.build_seconds > 0).all()


@pytest.mark.parametrize("name", PLANNING)
def test_no_more_licences_are_held_than_there_are(jobs: Path, name: Dispatcher):
    keys = {"platform.shared": {"matlab": 3}, "workload.request.shared": {"matlab": 1}}
    result = mlsim.run(scenario(jobs, keys=keys, dispatcher=str(name), cp=quick(name)))
    assert result.summary["jobs"]["completed"] == 30
    assert result.summary["shared"]["matlab"]["max"] == 3


def test_the_same_run_twice(jobs: Path):
    one, again = (mlsim.run(scenario(jobs, dispatcher="cp")).jobs for _ in range(2))
    assert one.equals(again)


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_deadlock_without_a_solution(tmp_path: Path, deterministic: bool):
    """PCP'19 on 1,173 nodes found nothing in time and stopped dispatching for good (paper, section 5.2)."""
    path = tmp_path / "jobs.csv"
    rows = [f"{k},{k // 3},50,60,{20 * (1 + 60 * (k % 5))}" for k in range(1, 16)]
    path.write_text("\n".join(["job_id,submit_time,run_time,estimate,processors", *rows]) + "\n")
    limit = 1e-6 if deterministic else 1e-3
    cp = {"time_limit": limit, "time_limit_max": limit, "deterministic": deterministic, "jobs": 4}
    result = mlsim.run(scenario(path, 1173, 20, dispatcher="pcp19", cp=cp, mapping="packed"))
    assert result.summary["jobs"]["completed"] == 15
    solves = result.records.solves
    assert solves.fallback.any()
    assert (solves.status[solves.fallback] == SolveStatus.UNKNOWN).all()
    assert result.summary["cp"]["fallbacks"] == solves.fallback.sum()


def test_options_that_nobody_reads(jobs: Path):
    for batch, words in (
        ({"cp": {"jobs": 5}}, "read by dispatcher cp and its like only"),
        ({"dispatcher": "hcp19", "cp": {"headroom": 0.1}}, "headroom is read by cp, lists only"),
        ({"dispatcher": "cp", "cp": {"ewt": {1: 5}}}, "ewt is read by hcp1, hcp2, pcp1, pcp2 only"),
        ({"dispatcher": "cp", "policy": "SAF"}, "read by dispatcher queue only"),
        ({"dispatcher": "lists", "cp": {"time_limit": 1}}, "time_limit is read by cp, hcp19, .* only, and"),
        ({"dispatcher": "lists", "cp": {"deterministic": False}}, "deterministic is read by cp, hcp19, "),
        ({"dispatcher": "cp", "cp": {"time_limit_max": 0.02}}, "time_limit_max: 0.02 s; allowed: .* 0.05 s"),
        ({"dispatcher": "pcp4", "cp": {"time_limit_max": 0.5}}, "time_limit_max: 0.5 s; allowed: .* 1 s"),
        ({"dispatcher": "pcp4", "cp": {"time_limit": 20}}, "missing, and 16 s with dispatcher pcp4"),
        ({"dispatcher": "cp", "cp": {"time_limit": 3, "time_limit_max": 2}}, "below time_limit, 3 s"),
        ({"dispatcher": "cp", "cp": {"workers": 10**5, "deterministic": False}}, "at most 10,000"),
        ({"dispatcher": "cp", "cp": {"workers": 2}}, "read with deterministic: off only"),
        ({"dispatcher": "pcp1", "cp": {"ewt": {"x": 5}}}, "numbers of queues"),
        ({"dispatcher": "pcp1", "cp": {"ewt": {1: 10**400}}}, "numbers of queues"),
    ):
        with pytest.raises(InputError, match=words):
            scenario(jobs, **batch)


@pytest.mark.parametrize(
    ("name", "given", "limits"),
    [
        (Dispatcher.CP, {}, (0.05, 0.05)),
        (Dispatcher.CP, {"time_limit": 20}, (20, 20)),
        (Dispatcher.HCP19, {}, (1, 16)),
        (Dispatcher.HCP19, {"time_limit": 5}, (5, 16)),
        (Dispatcher.HCP19, {"time_limit_max": 2}, (1, 2)),
    ],
)
def test_limits_that_are_not_given(jobs: Path, name: Dispatcher, given: dict, limits: tuple):
    config = scenario(jobs, dispatcher=str(name), cp=given).batch.cp
    control = control_for(name, config)
    assert (control.limit, control.last_limit) == limits


def ints(*values) -> np.ndarray:
    return np.array(values, np.int64)


def view(now: float, waiting: list[tuple], running: list[tuple], exclusive: bool = False) -> StateView:
    """Waiting: (number, submit, estimate, units); running: (number, start, end, node, units)."""
    free = np.full((4, 1), 4, np.int64)
    for job in running:
        free[job[3]] -= job[4]
    labels = ("user", "group", "executable", "queue", "partition")
    some, others = ({name: ints(*[1] * len(rows)) for name in labels} for rows in (waiting, running))
    return StateView(
        now,
        ("cores",),
        np.full((4, 1), 4, np.int64),
        free,
        exclusive,
        WaitingJobs(
            ints(*(job[0] for job in waiting)),
            ints(*(job[0] for job in waiting)),
            np.array([job[1] for job in waiting], float),
            np.array([job[2] for job in waiting], float),
            ints(*(job[3] for job in waiting)),
            ints(*(job[3] for job in waiting)),
            np.ones((len(waiting), 1), np.int64),
            **some,
        ),
        RunningJobs(
            ints(*(job[0] for job in running)),
            ints(*(job[0] for job in running)),
            np.array([job[1] for job in running], float),
            np.array([job[2] for job in running], float),
            ints(*(job[4] for job in running)),
            np.ones((len(running), 1), np.int64),
            **others,
            held_job=np.arange(len(running)),
            held_node=ints(*(job[3] for job in running)),
            held_units=ints(*(job[4] for job in running)),
        ),
    )


def test_instance_of_a_view():
    seen = view(10.0, [(3, 4.0, 7.3, 2)], [(1, 0.0, 10.4, 2, 3)])
    shared = instance_of(seen, expected={1: 5.0})
    assert (shared.queued.duration.tolist(), shared.running.remaining.tolist()) == ([8], [1])
    assert shared.running.late.tolist() == [5]
    whole = instance_of(view(10.0, [(3, 4.0, 7.3, 2)], [(1, 0.0, 10.4, 2, 3)], exclusive=True))
    assert whole.resources == ("node", "cores")
    assert whole.free[:, 0].tolist() == [1, 1, 0, 1]
    assert whole.queued.request.tolist() == [[1, 1]]


def test_experience_trusts_right_estimates_only():
    for ends, trust in (((95.0, 105.0), 1.0), ((10.0, 12.0), 0.0)):
        experience, number = Experience(), 0
        for _ in range(30):
            for end in ends:
                for now in (0.0, 0.6 * end):
                    experience.observe(view(now, [], [(number, 0.0, 100.0, 0, 1)]))
                experience.observe(view(end, [], []))
                number += 1
        assert experience.trust == pytest.approx(trust)


def test_long_jobs_leave_room_for_much_shorter_ones():
    """Half of the arrivals are 90 times shorter, and estimates have been right: 25 % stay free."""
    dispatcher = CpDispatcher.of(Dispatcher.CP, CpConfig(headroom=0.25), 0)
    for number in range(30):
        for now in (0.0, 60.0):
            dispatcher._experience.observe(view(now, [], [(number, 0.0, 100.0, 0, 1)]))
        dispatcher._experience.observe(view(100.0, [(number, 100.0, 10.0, 1)], []))
    long = (40, 100.0, 10_000.0, 13)
    assert dispatcher.dispatch(view(100.0, [long], [(39, 0.0, 500.0, 0, 1)])) == []
    assert len(dispatcher.dispatch(view(100.0, [(41, 100.0, 10_000.0, 11)], [(39, 0.0, 500.0, 0, 1)]))) == 1
    untaught = CpDispatcher.of(Dispatcher.CP, CpConfig(headroom=0.25), 0)
    assert len(untaught.dispatch(view(100.0, [long], [(39, 0.0, 500.0, 0, 1)]))) == 1
