"""Loops calibrated to recorded run times give the schedule of rigid jobs again, every start to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsim
from mlsim._runtime import shared_cache
from mlsim.application import recorded_times
from mlsim.cosim import simulation
from mlsim.experiment import result as results
from mlsim.experiment.study import load_study, run_study
from mlsim.record import JobState, Records
from mlsim.scenario import from_mapping

LOGS = {
    "KTH": ("KTH-SP2-1996-2.1-cln.swf.gz", 100, 1, None),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 1, None),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", 120, 2, 3000),
}
CLEANING = {"zero_run_time": "drop", "unknown_run_time": "drop", "underestimate": "clamp"}
NODES = 16


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 250 jobs at a high load; some have the run time 0, or the same times as others."""
    place, draw = tmp_path_factory.mktemp("recorded"), np.random.default_rng(11)
    lines = ["job_id,submit_time,run_time,walltime,processors,dependencies,loop_iterations"]
    submit = 0
    for job in range(1, 251):
        submit += int(draw.integers(0, 90))
        run = 0 if job % 40 == 0 else int(draw.choice([60, 300, draw.integers(1, 2000)]))
        wall = int(run * draw.choice([0.8, 1.0, 2.0])) + 1
        after = f"afterany:{job - 3}" if job % 17 == 0 else ""
        lines.append(f"{job},{submit},{run},{wall},{draw.integers(1, 2 * NODES)},{after},{20 + job % 50}")
    (place / "jobs.csv").write_text("\n".join(lines) + "\n")
    return place


def records(place: Path, application: dict[str, Any] | None = None, **sections: Any) -> Records:
    """Simulate the log; ``application``: of calibrated loops, None for rigid jobs."""
    loop = {"model": "loop", "iterations": {"per_pe": 8}}
    content = {
        "platform": {"nodes": [{"name": "n", "count": NODES, "cores": 2}]} | sections.pop("platform", {}),
        "workload": {"path": "jobs.csv", "mapping": "core"} | sections.pop("workload", {}),
        "batch": {"backfill": "easy", "on_overrun": "kill"} | sections.pop("batch", {}),
        **({} if application is None else {"application": loop | application}),
        **sections,
    }
    return simulation.simulate(from_mapping(content, directory=place)).records


def costs(technique: str = "STATIC", model: str = "dca", **others: Any) -> dict[str, Any]:
    profile = {"profile": "job", "variation": 0.5} if "profile" not in others else {}
    to = {"technique": technique, "model": model}
    return {**profile, "calibrate": "recorded", "calibrate_to": to, **others}


def same_schedule(loops: Records, rigid: Records) -> bool:
    pairs = (
        (getattr(loops.jobs, name), getattr(rigid.jobs, name)) for name in ("start_time", "end_time", "state")
    )
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


@pytest.mark.parametrize(
    ("technique", "model", "execution"),
    [
        ("STATIC", "dca", {}),
        ("STATIC", "cca", {}),
        ("GSS", "dca", {"chunk_calculation": "1 us", "atomic_service": "100 ns"}),
        ("FAC2", "cca", {"chunk_assignment": "1 us"}),
        ("AF", "dca", {}),
        ("FAC2+SS", "hdca", {"atomic_service": "1 us"}),
    ],
)
@pytest.mark.parametrize(
    "batch",
    [
        {},
        {"engine": "simpy"},
        {"backfill": "none", "policy": "SPF"},
        {"backfill": "conservative", "on_overrun": "extend"},
        {"policy": "SAF", "backfill_order": "SAF", "ties": "per-event"},
    ],
)
def test_the_assumed_loops_give_the_rigid_schedule(
    technique: str, model: str, execution: dict[str, str], batch: dict[str, Any], place: Path
) -> None:
    application = {
        "technique": technique,
        "costs": costs(technique, model),
        "execution": {"model": model, **execution},
    }
    workload = {"cleaning": {"zero_run_time": "drop"}}  # such a loop takes as long as its scheduling
    loops = records(place, application, batch=batch, workload=workload)
    assert same_schedule(loops, records(place, batch=batch, workload=workload))


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": {"mapping": "packed", "cleaning": {"oversize": "clamp"}}},
        {"workload": {"mapping": "node", "cleaning": {"oversize": "clamp"}}},
        {"workload": {"dependencies": True}},
        {"application": {"pes_per_node": 1}},
        {"application": {"time_steps": 4}},
        {"application": {"technique": "AWF", "time_steps": 3, "costs": costs("AWF")}},
        {"application": {"iterations": {"per_pe": 3}, "min_chunk": 5}},
        {"application": {"costs": costs(profile="exponential", mean="1 ms")}},
        {
            "platform": {"failures": [{"node": 3, "at": "1 h", "repair": "1 h"}]},
            "batch": {"on_failure": "restart"},
        },
        {
            "platform": {"failures": [{"node": k, "at": f"{k + 1} h", "repair": "600 s"} for k in range(9)]},
            "batch": {"on_failure": "restart", "max_restarts": 3},
        },
    ],
)
def test_it_comes_out_again_with_other_features(changes: dict[str, Any], place: Path) -> None:
    changes = dict(changes)
    application = {
        "technique": "STATIC",
        "costs": costs(),
        "execution": {"message_size": 0},
        **changes.pop("application", {}),
    }
    network = {"latency": "0 s", "intra_node_latency": "0 s"}  # jobs of the run time 0 take no time then
    platform = {"network": network} | changes.pop("platform", {})
    loops = records(place, application, platform=platform, **changes)
    assert same_schedule(loops, records(place, platform=platform, **changes))


