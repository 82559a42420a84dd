import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.analysis import job_metrics, machine_metrics
from mlsim.record import derived_times
from tests.reference import metrics as slow
from tests.reference.runs import JOBS, STAYS, Job, Stay, jobs_of, loops_of, records_of, rejected, stays_of


def small():
    return records_of(JOBS, STAYS, [2, 2])


def known(values):
    return values[~np.isnan(values)].tolist()


def test_times_of_jobs():
    jobs = small().jobs
    assert known(derived_times.run_time(jobs)) == [10, 20, 4, 0]
    assert known(derived_times.wait_time(jobs)) == [0, 10, 25, 23]
    assert known(derived_times.response_time(jobs)) == [10, 30, 29, 23]


def test_slowdowns_of_jobs():
    jobs = small().jobs
    assert known(derived_times.slowdown(jobs)) == [1, 1.5, 29 / 4]  # none of the job of no length
    assert known(derived_times.bounded_slowdown(jobs)) == [1, 1.5, 2.9, 2.3]
    assert known(derived_times.bounded_slowdown(jobs, tau=1)) == [1, 1.5, 29 / 4, 23]
    assert known(derived_times.per_processor_bounded_slowdown(jobs)) == [1, 1, 2.9, 2.3]


def test_counts_of_jobs():
    assert machine_metrics.job_counts(small().jobs) == {
        "submitted": 5,
        "completed": 2,
        "killed": 1,
        "failed": 1,
        "rejected": 1,
        "backfilled": 1,
    }


def test_makespans():
    shifted = jobs_of([Job(5, 8, 20), Job(6, 9, 12)])
    assert machine_metrics.makespan(shifted) == 12
    assert machine_metrics.makespan_from_submit(shifted) == 15


def test_queue_length_over_the_time_jobs_wait():
    # Waiting: one job in [0, 5), two in [5, 7), three in [7, 10), two in [10, 30).
    queue = job_metrics.queue_length(small().jobs)
    assert queue["mean"] == pytest.approx((5 + 4 + 9 + 40) / 30)
    assert queue["std"] == pytest.approx(((5 + 8 + 27 + 80) / 30 - queue["mean"] ** 2) ** 0.5)
    assert (queue["median"], queue["p90"], queue["p99"], queue["max"]) == (2, 2, 3, 3)


def test_a_queue_nobody_waited_in_is_empty():
    assert job_metrics.queue_length(jobs_of([Job(3, 3, 9)])) == dict.fromkeys(
        ("mean", "std", "median", "p90", "p99", "max"), 0
    )


def test_throughput_counts_completed_jobs_an_hour():
    assert machine_metrics.throughput(small().jobs) == pytest.approx(2 / 34 * 3600)


def test_utilization_of_rigid_jobs():
    used = machine_metrics.utilization(small())
    assert used["busy"] == pytest.approx((2 * 10 + 3 * 20 + 1 * 4) / (4 * 34))
    assert used["allocated"] == pytest.approx((20 + 40 + 30 + 8) / (4 * 34))


def test_a_loop_is_busy_while_it_executes_chunks():
    loops = loops_of([{"job": 1, "busy": 50.0}])
    records = records_of(JOBS, STAYS, [2, 2], loops=loops)
    assert machine_metrics.busy_seconds(records).tolist() == [20, 50, 4, 0, 0]
    assert machine_metrics.utilization(records)["busy"] == pytest.approx(74 / (4 * 34))


def test_imbalance_of_loops():
    # Finish times 2, 4, 6 and 8, 8.
    finish = [{"mean_finish": 4, "std_finish": (8 / 3) ** 0.5, "max_finish": 6}]
    loops = loops_of([*finish, {"mean_finish": 8, "std_finish": 0, "max_finish": 8}, {}])
    assert machine_metrics.coefficient_of_variation(loops)[:2] == pytest.approx([(8 / 3) ** 0.5 / 4, 0])
    assert machine_metrics.percent_imbalance(loops)[:2] == pytest.approx([100 / 3, 0])
    assert machine_metrics.max_over_mean(loops)[:2] == pytest.approx([1.5, 1])
    for metric in (
        machine_metrics.coefficient_of_variation,
        machine_metrics.percent_imbalance,
        machine_metrics.max_over_mean,
    ):
        assert np.isnan(metric(loops)[2])  # a loop without cost has no imbalance


