"""Jobs of ElastiSim: what a rigid job takes follows from its application model."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.errors import InputError
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.elastisim_log import read_elastisim
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_fields import Rates
from mlsim.workload.log_formats import format_of

RATES = Rates(speed=1e9, bandwidth=1e9)


def waits(delay: object, **more: object) -> dict[str, Any]:
    return {"type": "busy_wait", "delay": delay, "pattern": "uniform"} | more


def phases(*tasks: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"phases": [{"tasks": list(tasks)} | more]}


def job(**more: object) -> dict[str, Any]:
    return {
        "type": "rigid",
        "submit_time": 0,
        "num_nodes": 4,
        "application_model": "/data/input/model.json",
    } | more


def write(directory: Path, jobs: list[Any], model: object = None) -> Path:
    (directory / "model.json").write_text(json.dumps(phases(waits(10)) if model is None else model))
    path = directory / "jobs.json"
    path.write_text(json.dumps({"jobs": jobs}))
    return path


def read(path: Path, rates: Rates | None = RATES, **options: Any) -> WholeLog:
    return read_elastisim(path, Reading(rates=rates, **options))


def test_fields_of_jobs(tmp_path: Path) -> None:
    jobs = [
        job(submit_time=1.5, walltime=0, attributes={"user": "ada", "priority": 3}),
        job(num_nodes=2, walltime=60, num_gpus_per_node=3, attributes={"priority": 1}),
    ]
    path = write(tmp_path, jobs)
    assert format_of(path) is WorkloadFormat.ELASTISIM
    log = read(path, own=("priority",))
    assert log.jobs.job_id.tolist() == [0, 1]
    assert log.jobs.submit_time.tolist() == [1.5, 0]
    assert log.jobs.run_time.tolist() == [10, 10]
    assert log.jobs.requested_time.tolist() == [-1, 60]
    assert log.jobs.requested_processors.tolist() == [4, 2]
    assert log.header["user_names"] == ["ada"]
    assert log.jobs.asked is not None
    assert log.jobs.asked.columns()["request_gpu"].tolist() == [0, 6]
    assert log.jobs.own is not None
    assert log.jobs.own.of["priority"].tolist() == [3, 1]


@pytest.mark.parametrize(
    ("model", "seconds"),
    [
        (phases(waits(10), waits(2.5, iterations=4)), 20),
        (phases(waits(10), iterations=3), 30),
        ({"on_init": {"tasks": [waits(1)]}} | phases(waits(10)), 11),
        ({"phases": [{"tasks": [waits(1)]}, {"tasks": [waits(2)], "iterations": "n"}]}, 15),
        (phases(waits(12, pattern="all_ranks")), 3),
        (phases(waits(12, pattern="even_ranks"), waits(12, pattern="odd_ranks")), 12),
        (phases(waits(12, pattern="root_only", type="idle")), 12),
        (phases({"type": "sequence", "iterations": 2, "tasks": [waits(1), waits(2)]}), 6),
        (phases({"type": "cpu", "flops": 2e9, "computation_pattern": "uniform"}), 2),
        (phases({"type": "CPU", "flops": "flops/num_nodes^0.5", "computation_pattern": "all_ranks"}), 0.25),
        (phases(waits("n*(num_nodes/base)")), 14),
        (phases(waits("max(n, 3) - -1 + floor(2.5) % 2")), 8),
        (phases(waits("num_gpus + num_gpus_per_node")), 0),
    ],
)
def test_times_of_models(tmp_path: Path, model: object, seconds: float) -> None:
    arguments = {"n": 7, "base": 2, "flops": 2e9}
    assert read(write(tmp_path, [job(arguments=arguments)], model)).jobs.run_time.tolist() == [seconds]


@pytest.mark.parametrize(
    ("values", "model", "message"),
    [
        (
            {"type": "moldable"},
            None,
            'job 0: type is "moldable"; expected rigid: the nodes of other jobs are',
        ),
        ({"num_nodes": None}, None, "job 0: num_nodes is null; expected a whole number from 1 up"),
        ({"num_nodes": 0}, None, "job 0: num_nodes is 0; expected"),
        ({"submit_time": -5}, None, "job 0: submit_time is -5"),
        ({"application_model": "other.json"}, None, "job 0: other.json: there is no such application model"),
        ({}, {"phases": 3}, "model.json: phases is wrong; expected a list of objects"),
        (
            {},
            phases({"type": "pfs_read", "bytes": 1, "pattern": "all_ranks"}),
            "'pfs_read' moves data or uses GPUs",
        ),
        ({}, phases({"type": "cpu", "flops": 1, "bytes": 1}), "'cpu' moves data"),
        ({}, phases(waits(1, pattern="vector")), 'pattern is "vector"; allowed: uniform, root_only'),
        ({}, phases(waits("lots")), "delay is \"lots\": 'lots' is no argument, operator or function"),
        ({}, phases(waits("1 +")), 'delay is "1 \\+": invalid syntax'),
        ({}, phases(waits("1 / 0")), "delay is .*division by zero"),
        ({}, phases(waits("__import__('os')")), "is no argument, operator or function"),
        ({}, phases(waits("9.0^9^9^9")), "delay is"),
        ({}, phases(waits("1" + "+1" * 400)), "expected a number or a formula"),
        ({}, phases(waits(-1)), "delay is -1; expected a number or a formula"),
        ({}, phases(waits(None)), "delay is null; expected"),
        ({}, phases(waits(1e300, iterations=10**12)), "runs for inf s"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, values: dict[str, Any], model: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, [job(**values)], model))


def test_operations_need_a_speed(tmp_path: Path) -> None:
    path = write(tmp_path, [job()], phases({"type": "cpu", "flops": 1, "computation_pattern": "uniform"}))
    with pytest.raises(InputError, match=r"counts operations(.|\n)*--speed"):
        read(path, rates=None)


def test_other_jobs_are_skipped_if_lenient(tmp_path: Path) -> None:
    log = read(write(tmp_path, [job(type="malleable", num_nodes=None), job()]), lenient=True)
    assert (log.jobs.job_id.tolist(), log.broken_lines) == ([1], 1)


@pytest.mark.parametrize("text", ['{"jobs": []}', '{"jobs": 3}', '{"jobs": [3]}', "[]", "{"])
def test_files_of_another_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"jobs\.json"):
        read(path)


def test_jobs_start_in_order_of_arrival_under_fcfs(tmp_path: Path) -> None:
    """As its own example of FCFS does: the head waits until it fits, and all wait behind it."""
    sizes, times = (3, 3, 1, 4), (10, 4, 2, 1)
    jobs = [
        job(num_nodes=size, submit_time=row, arguments={"n": n})
        for row, (size, n) in enumerate(zip(sizes, times, strict=True))
    ]
    write(tmp_path, jobs, phases(waits("n")))
    scenario = {
        "workload": {"path": "jobs.json", "mapping": "node"},
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}]},
        "batch": {"policy": "FCFS", "backfill": "none"},
    }
    (tmp_path / "s.yaml").write_text(json.dumps(scenario))
    found = mlsim.run(tmp_path / "s.yaml").jobs.sort("job_id")
    assert found["start_time"].to_list() == [0, 10, 10, 14]
    assert found["state"].cast(pl.String).to_list() == ["completed"] * 4


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.sampled_from(["a", "n^n", "busy_wait", "-1", "*"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "tasks"]), inner, max_size=2)
    ),
    max_leaves=5,
)
TASK_KEYS = ("type", "delay", "pattern", "iterations", "flops", "bytes", "tasks", "computation_pattern")
JOB_KEYS = ("submit_time", "num_nodes", "walltime", "arguments", "attributes", "num_gpus_per_node")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.sampled_from(JOB_KEYS), VALUES) | VALUES, max_size=3),
    st.lists(st.dictionaries(st.sampled_from(TASK_KEYS), VALUES) | VALUES, max_size=3),
    st.booleans(),
)
def test_any_content_is_read_or_refused(tmp_path: Path, jobs: list, tasks: list, lenient: bool) -> None:
    jobs = [job() | one if isinstance(one, dict) else one for one in jobs]
    tasks = [waits(1) | one if isinstance(one, dict) else one for one in tasks]
    path = write(tmp_path, jobs, {"phases": [{"tasks": tasks}]})
    with suppress(InputError):
        log = read(path, lenient=lenient)
        assert len(log.jobs) + log.broken_lines == len(jobs)