def test_each_of_several_applications_has_its_own_recorded_loop(place: Path) -> None:
    workload = {"path": "jobs.csv", "mapping": "core", "cleaning": {"zero_run_time": "drop"}}
    base = {
        "platform": {"nodes": [{"name": "n", "count": NODES, "cores": 2}]},
        "workload": workload,
        "batch": {"backfill": "easy"},
    }
    loop = {"model": "loop", "iterations": {"per_pe": 8}}
    several = {
        "applications": {
            "still": {"model": "rigid"},
            "even": loop | {"technique": "FAC2", "costs": costs("FAC2")},
            "odd": loop | {"technique": "STATIC", "costs": costs("STATIC", variation=0.9)},
        },
        "assign": [{"default": {"still": 0.3, "even": 0.4, "odd": 0.3}}],
    }
    rigid, mixed = (mlsim.run(from_mapping(base | others, directory=place)) for others in ({}, several))
    assert same_schedule(mixed.records, rigid.records)
    found = mixed.summary["workload"]
    assert found["calibrate"] == "even: recorded; odd: recorded"
    assert found["calibrate_to"].startswith("even: FAC2 with dca, coordination off; odd: STATIC with dca")


def test_the_network_between_nodes_does_not_matter(place: Path) -> None:
    network = {"topology": "fat-tree", "latency": "1 ms", "ports": 4}
    workload = {"cleaning": {"zero_run_time": "drop"}}
    rigid = records(place, workload=workload)
    for technique in ("STATIC", "GSS"):
        application = {"technique": technique, "costs": costs(technique)}
        loops = records(place, application, platform={"network": network}, workload=workload)
        assert same_schedule(loops, rigid)


def test_rca_changes_waits_and_no_run_time(place: Path) -> None:
    application = {"technique": "STATIC", "costs": costs()}
    batch = {"on_overrun": "extend"}
    workload = {"cleaning": {"zero_run_time": "drop"}}
    off, on = (
        records(place, application, batch=batch, workload=workload, coordination={"rca": rca})
        for rca in (False, True)
    )
    assert same_schedule(off, records(place, batch=batch, workload=workload))
    run_times = on.jobs.end_time - on.jobs.start_time
    assert run_times == pytest.approx(off.jobs.end_time - off.jobs.start_time, rel=1e-9)
    assert (on.jobs.start_time - on.jobs.submit_time).mean() < (
        off.jobs.start_time - off.jobs.submit_time
    ).mean()
    assert on.occupancy.released.any()


def test_nodes_asked_for_are_released_and_come_back(place: Path) -> None:
    application = {"technique": "GSS", "costs": costs("GSS"), "execution": {"model": "dca"}}
    coordination = {"rca": True, "requests": "head-of-queue", "answer": "always", "reclaim": True}
    workload = {"mapping": "packed", "cleaning": {"zero_run_time": "drop"}}
    found = records(
        place,
        application,
        batch={"on_overrun": "extend"},
        workload=workload,
        coordination=coordination,
        output={"trace": "chunks"},
    )
    jobs = found.jobs
    assert (jobs.state == JobState.COMPLETED).all()
    left = np.unique(found.messages.job[found.messages.kind == mlsim.record.MessageKind.RELEASE_ACCEPTED])
    assert len(left) > 0
    took = jobs.end_time - jobs.start_time
    rigid = records(place, batch={"on_overrun": "extend"}, workload=workload)
    recorded = rigid.jobs.end_time - rigid.jobs.start_time
    alone = np.ones(len(took), np.bool_)
    alone[left] = False
    assert took[alone] == pytest.approx(recorded[alone], rel=1e-9)
    assert (took[left] > recorded[left] * 1.001).any()


def test_jobs_without_a_scale_are_counted_once(place: Path) -> None:
    execution = {"model": "dca", "chunk_calculation": "2 s"}
    scenario = from_mapping(
        {
            "platform": {"nodes": [{"name": "n", "count": NODES, "cores": 2}]},
            "workload": {"path": "jobs.csv", "mapping": "core", "cleaning": {"zero_run_time": "drop"}},
            "application": {"model": "loop", "technique": "SS", "costs": costs("SS"), "execution": execution},
        },
        directory=place,
    )
    summary = mlsim.run(scenario).summary
    jobs = summary["workload"]["simulated"]["shorter_than_scheduling"]
    assert 0 < jobs < 50
    assert summary["workload"]["calibrate"] == "recorded"
    assert summary["workload"]["calibrate_to"] == "SS with dca, coordination off"


