"""`batch.dispatcher: recorded`: schedules of other dispatchers are repeated, others judged, each start."""

from __future__ import annotations

import copy
import json
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.batch.recorded_schedule import overtaking
from mlsim.cosim.simulation import survey
from mlsim.errors import InputError
from mlsim.experiment.runner import scenario_from
from mlsim.platform.node_lists import RecordedNodes, name_ranges
from tests.effort import examples
from tests.verify.test_crossed_runs import drawn

UNITS = 6
MACHINE = {"platform": {"nodes": [{"name": "n", "count": UNITS, "cores": 1}]}}
RECORDED = {"dispatcher": "recorded"}

job = st.tuples(st.integers(0, 12), st.integers(1, 9), st.integers(0, 6), st.integers(1, UNITS))
job_lists = st.lists(job, min_size=1, max_size=14)


def table(jobs, **more):
    """Jobs of (time since the last one, run time, walltime beyond it, processors)."""
    gaps, run, beyond, processors = (np.array(column) for column in zip(*jobs, strict=True))
    columns = {
        "job_id": np.arange(1, len(jobs) + 1),
        "submit_time": np.cumsum(gaps) - gaps[0],
        "run_time": run,
        "walltime": run + beyond,
        "processors": processors,
    }
    return pl.DataFrame(columns | more)


def with_starts(workload, result):
    """The workload, as a log of the schedule of its run."""
    return workload.with_columns(recorded_start=result.jobs["start_time"])


def recorded(scenario, workload, **batch):
    other = copy.deepcopy(scenario) | {"batch": RECORDED | batch}
    return mlsim.run(other, workload=workload)


def plain(summary):
    """The metrics, as the bytes of summary.json."""
    left_out = ("scenario", "workload", "self", "passes")
    return {key: json.dumps(value) for key, value in summary.items() if key not in left_out}


def assert_repeated(first, again):
    assert again.summary["workload"]["recorded"]["late"] == 0
    assert plain(again.summary) == plain(first.summary)
    same = [name for name in first.jobs.columns if name not in ("recorded_start", "nodes", "run_time")]
    assert first.jobs.select(same).equals(again.jobs.select(same))


rules = st.sampled_from(
    [
        {},
        {"backfill": "easy"},
        {"backfill": "easy", "reservations": 3},
        {"backfill": "greedy"},
        {"backfill": "conservative"},
    ]
)


@settings(deadline=None, max_examples=examples(60))
@given(
    job_lists,
    rules,
    st.sampled_from(["simpy", "auto"]),
    st.sampled_from(["drained", "per-event", "ends-first"]),
)
def test_schedules_of_other_dispatchers_are_repeated_to_the_byte(jobs, rule, engine, ties):
    workload = table(jobs)
    first = mlsim.run({**MACHINE, "batch": {**rule, "ties": "drained"}}, workload=workload)
    again = recorded(MACHINE, with_starts(workload, first), engine=engine, ties=ties)
    assert_repeated(first, again)


def reference(jobs, starts, units):
    """Start each job at its recorded start, or as soon after as it fits; in order of these starts."""
    due = [max(start, float(submit)) for start, submit in zip(starts, jobs["submit_time"], strict=True)]
    order = sorted(range(len(due)), key=lambda k: (due[k], k))
    run, wanted = jobs["run_time"].to_list(), jobs["processors"].to_list()
    found, time = [None] * len(due), 0.0
    while None in found:
        held = sum(wanted[k] for k in order if found[k] is not None and found[k] <= time < found[k] + run[k])
        for k in order:
            if found[k] is None and due[k] <= time and held + wanted[k] <= units:
                found[k], held = time, held + wanted[k]
        later = [due[k] for k in order if found[k] is None]
        later += [found[k] + run[k] for k in order if found[k] is not None]
        time = min((at for at in later if at > time), default=time)
    return found, due


