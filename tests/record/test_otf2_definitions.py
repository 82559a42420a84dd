from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import otf2
import pytest

from mlsim.record import Nodes, Records
from mlsim.record.otf2 import Level, TraceOptions, write_otf2
from mlsim.record.record_tables import Names
from tests.record.builders import random_records
from tests.record.traces import read_trace


@pytest.fixture
def records() -> Records:
    return random_records(5)


def definitions(directory: Path, records: Records, level: Level) -> otf2.registry.DefinitionRegistry:
    names = {"scenario_name": "demo", "technique": "FAC2", "workload_name": "demo.swf"}
    write_otf2(directory, records, TraceOptions(level, exclusive_nodes=False, **names))
    with otf2.reader.open(str(directory / "traces.otf2")) as trace:
        return trace.definitions


def test_the_clock_counts_nanoseconds_from_the_start(tmp_path: Path, records: Records) -> None:
    clock = definitions(tmp_path, records, "jobs").clock_properties
    assert (clock.timer_resolution, clock.global_offset) == (10**9, 0)
    assert clock.trace_length == round(np.nanmax(records.jobs.end_time) * 1e9)
    assert clock.realtime_timestamp == otf2.Undefined.TIMESTAMP.value


def test_cores_are_under_nodes_under_groups_under_the_cluster(tmp_path: Path, records: Records) -> None:
    registry = definitions(tmp_path, records, "jobs")
    rows = []
    for location in registry.locations:
        group = location.group
        assert group.location_group_type == otf2.LocationGroupType.PROCESS
        metric = location.name == "metrics"
        assert location.type == (otf2.LocationType.METRIC if metric else otf2.LocationType.CPU_THREAD)
        path, tree = [group.name, location.name], group.system_tree_parent
        while tree is not None:
            path.insert(0, f"{tree.class_name} {tree.name}")
            tree = tree.parent
        rows.append(path)
    expected = [["machine cluster", "batch system", name] for name in ("dispatcher", "metrics")]
    nodes = records.nodes
    for name, group, cores in zip(nodes.name, nodes.group, nodes.cores, strict=True):
        tree = ["machine cluster", f"group {group}", f"node {name}"]
        expected += [[*tree, name, f"core {core}"] for core in range(cores)]
    assert rows == expected


def test_every_job_that_started_is_a_region(tmp_path: Path, records: Records) -> None:
    registry = definitions(tmp_path, records, "chunks")
    regions = {region.canonical_name: region for region in registry.regions}
    jobs = records.jobs
    started = np.flatnonzero(np.isfinite(jobs.start_time))
    assert set(regions) == {"chunk", "idle", *(str(jobs.job_id[row]) for row in started)}
    for row in started:
        region = regions[str(jobs.job_id[row])]
        executable = f" executable {jobs.executable[row]}" if jobs.executable[row] >= 0 else ""
        assert region.name == f"J{jobs.job_id[row]}{executable}"
        assert region.source_file == "demo.swf"
        assert f"{jobs.processors[row]} processors" in region.description
        assert ("backfilled" in region.description) == jobs.backfilled[row]
    assert {region.paradigm for region in registry.regions} == {otf2.Paradigm.USER}
    assert {regions["chunk"].region_role, regions["idle"].region_role} == {
        otf2.RegionRole.LOOP,
        otf2.RegionRole.ARTIFICIAL,
    }


@pytest.mark.parametrize(
    ("level", "groups"), [("jobs", []), ("nodes", ["idle"]), ("chunks", ["chunks of FAC2", "idle"])]
)
def test_what_is_nested_in_jobs_has_groups_of_its_own(
    tmp_path: Path, records: Records, level: Level, groups: list[str]
) -> None:
    registry = definitions(tmp_path, records, level)
    found = [group for group in registry.groups if group.group_type == otf2.GroupType.REGIONS]
    nested = [group for group in found if not group.name.startswith(("jobs under", "user"))]
    assert [group.name for group in nested] == groups


@pytest.mark.parametrize("level", ["jobs", "chunks"])
def test_jobs_are_in_groups_by_technique_and_user(tmp_path: Path, records: Records, level: Level) -> None:
    jobs = records.jobs
    users = np.where(jobs.job_id % 3 == 0, -1, jobs.job_id % 3)
    named = replace(records, jobs=replace(jobs, user=users), names=Names({"user": {1: "ada"}}))
    registry = definitions(tmp_path, named, level)
    found = {
        group.name: sorted(int(region.canonical_name) for region in group.members)
        for group in registry.groups
        if group.name.startswith(("jobs under", "user"))
    }
    started = np.isfinite(jobs.start_time)
    of_users = {
        name: sorted(jobs.job_id[started & (users == user)])
        for user, name in ((1, "user ada"), (2, "user 2"))
    }
    looping = {"jobs under FAC2": sorted(jobs.job_id[np.unique(records.loops.job)])}
    assert found == looping | of_users
    assert all(found.values())


def test_the_communicator_joins_the_dispatcher_and_the_nodes(tmp_path: Path, records: Records) -> None:
    registry = definitions(tmp_path, records, "nodes")
    (comm,) = registry.comms
    members = [(member.group.name, member.name) for member in comm.group.members]
    assert members == [("batch system", "dispatcher"), *((name, "core 0") for name in records.nodes.name)]


def test_metrics_hold_until_the_next_on_their_own_location(tmp_path: Path, records: Records) -> None:
    registry = definitions(tmp_path, records, "jobs")
    (metric,) = registry.metrics
    assert [member.name for member in metric.members] == [
        "queue length",
        "running jobs",
        "busy nodes",
        "allocated cores",
    ]
    assert {member.metric_mode for member in metric.members} == {otf2.MetricMode.ABSOLUTE_LAST}
    recorders = [
        (recorder.metric_class, recorder.recorder.name) for recorder in registry.metric_class_recorders
    ]
    assert recorders == [(metric, "metrics")]


def test_names_may_be_any_text(tmp_path: Path, records: Records) -> None:
    nodes = records.nodes
    strange = Nodes(
        [f"knöten \udcff {n}" for n in nodes.name], ["Ω"] * len(nodes.name), nodes.cores, nodes.speed
    )
    names = {"scenario_name": "größe \udcff", "technique": "", "workload_name": ""}
    write_otf2(
        tmp_path, replace(records, nodes=strange), TraceOptions("chunks", exclusive_nodes=False, **names)
    )
    groups = [group.name for group in read_trace(tmp_path).definitions.location_groups]
    assert groups[1] == f"knöten ? {nodes.name[0]}"


def test_groups_of_very_many_jobs_are_written_in_parts(
    tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    def members(directory: Path) -> dict[str, list[str]]:
        groups = definitions(directory, records, "jobs").groups
        kind = otf2.GroupType.REGIONS
        return {
            group.name: [region.canonical_name for region in group.members]
            for group in groups
            if group.group_type == kind
        }

    whole = members(tmp_path / "whole")
    monkeypatch.setattr("mlsim.record.otf2.trace_definitions._LARGEST_GROUP", 2)
    parts = members(tmp_path / "parts")
    joined: dict[str, list[str]] = {}
    for name, own in parts.items():
        assert len(own) <= 2
        joined.setdefault(name.split(", part ")[0], []).extend(own)
    assert joined == whole
    assert len(parts) > len(whole)