def test_loop_metrics_sum_and_aggregate():
    rows = [{"iterations": 10, "steps": 3, "t_loop": 2, "busy": 5, "overhead": 1, "idle": 2}]
    rows += [{"iterations": 20, "steps": 4, "t_loop": 4, "busy": 7, "overhead": 0.5, "idle": 0}]
    result = machine_metrics.loop_metrics(loops_of(rows))
    assert (result["count"], result["iterations"], result["steps"]) == (2, 30, 7)
    assert (result["busy"], result["overhead"], result["idle"]) == (12, 1.5, 2)
    assert (result["t_loop"]["mean"], result["t_loop"]["max"]) == (3, 4)
    assert result["cov"]["mean"] is None


def test_coordination_counts_what_was_given_back():
    result = machine_metrics.coordination_metrics(small())
    assert result == {
        "messages": 0,
        "releases": 1,
        "jobs_releasing": 1,
        "released_node_seconds": 5,
        "released_core_seconds": 10,
    }


def test_released_stays_count_each_of_their_nodes():
    jobs = jobs_of([Job(0, 0, 10)])
    stays = stays_of([Stay(0, 0, 3, 4, 0, 8, True), Stay(0, 3, 2, 4, 0, 9, True), Stay(0, 5, 1, 4, 0, 10)])
    assert machine_metrics.released_nodes(stays) == 5
    assert machine_metrics.released_seconds(stays, jobs) == (3 * 2 + 2 * 1, 4 * 8)


def test_aggregate_leaves_undefined_values_out():
    result = job_metrics.aggregate([1.0, float("nan"), 3.0])
    assert result == pytest.approx({"mean": 2, "std": 1, "median": 2, "p90": 2.8, "p99": 2.98, "max": 3})
    assert set(job_metrics.aggregate([float("nan")]).values()) == {None}


@st.composite
def runs(draw):
    """Jobs with whole times, in order of submission."""
    rows = []
    for submit in sorted(draw(st.lists(st.integers(0, 40), max_size=12))):
        if draw(st.integers(0, 5)) == 0:
            rows.append(rejected(submit))
            continue
        start = submit + draw(st.integers(0, 30))
        cores = draw(st.integers(1, 8))
        processors = draw(st.integers(1, 10))
        rows.append(Job(submit, start, start + draw(st.integers(0, 30)), processors, cores))
    return rows


@settings(deadline=None)
@given(runs(), st.integers(1, 20))
def test_jobs_against_the_obvious(rows, tau):
    jobs = jobs_of(rows)
    assert known(derived_times.wait_time(jobs)) == slow.waits(rows)
    assert known(derived_times.slowdown(jobs)) == pytest.approx(slow.slowdowns(rows))
    assert known(derived_times.bounded_slowdown(jobs, tau)) == pytest.approx(
        slow.bounded_slowdowns(rows, tau)
    )
    by_processor = slow.bounded_slowdowns(rows, tau, by_processor=True)
    assert known(derived_times.per_processor_bounded_slowdown(jobs, tau)) == pytest.approx(by_processor)


@settings(deadline=None)
@given(runs())
def test_the_system_against_the_obvious(rows):
    records = records_of(rows, cores=[4, 8])
    assert job_metrics.queue_length(records.jobs) == pytest.approx(slow.queue_length(rows))
    assert machine_metrics.makespan(records.jobs) == slow.makespan(rows)
    assert machine_metrics.busy_seconds(records).sum() == slow.busy(rows)
    span = slow.makespan(rows)
    busy = machine_metrics.utilization(records)["busy"]
    assert busy == (pytest.approx(slow.busy(rows) / (12 * span)) if span else None)


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_aggregates_against_the_obvious(values):
    assert job_metrics.aggregate(values) == pytest.approx(slow.aggregate(values), rel=1e-9, abs=1e-6)


def test_mean_queue_length_is_the_sum_of_waits_over_the_span():
    rows = [Job(0, 0, 9), Job(2, 9, 12), Job(4, 20, 22)]
    assert job_metrics.queue_length(jobs_of(rows))["mean"] == pytest.approx(sum(slow.waits(rows)) / 20)