def over_allocated(jobs, due, units):
    """Count the seconds in which more units are held than there are, one by one, and the largest excess."""
    spans = list(zip(due, jobs["run_time"], jobs["processors"], strict=True))
    excess = [
        (second, sum(q for start, run, q in spans if start <= second < start + run) - units)
        for second in range(int(max(start + run for start, run, _ in spans)) + 1)
    ]
    over = [(second, more) for second, more in excess if more > 0]
    if not over:
        return {"seconds": 0.0, "cores": 0, "first": None}
    return {"seconds": float(len(over)), "cores": max(more for _, more in over), "first": float(over[0][0])}


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.tuples(job, st.integers(-3, 20)), min_size=1, max_size=12), st.sampled_from(["simpy", "auto"])
)
def test_schedules_that_do_not_fit_are_reported(jobs, engine):
    workload = table([each for each, _ in jobs])
    starts = [max(0, submit + wait) for submit, (_, wait) in zip(workload["submit_time"], jobs, strict=True)]
    workload = workload.with_columns(pl.Series("recorded_start", starts, pl.Float64))
    result = recorded(MACHINE, workload, engine=engine)
    found, due = reference(workload, starts, UNITS)
    assert result.jobs["start_time"].to_list() == found
    facts = result.summary["workload"]["recorded"]
    delays = [start - at for start, at in zip(found, due, strict=True)]
    late = sorted((due[k], k) for k in range(len(due)) if delays[k] > 0)
    assert (facts["starts"], facts["late"]) == (len(due), len(late))
    assert facts["late_max"] == (max(delays) if late else None)
    assert facts["first_late"] == [{"job_id": k + 1, "recorded": at, "start": found[k]} for at, k in late[:5]]
    assert facts["over_allocated"] == over_allocated(workload, due, UNITS)


@pytest.mark.parametrize(("mapping", "each"), [("node", 1), ("packed", 2), ("core", 2)])
def test_a_job_wider_than_the_machine_over_allocates_it(mapping, each):
    """It is rejected, and the log has it on more cores than there are."""
    nodes = {"platform": {"nodes": [{"name": "n", "count": 6, "cores": 2}]}}
    jobs = table([(0, 10, 0, 6 * each), (0, 30, 0, 8 * each)], recorded_start=[0.0, 20.0])
    result = recorded({**nodes, "workload": {"mapping": mapping}}, jobs)
    assert result.summary["jobs"]["rejected"] == 1
    facts = result.summary["workload"]["recorded"]
    assert facts["over_allocated"] == {"seconds": 30.0, "cores": 4, "first": 20.0}


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), max_size=10))
def test_jobs_that_overtook_others(jobs):
    queued = np.array([row[0] for row in jobs], float)
    left = queued + [row[1] for row in jobs]
    start = np.where(np.array([row[2] for row in jobs]) == 0, np.nan, left)
    expected = [
        any((queued[i], i) < (queued[j], j) and left[i] > start[j] for i in range(len(jobs)))
        for j in range(len(jobs))
    ]
    assert overtaking(queued, left, start).tolist() == expected


def both(scenario, workload, **batch):
    """Run a scenario under EASY, and its schedule as a recorded one."""
    first = mlsim.run({**scenario, "batch": {"backfill": "easy", **batch}}, workload=workload)
    return first, recorded(scenario, with_starts(workload, first), **batch)


def many(seed=3, n=60, **more):
    rng = np.random.default_rng(seed)
    rows = list(
        zip(
            rng.integers(0, 5, n),
            rng.integers(1, 20, n),
            rng.integers(0, 9, n),
            rng.integers(1, 7, n),
            strict=True,
        )
    )
    return table(rows, **{name: make(rng, n) for name, make in more.items()})


POWER = {
    "platform": {"nodes": [{"name": "n", "count": UNITS, "cores": 1, "power": {"idle": 10, "busy": 100}}]}
}
MEMORY = {"platform": {"nodes": [{"name": "n", "count": UNITS, "cores": 1, "memory": "8 GB"}]}}
LICENCES = {"platform": {**MACHINE["platform"], "shared": {"licence": 3}}}
CORES = {"platform": {"nodes": [{"name": "n", "count": 3, "cores": 2}]}, "workload": {"mapping": "core"}}


