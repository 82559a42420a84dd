"""The classifier in a run: small jobs first, the safeguard, and what is learned when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.batch.clock.replay_many import replay_classes
from mlsim.errors import InputError
from mlsim.learning.class_learning import features_of, predict_week
from mlsim.scenario import BatchConfig, from_mapping
from mlsim.workload.workload_jobs import JobBlock
from tests.effort import examples

DAY = 86_400
WEEK = 7 * DAY
FEW = {"batch.classifier": {"by": "forest", "trees": 5}}

rows = st.lists(
    st.tuples(
        st.integers(0, 35).map(lambda k: k * DAY // 2),
        st.sampled_from([60, 600, 7200, DAY, 3 * DAY]),
        st.sampled_from([3600, DAY, 6 * DAY]),
        st.integers(1, 4),
        st.integers(1, 3),
    ),
    min_size=5,
    max_size=60,
).map(sorted)


def run(jobs, nodes=4, **overrides):
    """Simulate jobs (submit, run, walltime, processors, user) on a few nodes of one core."""
    import polars as pl

    columns = ("submit_time", "run_time", "walltime", "processors", "user")
    frame = pl.DataFrame(jobs, schema=columns, orient="row").with_row_index("job_id", 1)
    scenario = {
        "name": "classes",
        "platform": {"nodes": [{"name": "n", "count": nodes, "cores": 1}]},
        "workload": {"mapping": "core", "cleaning": {"underestimate": "keep"}},
        "batch": {"backfill": "easy"},
    }
    return mlsim.run(
        scenario, {key.replace("__", "."): value for key, value in overrides.items()}, workload=frame
    )


def as_block(jobs) -> JobBlock:
    submit, run_time, walltime, processors, user = (np.array(column) for column in zip(*jobs, strict=True))
    floats = [
        (column - base).astype(float) for column, base in ((submit, submit[0]), (run_time, 0), (walltime, 0))
    ]
    ids = np.arange(1, len(jobs) + 1)
    return JobBlock(ids, *floats, processors, user=user, log_wait=np.zeros(len(jobs)))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(20))
@given(
    rows,
    st.sampled_from(["FCFS", "SAF", "WFP"]),
    st.sampled_from([None, 3 * DAY]),
    st.booleans(),
    st.sampled_from(["actual", "forest"]),
)
def test_the_schedule_is_that_of_compiled_replay_of_the_same_classes(jobs, policy, threshold, safeguard, by):
    batch = {"policy": policy, "backfill": "easy", "threshold": threshold}
    classifier = {"by": by, "safeguard": safeguard} | ({"trees": 5} if by == "forest" else {})
    found = run(jobs, batch=batch | {"classifier": classifier}).records
    assert found.jobs.divider is not None
    small = found.jobs.taken_for_small.astype(bool)
    config = BatchConfig.model_validate(batch)
    again = replay_classes(as_block(jobs), config, 4, small, found.jobs.divider, safeguard=safeguard)
    np.testing.assert_array_equal(found.jobs.start_time, again.start)
    np.testing.assert_array_equal(found.jobs.end_time, again.end)
    np.testing.assert_array_equal(found.jobs.backfilled.astype(bool), again.backfilled)
    killed = np.flatnonzero(~np.isnan(again.killed))
    assert found.attempts.job.tolist() == killed.tolist()
    assert (found.attempts.node == -1).all()
    np.testing.assert_array_equal(found.attempts.start, again.killed[killed])
    np.testing.assert_array_equal(found.attempts.lost, again.lost[killed])


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(10))
@given(rows)
def test_where_nobody_waits_the_classes_are_those_learned_from_the_log(jobs):
    jobs = [(*job[:2], max(job[1], job[2]), *job[3:]) for job in jobs]
    found = run(jobs, nodes=300, **FEW)
    features = features_of(as_block(jobs), as_block(jobs).submit_time + jobs[0][0])
    np.testing.assert_array_equal(found.records.jobs.divider, features.divider)
    said = np.zeros(len(jobs), bool)
    for week in range(1, int(features.week.max()) + 1):
        said[features.week == week] = predict_week(features, week, 5, 0)[1]
    assert found.records.jobs.taken_for_small.astype(bool).tolist() == said.tolist()


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(10))
@given(rows, st.integers(1, 3), st.sampled_from([1.0, 50.0]))
def test_no_class_knows_the_future(jobs, week, poison):
    """What has not ended when a week begins may last as long as it will: the classes told before stay."""
    one = run(jobs, nodes=300, **FEW).records.jobs
    edge = week * WEEK
    late = one.end_time > edge
    changed = [
        (*job[:1], job[1] + int(poison * DAY) * bool(k), *job[2:]) for job, k in zip(jobs, late, strict=True)
    ]
    other = run(changed, nodes=300, **FEW).records.jobs
    before = one.submit_time < edge + WEEK
    assert one.taken_for_small[before].tolist() == other.taken_for_small[before].tolist()
    assert one.divider[before].tobytes() == other.divider[before].tobytes()


def habits():
    """Jobs of two users: the short ones of one are short, but now and then one is not."""
    rng = np.random.default_rng(3)
    jobs = []
    for submit in np.sort(rng.integers(0, 6 * WEEK, 600)).tolist():
        user = 1 if rng.random() < 0.4 else 2  # so that the median is a long job's
        short = (user == 1) != (rng.random() < 0.05)
        jobs.append((submit, int(rng.integers(60, 300)) if short else 4 * 3600, 5 * 3600, 2, user))
    return jobs


def test_the_summary_tells_how_good_classes_were_and_what_the_safeguard_cost():
    found = run(habits(), nodes=4, **FEW)
    classes = found.summary["classes"]
    assert classes["accuracy"] > 0.75
    assert 0 < classes["killed"] == len(found.records.attempts.job)
    assert classes["lost_core_seconds"] == pytest.approx(found.records.attempts.lost.sum())
    jobs = found.records.jobs
    time = jobs.end_time - jobs.start_time
    slowdown = np.maximum((jobs.end_time - jobs.submit_time) / np.maximum(time, 10), 1)
    small, large = time < jobs.divider, time >= jobs.divider
    assert classes["bounded_slowdown_small"] == pytest.approx(slowdown[small].mean())
    assert classes["bounded_slowdown_large"] == pytest.approx(slowdown[large].mean())
    assert found.summary["failures"]["restarts"] == 0
    assert found.summary["failures"]["lost_core_seconds"] == 0
    assert (found.records.jobs.state == 0).all()  # every job completes
    plain = run(habits(), nodes=4)
    assert "classes" not in plain.summary
    assert plain.records.jobs.divider is None
    assert (classes["jobs"], classes["small"]) == (small.sum() + large.sum(), small.sum())


def test_the_same_seed_gives_the_same_classes():
    one, other = (run(habits(), nodes=4, seed=7, **FEW).records.jobs for _ in range(2))
    assert one.taken_for_small.tobytes() == other.taken_for_small.tobytes()
    assert one.start_time.tobytes() == other.start_time.tobytes()


def test_safeguard_and_failures_go_together():
    """A job that both a failure and the safeguard have ended completes once; restarts count failures only."""
    found = run(
        habits(),
        nodes=4,
        batch__classifier={"by": "actual"},
        batch__on_failure="restart",
        batch__max_restarts=1,
        platform__failures=[{"node": 0, "at": WEEK + k * DAY, "repair": 60} for k in range(20)],
    )
    jobs, attempts = found.records.jobs, found.records.attempts
    counted = found.summary["failures"]
    assert counted["restarts"] == int((attempts.node >= 0).sum())
    ended = ~np.isnan(jobs.end_time)
    assert ended.all()
    assert np.bincount(attempts.job[attempts.node >= 0], minlength=len(jobs.job_id)).max() <= 1


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"classifier": {}, "ties": "per-event"}, "needs ties: drained"),
        ({"classifier": {}, "backfill": "easy", "easy": "cqsim"}, "needs easy: standard"),
        ({"classifier": {}, "on_failure": "resume"}, "safeguard starts jobs from the beginning"),
        ({"classifier": {"by": "actual", "trees": 3}}, "read with by: forest"),
        ({"classifier": {}, "dispatcher": "reject"}, "read by dispatcher queue only"),
        ({"classifier": {}, "engine": "replay"}, "batch.classifier"),
    ],
)
def test_what_does_not_go_with_a_classifier_is_refused(batch, words):
    with pytest.raises(InputError, match=words):
        from_mapping(
            {
                "platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]},
                "workload": {"path": "log.swf"},
                "batch": batch,
            },
            "scenario",
        )


def test_without_the_library_it_is_said_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(InputError, match=r"pip install 'mlsim\[learning\]'"):
        run(habits()[:10], **FEW)
    run(habits()[:10], batch__classifier={"by": "actual"})


def test_the_safeguard_goes_by_the_divider_of_the_submission():
    """A small job that waits into another week is killed at the divider that it was taken for small by."""
    first = [(k * DAY // 2, 60 if k % 2 else 7200, DAY, 1, 1 if k % 2 else 2) for k in range(13)]
    second = [(WEEK + k * DAY, 600, DAY, 1, 2) for k in range(1, 4)]
    blocker = (2 * WEEK - 3600, 7200, DAY, 4, 2)
    waits = (2 * WEEK - 1000, 10_000, DAY, 1, 1)
    next_week = (2 * WEEK + 10, 60, DAY, 1, 3)
    jobs = [*first, *second, blocker, waits, next_week]
    result = run(jobs, **FEW | {"batch.classifier.safeguard": True})
    row = jobs.index(waits)
    assert result.records.jobs.taken_for_small[row]
    assert result.records.jobs.divider[row] == 7200.0
    assert result.records.jobs.divider[-1] != 7200.0
    attempts = result.records.attempts
    assert attempts.job.tolist() == [row]
    assert attempts.start.tolist() == [2 * WEEK + 3600.0]
    assert (attempts.end - attempts.start).tolist() == [7200.0]


def test_a_job_that_ends_at_the_edge_of_a_week_is_known_in_the_next():
    jobs = [(0, 50, DAY, 1, 1), (WEEK - 700, 700, DAY, 1, 1), (WEEK, 1, DAY, 1, 1), (2 * WEEK, 1, DAY, 1, 1)]
    dividers = run(jobs, **{"batch.classifier": {"by": "actual"}}).records.jobs.divider
    assert np.isnan(dividers[:2]).all()
    assert dividers[2:].tolist() == [375.0, 1.0]


def test_a_job_that_ends_after_the_edge_is_not_known_before_the_next_one():
    jobs = [
        (0, 50, DAY, 1, 1),
        (WEEK - 10, 60, DAY, 1, 1),
        (WEEK + 100, 1, DAY, 1, 1),
        (2 * WEEK, 1, DAY, 1, 1),
    ]
    dividers = run(jobs, **{"batch.classifier": {"by": "actual"}}).records.jobs.divider
    assert dividers[2:].tolist() == [50.0, 30.5]


def test_a_week_without_ends_keeps_the_divider_of_the_one_before():
    jobs = [(0, 50, DAY, 1, 1), (3 * WEEK, 1, DAY, 1, 1), (4 * WEEK, 1, DAY, 1, 1)]
    dividers = run(jobs, **{"batch.classifier": {"by": "actual"}}).records.jobs.divider
    assert dividers[1:].tolist() == [50.0, 1.0]
