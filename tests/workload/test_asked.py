"""What jobs ask for beside processors: columns of CSV, memory of SWF, defaults of the scenario."""

from __future__ import annotations

import numpy as np
import pytest

import mlsim
from mlsim.batch.room.unit_requests import Requests
from mlsim.errors import InputError
from mlsim.platform import build_machine
from mlsim.scenario import PlatformConfig, WorkloadConfig, from_mapping
from mlsim.scenario.words import Mapping
from mlsim.workload import JobBlock, open_workload
from mlsim.workload.log_fields import Field
from mlsim.workload.swf_log import write_swf

PLATFORM = {
    "nodes": [
        {"name": "gpu", "count": 2, "cores": 8, "memory": "16 GB", "resources": {"gpu": 2}},
        {"name": "mic", "count": 2, "cores": 8, "memory": "8.5 GiB", "resources": {"mic": 1}},
    ]
}
MACHINE = build_machine(PlatformConfig.model_validate(PLATFORM))
HEAD = "job_id,submit_time,run_time,walltime,processors"


def asked(path, mapping="core", **request):
    config = WorkloadConfig.model_validate({"path": path.name, "mapping": mapping, "request": request})
    workload = open_workload(config, path, 32, MACHINE.resources[1:])
    jobs = JobBlock.concatenate(list(workload.blocks()))
    per_job = "request_columns" in workload.header
    requests = Requests.on(MACHINE, Mapping(mapping), config.request, per_job)
    units = requests.units_of(jobs)
    return units.tolist(), requests.per_unit(jobs, units).tolist()


def csv(tmp_path, head, *lines):
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([f"{HEAD},{head}", *lines]) + "\n")
    return path


def test_the_machine_counts_whole_megabytes():
    assert MACHINE.resources == ("cores", "memory", "gpu", "mic")
    assert MACHINE.capacity.tolist() == [[8, 16000, 2, 0]] * 2 + [[8, 9126, 0, 1]] * 2


def test_totals_of_a_csv_are_shared_by_the_units(tmp_path):
    path = csv(
        tmp_path,
        "units,request_memory,request_gpu",
        "1,0,5,9,8,4,2000,4",
        "2,1,5,9,8,2,,",
        "3,2,5,9,3,,600,-1",
    )
    units, request = asked(path, default_memory="50 MB", resources={"mic": 1})
    assert units == [4, 2, 3]
    assert request == [[2, 500, 1, 1], [4, 50, 0, 1], [1, 200, 0, 1]]


@pytest.mark.parametrize(
    ("head", "line", "told"),
    [
        ("units", "1,0,5,9,8,3", "processors is '8'; expected a multiple of the job's units"),
        ("units,request_memory", "1,0,5,9,8,4,1001", "request_memory is '1001'; expected a multiple"),
        ("units", "1,0,5,9,8,0", "units is '0'; expected a whole number"),
        ("request_gpu", "1,0,5,9,8,1.5", "request_gpu is '1.5'; expected a whole number"),
        ("request_gpu", "1,0,5,9,8,-2", "request_gpu is '-2'; expected a whole number"),
        ("request_cores", "1,0,5,9,8,8", "column request_cores: write the cores of a job as its processors"),
    ],
)
def test_requests_that_make_no_sense_are_told(tmp_path, head, line, told):
    path = csv(tmp_path, head, line)
    with pytest.raises(InputError, match=told) as caught:
        asked(path)
    assert str(path) in str(caught.value)


def test_lenient_skips_them(tmp_path):
    path = csv(tmp_path, "units", "1,0,5,9,8,3", "2,0,5,9,8,4")
    config = WorkloadConfig.model_validate({"path": path.name, "lenient": True})
    workload = open_workload(config, path, 32, ())
    assert JobBlock.concatenate(list(workload.blocks())).job_id.tolist() == [2]
    assert workload.notes == {"broken_lines": 1}