@pytest.mark.parametrize(
    ("scenario", "workload", "batch"),
    [
        pytest.param(POWER, many(), {"power_cap": "420 W"}, id="power cap"),
        pytest.param(MEMORY, many(request_memory=lambda rng, n: rng.integers(1, 8000, n)), {}, id="memory"),
        pytest.param(LICENCES, many(request_licence=lambda rng, n: rng.integers(0, 3, n)), {}, id="licences"),
        pytest.param(CORES, many(), {}, id="cores"),
        pytest.param(
            {"platform": {**MACHINE["platform"], "drains": [{"nodes": "0-2", "start": 40, "end": 120}]}},
            many(),
            {},
            id="drains",
        ),
        pytest.param(
            {"platform": {**MACHINE["platform"], "failures": [{"node": 1, "at": 50, "repair": 60}]}},
            many(),
            {"on_failure": "die"},
            id="failures",
        ),
        pytest.param(
            {**MACHINE, "workload": {"dependencies": True}},
            many(
                preceding_job=lambda _, n: np.maximum(np.arange(n) - 2, 0),
                think_time=lambda _, n: np.full(n, 2),
            ),
            {},
            id="dependencies",
        ),
        pytest.param(
            {**MACHINE, "workload": {"never_ran": "withdraw"}},
            many(
                run_time=lambda _, n: np.where(np.arange(n) % 4 == 3, 0, 5 + np.arange(n) % 9),
                withdraw_time=lambda _, n: np.where(np.arange(n) % 4 == 3, np.arange(n) * 2.0 + 2, -1.0),
            ),
            {},
            id="withdrawals",
        ),
        pytest.param(
            {**MACHINE, "application": {"model": "loop", "costs": {"profile": "job", "variation": 0.4}}},
            many(),
            {"on_overrun": "extend"},
            id="loops",
        ),
        pytest.param(
            {
                **MACHINE,
                "application": {"model": "loop", "costs": {"profile": "job", "variation": 0.9}},
                "coordination": {"rca": True},
            },
            many(),
            {"on_overrun": "extend"},
            id="RCA",
        ),
    ],
)
@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_beside_other_features_the_schedule_is_repeated(scenario, workload, batch, engine):
    first, again = both(scenario, workload, **batch, engine=engine)
    assert first.summary["jobs"]["backfilled"] > 0
    assert (first.summary["jobs"].get("withdrawn", 0) > 0) == ("withdraw_time" in workload.columns)
    assert_repeated(first, again)


OF_THE_QUEUE = ("policy", "backfill", "backfill_order", "reservations", "threshold", "easy", "compression")
OF_THE_QUEUE += ("classifier", "predictor", "pass_interval", "backfill_interval", "allocator", "contiguity")


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(150))
@given(st.integers(0, 10**6))
def test_starts_of_crossed_features_are_repeated(seed):
    base, keys, workload = drawn(random.Random(seed))
    workload = workload.with_columns(pl.col("submit_time") - pl.col("submit_time").min())
    keys.pop("workload.feedback", None)
    left_out = {f"batch.{key}" for key in OF_THE_QUEUE}
    again_keys = {key: value for key, value in keys.items() if key not in left_out}
    try:
        first = mlsim.run(base, keys, workload=workload)
        log = workload.join(first.jobs.select("job_id", recorded_start="start_time"), on="job_id")
        again = mlsim.run(base, {**again_keys, "batch.dispatcher": "recorded"}, workload=log)
    except InputError:  # features that exclude each other
        return
    one, other = first.records.jobs, again.records.jobs
    # A log has one start of a job; and in the second pass of one time others may be ahead.
    assume(not len(first.records.attempts.job) and not (one.end_time <= one.start_time).any())
    for name in ("start_time", "end_time", "state", "submit_time"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=f"{name} {keys}")
    if first.summary["jobs"]["completed"]:
        assert again.recorded.overall["mean_absolute_difference"] == 0
        assert again.summary["wait_time"] == first.summary["wait_time"]


