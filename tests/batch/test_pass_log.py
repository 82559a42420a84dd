"""What passes leave, against counting jobs one by one."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.batch_system import BatchSetup, BatchSystem
from mlsim.batch.events.attempts import DispatchTimes
from mlsim.batch.job_recorder import PassLog
from mlsim.batch.room.unit_requests import Requests
from mlsim.scenario import BatchConfig
from mlsim.scenario.words import Mapping
from tests.batch.builders import RigidApplications, block, machine


def simulate(jobs, nodes=4, keep_passes=True, **batch):
    hardware = machine(nodes)
    requests = Requests.on(hardware, Mapping.NODE)
    config = BatchConfig.model_validate({"on_overrun": "extend", **batch})
    batch_system = BatchSystem(hardware, config, requests, BatchSetup(keep_passes=keep_passes))
    batch_system.run([block(*map(list, zip(*jobs, strict=True)))], RigidApplications(batch_system))
    return batch_system


workloads = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(1, 12), st.integers(1, 5)),
    min_size=1,
    max_size=25,
)


@settings(deadline=None, max_examples=60)
@given(workloads, st.sampled_from(["none", "easy"]))
def test_passes_count_what_jobs_say(jobs, backfill):
    done = simulate(jobs, backfill=backfill)
    passes, rows = done.passes(), done.jobs()
    began = ~np.isnan(rows.start_time)
    submit, start, end = rows.submit_time[began], rows.start_time[began], rows.end_time[began]
    assert np.all(np.diff(passes.time) > 0)  # no job ends when it starts, so there is one pass a time
    for row, now in enumerate(passes.time):
        assert passes.queue_length[row] == sum((submit <= now) & (start >= now))
        assert passes.started[row] == sum(start == now)
        assert passes.running[row] == sum((start <= now) & (now < end))
        held = rows.processors[began][(start <= now) & (now < end)].sum()
        assert passes.free_units[row] == 4 - held
    assert np.all(passes.wall_time > 0)
    assert passes.wall_time.tolist() == done.pass_times.values().tolist()


def test_no_passes_are_kept_unless_asked_for():
    done = simulate([(0, 5, 5, 1)], keep_passes=False)
    assert len(done.passes().time) == 0
    assert len(done.pass_times) > 0


@settings(deadline=None, max_examples=30)
@given(workloads)
def test_a_job_waits_for_the_pass_that_starts_it(jobs):
    without, counting = simulate(jobs), simulate(jobs, count_dispatch_time=True)
    rows, passes = counting.jobs(), counting.passes()
    plain = without.jobs()
    assert plain.dispatch_time is None
    np.testing.assert_array_equal(rows.start_time, plain.start_time)
    seconds = dict(zip(passes.time.tolist(), passes.wall_time.tolist(), strict=True))
    for start, own in zip(rows.start_time.tolist(), rows.dispatch_time.tolist(), strict=True):
        assert own == seconds[start] if start == start else own != own


def test_the_last_start_of_a_job_counts():
    batch = simulate([(0, 5, 5, 1), (1, 5, 5, 1)])
    times = DispatchTimes(batch._transitions)
    batch.state.table.ints[0, :2] = [1, 0]
    times.on_start(np.array([0, 1]), 0.0, 2.0)
    times.on_start(np.array([1]), 1.0, 3.0)
    assert times.add_columns(batch.jobs()).dispatch_time.tolist() == [3.0, 2.0]


def test_an_empty_log_has_columns():
    assert PassLog().passes().queue_length.dtype == np.int64


@pytest.fixture
def files(tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,run_time,estimate,processors\n1,0,100,120,4\n2,1,50,60,1\n3,2,20,30,9\n"
    )
    text = (
        "platform: {nodes: [{name: n, count: 4, cores: 1}]}\n"
        "workload: {path: jobs.csv, mapping: node}\n"
        "output: {passes: on, pictures: off}\n"
    )
    (tmp_path / "one.yaml").write_text(text + "batch: {count_dispatch_time: on}\n")
    return tmp_path


def test_files_of_a_run(files):
    import mlsim

    result = mlsim.run(files / "one.yaml", out=files / "out")
    written = pl.read_parquet(files / "out" / "passes.parquet")
    assert written.columns == ["time", "queue_length", "started", "running", "free_units", "wall_time"]
    assert written["time"].to_list() == [0, 1, 100, 150]
    assert written["queue_length"].to_list() == [1, 1, 1, 0]
    assert written.equals(result.passes)
    jobs = pl.read_parquet(files / "out" / "jobs.parquet")
    own = jobs["dispatch_time"].to_list()
    assert own == [written["wall_time"][0], written["wall_time"][2], None]
    assert jobs["wait_time"].to_list() == [own[0], 99 + own[1], None]
    assert jobs["response_time"].to_list()[:2] == pytest.approx([100 + own[0], 149 + own[1]])
    assert jobs["slowdown"][1] == pytest.approx((149 + own[1]) / 50)
    assert result.summary["wait_time"]["max"] == 99 + own[1]