def swf(tmp_path, processors, requested, used):
    path = tmp_path / "log.swf"
    n = len(processors)
    fixed = {Field.RUN_TIME: [5.0] * n, Field.REQUESTED_TIME: [9.0] * n, Field.STATUS: [1] * n}
    columns = {
        Field.JOB_ID: list(range(1, n + 1)),
        Field.SUBMIT_TIME: [0.0] * n,
        Field.REQUESTED_PROCESSORS: processors,
        Field.REQUESTED_MEMORY: requested,
        Field.USED_MEMORY: used,
    }
    write_swf(path, {}, {name: np.array(values) for name, values in (columns | fixed).items()})
    return path


@pytest.mark.parametrize(
    ("source", "mapping", "units", "memory"),
    [
        ("requested", "core", [4, 10, 1], [419, 1073, 100]),  # 409600 KB and 2^20 KB of 1024 B
        ("used", "core", [4, 10, 1], [209, 100, 100]),
        ("none", "core", [4, 10, 1], [100, 100, 100]),
        ("requested", "packed", [1, 2, 1], [4 * 419, 5 * 1073, 100]),
    ],
)
def test_memory_of_an_swf_is_per_processor(tmp_path, source, mapping, units, memory):
    path = swf(tmp_path, [4, 10, 1], [409600, 2**20, -1], [204800, -1, 0])
    found = asked(path, mapping, memory=source, default_memory="100 MB")
    assert found[0] == units
    assert [request[1] for request in found[1]] == memory


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"workload": {"request": {"resources": {"fpga": 1}}}}, "fpga is no resource of the platform"),
        ({"platform": {"nodes": [{"memory": None}]}}, "no node group says how much memory"),
        ({"workload": {"mapping": "packed", "request": {"cores": 2}}}, "packed gives whole nodes"),
        ({"platform": {"nodes": [{"resources": {"cores": 2}}]}}, "cores has a key of its own"),
        ({"platform": {"nodes": [{"resources": {"GPU": 2}}]}}, "'GPU' is no name of a resource"),
        ({"platform": {"nodes": [{"resources": {"gpu": -1}}]}}, "gpu: -1 is too small"),
        ({"platform": {"nodes": [{"memory": "10 kB"}]}}, "less than 1 MB"),
        ({"batch": {"contiguity": "strict"}}, "read by allocator contiguous only"),
        ({"batch": {"dispatcher": "prb", "policy": "SAF"}}, "read by dispatcher queue only"),
        ({"batch": {"dispatcher": "reject", "allocator": "random"}}, "read by dispatcher queue only"),
        ({"batch": {"policy": "shortest"}}, "an entry point of mlsim.policies"),
        ({"batch": {"engine": "replay"}}, "needs platform.nodes: no memory and no other resources"),
    ],
)
def test_scenarios_that_make_no_sense_are_told(changes, told):
    node = {"name": "n", "count": 1, "cores": 8, "memory": "16 GB", "resources": {"gpu": 1}}
    workload = {"path": "log.swf", "mapping": "core", "request": {"memory": "requested"}}
    nodes = changes.get("platform", {}).get("nodes", [{}])
    scenario = {
        "platform": {"nodes": [node | each for each in nodes]},
        "workload": workload | changes.get("workload", {}),
        "batch": changes.get("batch", {}),
    }
    with pytest.raises(InputError, match=told):
        from_mapping(scenario)


def test_replay_refuses_jobs_that_say_what_they_ask_for(tmp_path):
    csv(tmp_path, "units", "1,0,5,9,8,4")
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 8}]},
        "workload": {"path": "jobs.csv", "mapping": "core"},
    }
    auto = mlsim.run(from_mapping(scenario, directory=tmp_path))
    assert auto.jobs["cores"].to_list() == [8]
    with pytest.raises(InputError, match="engine: replay knows one resource"):
        mlsim.run(from_mapping(scenario | {"batch": {"engine": "replay"}}, directory=tmp_path))