# Nodes


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("n1", [("n", 1, 1)]),
        ("n[1-3,07],m01", [("n", 1, 3), ("n", 7, 7), ("m", 1, 1)]),
        ("n[1-2]-ib", []),
        ("r[1-2]n[01-03]", []),
        ("n1,login", []),
        ("n[1-x]", []),
        ("n1,n[2", []),
        ("", []),
    ],
)
def test_lists_of_nodes(text, ranges):
    assert name_ranges(text) == ranges


def test_a_log_that_counts_nodes_from_1():
    groups = ["n"] * 3 + ["m"] * 2
    known = RecordedNodes(groups, ["n[1-3]", "m0", "m[0-1]", "n2,m1", "n4", "x1", "login"])
    found = {
        text: known.of(text).tolist()
        for text in ("n[1-3]", "m0", "m[0-1]", "n2,m1", "n4", "x1", "login", None)
    }
    # A number beyond the size of the group leaves it as mlsim counts.
    assert found == {
        "n[1-3]": [],
        "m0": [3],
        "m[0-1]": [3, 4],
        "n2,m1": [2, 4],
        "n4": [],
        "x1": [],
        "login": [],
        None: [],
    }
    known = RecordedNodes(groups, ["n[1-3]", "n1"])
    assert [known.of("n[1-3]").tolist(), known.of("n1").tolist()] == [[0, 1, 2], [0]]


NAMED = pl.DataFrame(
    {
        "job_id": [1, 2, 3, 4, 5],
        "submit_time": [0, 0, 1, 2, 3],
        "run_time": [10, 10, 10, 10, 10],
        "walltime": [10, 10, 10, 10, 10],
        "processors": [2, 1, 2, 1, 1],
        "recorded_start": [0.0, 0.0, 5.0, 6.0, 20.0],
        "recorded_nodes": ["n[3,5]", "n0", "n[4-5]", "x9", None],
    }
)


@pytest.mark.parametrize("engine", ["simpy", "auto"])
@pytest.mark.parametrize("machine", [MACHINE, MEMORY], ids=["pool", "nodes"])
def test_jobs_get_their_recorded_nodes_where_these_are_free(machine, engine):
    result = recorded(machine, NAMED, engine=engine)
    assert result.jobs["start_time"].to_list() == [0, 0, 5, 6, 20]
    # Node 5 is taken; nothing is called x9.
    assert result.jobs["nodes"].to_list() == ["3 5", "0", "1-2", "4", "0"]
    facts = result.summary["workload"]["recorded"]
    assert (facts["late"], facts["elsewhere"], facts["unknown_nodes"]) == (0, 1, 1)


def test_cores_are_spread_over_the_recorded_nodes():
    cores = {"platform": {"nodes": [{"name": "n", "count": 3, "cores": 4}]}, "workload": {"mapping": "core"}}
    jobs = NAMED.with_columns(
        processors=pl.Series([4, 5, 8, 1, 1]),
        recorded_nodes=pl.Series(["n[1-2]", "n[0,2]", "n[0-2]", "n2", "n1"]),
    )
    result = recorded(cores, jobs)
    held = result.occupancy.sort("job_id", "node").select("job_id", "node", "count", "cores").rows()
    # Job 3 waits for 5 s, as 3 cores are left; node 2 is full when job 4 starts.
    assert result.jobs["start_time"].to_list() == [0, 0, 10, 6, 20]
    assert held[:3] == [(1, 1, 2, 2), (2, 0, 1, 3), (2, 2, 1, 2)]
    assert held[3:] == [(3, 0, 2, 3), (3, 2, 1, 2), (4, 0, 1, 1), (5, 1, 1, 1)]
    facts = result.summary["workload"]["recorded"]
    assert (facts["late"], facts["elsewhere"]) == (1, 1)
    assert facts["over_allocated"] == {"seconds": 5.0, "cores": 6, "first": 5.0}