def test_summaries_of_other_runs(place: Path) -> None:
    base = {
        "platform": {"nodes": [{"name": "n", "count": NODES, "cores": 2}]},
        "workload": {"path": "jobs.csv", "mapping": "core", "select": {"first": 5}},
    }
    assert "calibrate" not in mlsim.run(from_mapping(base, directory=place)).summary["workload"]
    loop = base | {"application": {"model": "loop"}}
    found = mlsim.run(from_mapping(loop, directory=place)).summary["workload"]
    assert found["calibrate"] == "none"
    assert "calibrate_to" not in found
    assert results.run_times_of(from_mapping(base, directory=place)) == {}


@pytest.mark.logs
@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(("technique", "model"), [("STATIC", "dca"), ("FAC2", "cca"), ("AF", "dca")])
def test_real_logs_come_out_again(
    log: str, technique: str, model: str, logs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSIM_TRACES", str(logs_dir))
    name, nodes, cores, first = LOGS[log]
    if not (logs_dir / name).is_file():
        pytest.skip(f"no log {name}")
    base = {
        "platform": {"nodes": [{"name": "n", "count": nodes, "cores": cores}]},
        "workload": {"path": name, "mapping": "core", "cleaning": CLEANING, "select": {"first": first}},
        "batch": {"policy": "FCFS", "backfill": "easy"},
    }
    application = {
        "model": "loop",
        "iterations": {"per_pe": 8},
        "technique": technique,
        "costs": costs(technique, model),
        "execution": {"model": model},
    }
    rigid, loops = (
        simulation.simulate(from_mapping(each)) for each in (base, base | {"application": application})
    )
    assert same_schedule(loops.records, rigid.records)
    assert len(loops.records.jobs.job_id) > 2500
    assert not {"no_exact_costs", "shorter_than_scheduling"} & loops.simulated.keys()


STUDY = """\
of: runs
name: s
base: base.yaml
vary:
  application.technique: [STATIC, SS]
  kind:
    default: {}
    given: {application.costs: {profile: job, variation: 0.3, calibrate: none}}
    own: {application.costs: {profile: exponential, mean: 10 s}}
    other: {application.costs.calibrate_to: {technique: SS}}
metrics: {makespan (s): makespan}
"""
BASE = """\
platform: {nodes: [{name: n, count: 16, cores: 2}]}
workload: {path: jobs.csv, mapping: core, select: {first: 40}, cleaning: {zero_run_time: drop}}
batch: {on_overrun: extend}
application: {model: loop, costs: {profile: job, variation: 0.3}}
"""


def test_studies_calibrate_loops_made_from_a_log(place: Path, tmp_path: Path) -> None:
    for name, text in (("study.yaml", STUDY), ("base.yaml", BASE)):
        (tmp_path / name).write_text(text)
    (tmp_path / "jobs.csv").write_bytes((place / "jobs.csv").read_bytes())
    study = load_study(tmp_path)
    calibrate = {
        tuple(point.labels.values()): results.run_times_of(scenario) for point, scenario in study.cases
    }
    recorded = {"calibrate": "recorded", "calibrate_to": "STATIC with dca, coordination off"}
    for technique in ("STATIC", "SS"):
        assert calibrate[technique, "default"] == recorded
        assert calibrate[technique, "given"] == {"calibrate": "none"}
        assert calibrate[technique, "own"] == {"calibrate": "none"}
        assert calibrate[technique, "other"] == recorded | {"calibrate_to": "SS with dca, coordination off"}
    run_study(study, out=tmp_path / "out")
    text = (tmp_path / "out" / "table.md").read_text()
    assert text.count("under STATIC with dca, coordination off, they take the run times of the log") == 1


def test_the_runs_of_a_study_share_what_was_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    search = recorded_times.factor_for
    monkeypatch.setattr(recorded_times, "factor_for", lambda *given: searched.append(given) or search(*given))
    # Jobs of whole nodes: the loops of a job have the same latencies wherever it is.
    cleaning = {"zero_run_time": "drop", "oversize": "clamp"}
    workload = {"mapping": "node", "cleaning": cleaning, "select": {"first": 30}}
    with shared_cache.sharing():
        first = records(place, {"technique": "GSS", "costs": costs("GSS")}, workload=workload)
        found = len(searched)
        assert found == len(first.jobs.job_id)
        again = records(place, {"technique": "SS", "costs": costs("GSS")}, workload=workload)
        assert len(searched) == found
        records(place, {"technique": "SS", "costs": costs("SS")}, workload=workload)
        assert len(searched) == 2 * found
    shared_cache.forget()
    assert not same_schedule(first, again)
    alone = records(place, {"technique": "SS", "costs": costs("GSS")}, workload=workload)
    assert same_schedule(alone, again)