@settings(deadline=None, max_examples=examples(30))
@given(job_lists, st.integers(0, 5), st.booleans(), st.sampled_from(["simpy", "auto"]))
def test_nodes_of_a_random_allocator_are_repeated(jobs, seed, memory, engine):
    machine = copy.deepcopy(MEMORY if memory else MACHINE) | {"seed": seed}
    workload = table(jobs)
    first = mlsim.run({**machine, "batch": {"allocator": "random", "backfill": "easy"}}, workload=workload)
    names = [_listed(nodes) for nodes in first.jobs["nodes"].to_list()]
    log = with_starts(workload, first).with_columns(recorded_nodes=pl.Series(names))
    again = recorded(machine, log, engine=engine)
    assert_repeated(first, again)
    assert again.jobs["nodes"].to_list() == first.jobs["nodes"].to_list()
    assert again.summary["workload"]["recorded"]["elsewhere"] == 0


def _listed(nodes):
    return f"n[{nodes.replace(' ', ',')}]"


# What is refused


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"batch": {**RECORDED, "backfill": "easy"}}, "batch.backfill"),
        ({"batch": {**RECORDED, "policy": "SAF"}}, "batch.policy"),
        ({"batch": {**RECORDED, "predictor": "actual"}}, "write walltime, not actual"),
        ({"batch": {**RECORDED, "pass_interval": "10 s"}}, "batch.pass_interval"),
        ({"batch": {**RECORDED, "backfill_interval": "10 s"}}, "batch.backfill_interval"),
        ({"batch": {**RECORDED, "count_dispatch_time": True}}, "batch.count_dispatch_time"),
        ({"batch": {**RECORDED, "classifier": {}}}, "batch.classifier"),
        ({"batch": {**RECORDED, "allocator": "random"}}, "batch.allocator"),
        ({"batch": RECORDED, "workload": {"select": {"scale_load": 2}}}, "workload.select.scale_load"),
        ({"batch": RECORDED, "workload": {"dependencies": True, "feedback": True}}, "workload.feedback"),
        (
            {
                "batch": RECORDED,
                "platform": {
                    **MACHINE["platform"],
                    "drains": [{"nodes": "0", "start": 4, "end": 9, "announced": True}],
                },
            },
            "platform.drains.0.announced",
        ),
    ],
)
def test_what_moves_starts_is_refused(more, words):
    with pytest.raises(InputError, match=r"recorded|needs dispatcher queue") as refused:
        mlsim.run({**MACHINE, **more}, workload=NAMED)
    assert words in str(refused.value)


def test_a_log_without_starts_is_refused():
    with pytest.raises(InputError, match=r"no job of .* has one; it is recorded_start in CSV"):
        recorded(MACHINE, NAMED.drop("recorded_start"))


def test_jobs_without_a_start_are_rejected_with_the_reason(tmp_path):
    jobs = NAMED.with_columns(recorded_start=pl.Series([0.0, None, 5.0, None, 20.0]))
    for name, log in (("some", jobs), ("all", NAMED)):
        log.write_parquet(tmp_path / f"{name}.parquet")
        scenario = {**MACHINE, "batch": RECORDED, "workload": {"path": str(tmp_path / f"{name}.parquet")}}
        found = survey(scenario_from(scenario, None, None)).misfits
        assert found == ({"has no recorded start": (2, [2, 4])} if name == "some" else {})
    for engine in ("simpy", "auto"):
        result = recorded(MACHINE, jobs, engine=engine)
        assert result.summary["rejected_because"] == {"has no recorded start": 2}
        assert result.jobs["start_time"].to_list() == [0, None, 5, None, 20]
