"""Runs and workload directories as workloads: what was submitted is read back, and simulated alike."""

import hashlib
import json
import shutil

import jsonschema
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.errors import InputError
from mlsim.experiment import run_loop
from mlsim.experiment.manifest import write_manifest
from mlsim.experiment.recorded_loop import maker_of, recorded_loop
from mlsim.record.table_files import JOB_COLUMNS
from mlsim.scenario import WorkloadConfig, from_mapping
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.derived_logs import convert
from mlsim.workload.format_record import Reading
from mlsim.workload.log_fields import CODED
from mlsim.workload.log_formats import LogReader, format_of
from mlsim.workload.run_log import RESULTS
from mlsim.workload.workload_columns import APPLICATION_COLUMNS, WORKLOAD_COLUMNS, workload_schema

HEAD = ["job_id", "submit_time", "run_time", "walltime", "processors", "user"]
ROWS = [
    (1, 0, 100, 200, 8, "ann"),
    (2, 5, 300, 120, 4, "bob"),  # is killed
    (3, 7, 50, 60, 16, "ann"),
    (4, 9, 80, 90, 2, "cem"),
    (5, 400, 40, 90, 64, "bob"),  # larger than the machine: rejected
    (6, 401, 40, 90, 3, ""),
]


def write_csv(path, rows=ROWS, **columns):
    lines = [",".join([*HEAD, *columns])]
    for number, row in enumerate(rows):
        lines.append(",".join(map(str, [*row, *(values[number] for values in columns.values())])))
    path.write_text("\n".join(lines) + "\n")
    return path


def scenario(tmp_path, path, **more):
    values = {
        "platform": {"nodes": [{"name": "n", "count": 8, "cores": 2}]},
        "workload": {"path": str(path), "mapping": "core"},
        "batch": {"policy": "SJF", "backfill": "easy", "on_overrun": "kill"},
        "application": {"model": "rigid"},
        "seed": 3,
    }
    for key, value in more.items():
        values[key] = values[key] | value if key in ("workload", "batch") else value
    if "applications" in more:
        del values["application"]
    return from_mapping(values, directory=tmp_path)


def simulate(tmp_path, path, name, **more):
    mlsim.run(scenario(tmp_path, path, **more), out=tmp_path / name)
    return tmp_path / name


def check_round_trip(tmp_path, log, **more):
    """Simulate a log, the run as a workload, and the run of that: all tables of jobs are the same."""
    first = simulate(tmp_path, log, "first", **more)
    second = simulate(tmp_path, first, "second", **more)
    third = simulate(tmp_path, second, "third", **more)
    tables = [pl.read_parquet(run / "jobs.parquet") for run in (first, second, third)]
    for table in tables[1:]:
        assert set(table.columns) - set(tables[0].columns) <= {"units"}
        for name in tables[0].columns:
            assert table[name].to_list() == tables[0][name].to_list(), name
    for other in ("occupancy", "loops", "chunks"):
        if (first / f"{other}.parquet").exists():
            for run in (second, third):
                assert (run / f"{other}.parquet").read_bytes() == (first / f"{other}.parquet").read_bytes()
    return tables[0]


def test_every_column_of_a_run_is_a_result_or_one_of_its_workload():
    of_workload = {column.name for column in WORKLOAD_COLUMNS} - {"run_time", "withdraw_time"}
    names = {f"{column}_name" for column in CODED}
    assert set(JOB_COLUMNS) - RESULTS == (of_workload | names) & set(JOB_COLUMNS)
    assert RESULTS - set(JOB_COLUMNS) == {"log_withdraw_time"}
    assert not RESULTS & (of_workload | names)


def test_rigid_jobs_killed_and_rejected_ones_too(tmp_path):
    jobs = check_round_trip(tmp_path, write_csv(tmp_path / "log.csv"))
    assert jobs["state"].to_list() == ["completed", "killed", *["completed"] * 2, "rejected", "completed"]
    assert jobs["user_name"].to_list() == ["ann", "bob", "ann", "cem", "bob", None]
    assert jobs["log_run_time"].to_list() == [100, 300, 50, 80, 40, 40]


def test_a_file_of_jobs_alone_has_the_simulated_run_times_as_before(tmp_path):
    run = simulate(tmp_path, write_csv(tmp_path / "log.csv"), "run")
    of_file = LogReader(run / "jobs.parquet", "auto", Reading())
    of_run = LogReader(run, "auto", Reading())
    assert next(of_file.blocks()).run_time.tolist() == [100, 120, 50, 80, -1, 40]
    assert next(of_run.blocks()).run_time.tolist() == [100, 300, 50, 80, 40, 40]


def test_dependencies_withdrawals_nodes_and_requests(tmp_path):
    rows = [row if row[0] != 4 else (4, 9, 0, 90, 2, "cem") for row in ROWS]
    log = write_csv(
        tmp_path / "log.csv",
        rows,
        dependencies=["", "", "afterok:1+30s;afterany:2", "afterany:3", "", "afterok:2"],
        withdraw_time=["", "", "", 20, "", ""],
        units=[4, 2, 8, 1, 8, 1],
        request_memory=[8000, 2000, "", 1000, 8000, 500],
    )
    nodes = [{"name": "n", "count": 8, "cores": 2, "memory": "16 GB"}]
    config = {"dependencies": True, "never_ran": "withdraw", "cleaning": {"zero_run_time": "clamp"}}
    jobs = check_round_trip(tmp_path, log, workload=config, platform={"nodes": nodes})
    assert jobs["dependencies"].to_list() == [
        None, None, "afterok:1+30s,afterany:2", "afterany:3", None, "afterok:2",
    ]  # fmt: skip
    assert jobs["log_withdraw_time"].to_list() == [None, None, None, 20, None, None]
    assert jobs["state"][3] == "withdrawn"
    assert jobs["units"].to_list() == [4, 2, 8, 1, 8, 1]


def test_swf_with_preceding_jobs_dates_and_names_of_jobs(tmp_path):
    log = tmp_path / "log.swf"
    lines = ["; UnixStartTime: 1000000000", "; TimeZoneString: Europe/Berlin"]
    for job, before, think in ((1, -1, -1), (2, 1, 30), (3, -1, -1)):
        lines.append(f"{job} {job} -1 60 4 -1 -1 4 90 -1 1 {job} 1 -1 1 1 {before} {think}")
    log.write_text("\n".join(lines) + "\n")
    jobs = check_round_trip(tmp_path, log, workload={"dependencies": True})
    assert jobs["dependencies"].to_list() == [None, "afterany:1+30s", None]
    found = [
        json.loads((tmp_path / run / "summary.json").read_text())["workload"] for run in ("first", "third")
    ]
    assert found[0]["start"] == found[1]["start"] == "2001-09-09T03:46:41+02:00"
    assert found[0]["time_zone"] == found[1]["time_zone"] == "Europe/Berlin"

    named = write_csv(tmp_path / "named.csv", [(f"j{row[0]}", *row[1:]) for row in ROWS])
    for run in ("first", "second", "third"):
        shutil.rmtree(tmp_path / run)
    jobs = check_round_trip(tmp_path, named)
    assert jobs["job_id_name"].to_list() == ["j1", "j2", "j3", "j4", "j5", "j6"]


LOOPS = {
    "cfd": {
        "model": "loop",
        "steps": 2,
        "iterations": {"per_pe": 6},
        "costs": {"profile": "job", "variation": 0.3},
        "technique": "FAC2",
        "execution": {"model": "dca"},
    },
    "rigid": {"model": "rigid"},
}
OWN = {
    "application": ["cfd", "", "cfd", "", "cfd", "cfd"],
    "technique": ["", "", "GSS", "", "", "SS"],
    "model": ["", "", "", "", "", "cca"],
    "steps": [3, "", "", "", "", ""],
    "iterations": ["", "", 40, "", "", ""],
    "variation": ["", "", "", "", "", 0.7],
}
SEVERAL = {"applications": LOOPS, "assign": [{"default": "rigid"}], "output": {"trace": "chunks"}}


def test_loops_of_several_applications_by_columns_that_a_run_keeps(tmp_path):
    jobs = check_round_trip(tmp_path, write_csv(tmp_path / "log.csv", **OWN), **SEVERAL)
    assert jobs["application"].to_list() == ["cfd", "rigid", "cfd", "rigid", "cfd", "cfd"]
    assert jobs["technique"].to_list() == ["FAC2", None, "GSS", None, "FAC2", "SS"]
    assert jobs["steps"].to_list() == [3, *[None] * 5]
    assert jobs["iterations"].to_list() == [None, None, 40, None, None, None]
    assert jobs["model"].to_list() == [*[None] * 5, "cca"]


def test_a_technique_that_the_scenario_chose_stays_the_scenarios(tmp_path):
    log = write_csv(tmp_path / "log.csv", application=OWN["application"])
    run = simulate(tmp_path, log, "run", **SEVERAL)
    other = SEVERAL | {"applications": LOOPS | {"cfd": LOOPS["cfd"] | {"technique": "STATIC"}}}
    jobs = pl.read_parquet(simulate(tmp_path, run, "other", **other) / "jobs.parquet")
    assert jobs["technique"].to_list() == ["STATIC", None, "STATIC", None, "STATIC", "STATIC"]


def test_runs_with_costs_beside_the_jobs_have_the_same_bytes_anywhere(tmp_path):
    runs = []
    for name in ("here", "elsewhere"):
        place = tmp_path / name
        (place / "measured" / "costs").mkdir(parents=True)
        np.save(place / "measured" / "costs" / "a.npy", np.linspace(0.5, 1.5, 64))
        columns = dict(zip(HEAD[:5], map(list, zip(*[row[:5] for row in ROWS], strict=True)), strict=True))
        columns |= {"application": OWN["application"], "costs": ["costs/a.npy", *[None] * 5]}
        pl.DataFrame(columns).write_parquet(place / "measured" / "jobs.parquet")
        runs.append(simulate(place, place / "measured", "run", **SEVERAL))
        again = simulate(place, runs[-1], "again", **SEVERAL)
        assert (again / "loops.parquet").read_bytes() == (runs[-1] / "loops.parquet").read_bytes()
    jobs = [(run / "jobs.parquet").read_bytes() for run in runs]
    assert jobs[0] == jobs[1]
    assert pl.read_parquet(runs[0] / "jobs.parquet")["costs"].drop_nulls().to_list() == [
        "../measured/costs/a.npy"
    ]


def test_costs_beside_the_jobs_are_checked_by_their_digest(tmp_path):
    directory = tmp_path / "measured"
    (directory / "costs").mkdir(parents=True)
    np.save(tmp_path / "costs.npy", np.linspace(0.5, 1.5, 64))
    digest = hashlib.sha256((tmp_path / "costs.npy").read_bytes()).hexdigest()
    file = (tmp_path / "costs.npy").rename(directory / "costs" / f"{digest}.npy")
    columns = dict(zip(HEAD[:5], map(list, zip(*[row[:5] for row in ROWS], strict=True)), strict=True))
    columns |= {"application": OWN["application"], "costs": [f"costs/{digest}.npy", *[None] * 5]}
    pl.DataFrame(columns).write_parquet(directory / "jobs.parquet")
    check_round_trip(tmp_path, directory, **SEVERAL)
    loops = pl.read_parquet(tmp_path / "first" / "loops.parquet")
    assert loops.filter(pl.col("job_id") == 1)["iterations"][0] == 2 * 64
    moved = tmp_path / "moved"
    moved.mkdir()
    done = convert(
        WorkloadConfig(path="first"), tmp_path / "first", moved, WorkloadFormat.RUN, as_simulated=False
    )
    assert (done.read, done.written, done.left_out) == ("run", "run", [])
    assert (moved / "costs" / file.name).read_bytes() == file.read_bytes()
    assert pl.read_parquet(moved / "jobs.parquet")["costs"].to_list() == [f"costs/{file.name}", *[None] * 5]
    tables = [simulate(tmp_path, place, f"of-{place.name}", **SEVERAL) for place in (directory, moved)]
    for name in ("loops", "chunks", "occupancy"):
        assert (tables[0] / f"{name}.parquet").read_bytes() == (tables[1] / f"{name}.parquet").read_bytes()
    np.save(file, np.ones(64))
    with pytest.raises(InputError, match="its SHA-256 is not its name"):
        simulate(tmp_path, directory, "fourth", **SEVERAL)
    file.unlink()
    with pytest.raises(InputError, match="there is no file"):
        simulate(tmp_path, directory, "fourth", **SEVERAL)


def test_failures_and_requests_for_nodes_meet_loops(tmp_path):
    rows = [(*row[:2], 0, *row[3:]) if row[0] == 4 else row for row in ROWS]
    columns = {
        "application": OWN["application"],
        "dependencies": ["", "", "", "", "", "afterany:3"],
        "withdraw_time": ["", "", "", 12, "", ""],
    }
    nodes = [{"name": "n", "count": 8, "cores": 2}]
    jobs = check_round_trip(
        tmp_path,
        write_csv(tmp_path / "log.csv", rows, **columns),
        **SEVERAL,
        workload={"dependencies": True, "never_ran": "withdraw"},
        platform={
            "nodes": nodes,
            "failures": [{"node": node, "at": 30, "repair": "1 min"} for node in range(8)],
        },
        coordination={"rca": True},
    )
    assert jobs["restarts"].sum() > 0 or "failed" in jobs["state"].to_list()


COORDINATION = st.sampled_from(
    [{}, {"rca": True}, {"rca": True, "requests": "head-of-queue", "answer": "always", "reclaim": True}]
)
FOUR = {
    "rigid": {"model": "rigid"},
    "cfd": LOOPS["cfd"],
    "learns": {
        "model": "loop",
        "steps": 3,
        "iterations": {"per_pe": 5},
        "costs": {"variation": 0.5, "calibrate": "recorded"},
        "technique": "auto",
        "selection": {
            "method": "exhaustive",
            "learns_over": "application",
            "portfolio": ["STATIC", "SS", "GSS"],
        },
        "execution": {"model": "cca", "chunk_assignment": "20 ms"},
    },
    "two": {
        "model": "loop",
        "iterations": {"per_pe": 8},
        "costs": {"variation": 0.4},
        "technique": "FAC2+AF",
        "execution": {"model": "hdca", "chunk_calculation": "10 ms"},
    },
}
RULES = [
    {"where": {"user": "bob"}, "application": "two"},
    {"where": {"processors": ">= 4"}, "application": {"cfd": 0.5, "learns": 0.5}},
    {"default": "rigid"},
]


@st.composite
def submitted(draw):
    """Draw jobs with columns of applications, dependencies and withdrawals, and sections of a scenario."""
    n = draw(st.integers(1, 7))

    def column(values):
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    run, user = column([0, 1, 30, 90, 300]), ["bob", *column(["ann", "bob", ""])][:n]
    walltime, processors = column([20, 100, 400]), column([1, 2, 5, 8, 16, 40])
    submit = sorted(draw(st.lists(st.integers(0, 300), min_size=n, max_size=n)))
    rows = list(zip(range(1, n + 1), submit, run, walltime, processors, user, strict=True))
    application = column(["", "", *FOUR])

    def of_loops(values, names=("cfd", "learns", "two")):
        return [
            value if name in names else "" for name, value in zip(application, column(values), strict=True)
        ]

    columns = {
        "application": application,
        "technique": of_loops(["", "SS", "TSS"], ["cfd"]),
        "steps": of_loops(["", "", 1, 4]),
        "iterations": of_loops(["", "", 24]),
        "variation": of_loops(["", "", 0.0, 0.9]),
        "dependencies": [
            draw(st.sampled_from(["", "", f"afterok:{k}+10s", f"afterany:{k}"])) if k else ""
            for k in range(n)
        ],
        "withdraw_time": [at + 20 if seconds == 0 else "" for at, seconds in zip(submit, run, strict=True)],
    }
    groups = (("a", 1e9), ("b", 2e9))
    nodes = [{"name": name, "count": 4, "cores": 2, "speed": speed} for name, speed in groups]
    failures = [{"node": node, "at": 40 + node, "repair": "1 min"} for node in range(0, 8, 3)]
    return (
        rows,
        {name: values for name, values in columns.items() if any(value != "" for value in values)},
        {
            "platform": {"nodes": nodes, "failures": draw(st.sampled_from([[], failures]))},
            "batch": {
                "on_overrun": draw(st.sampled_from(["kill", "extend"])),
                "backfill": draw(st.sampled_from(["none", "easy", "conservative"])),
            },
            "coordination": draw(COORDINATION),
        },
    )


@pytest.mark.slow
@given(submitted())
@settings(max_examples=30, deadline=None)
def test_any_run_is_the_workload_of_the_same_run(tmp_path_factory, drawn):
    rows, columns, sections = drawn
    tmp_path = tmp_path_factory.mktemp("any")
    check_round_trip(
        tmp_path,
        write_csv(tmp_path / "log.csv", rows, **columns),
        workload={"dependencies": True, "never_ran": "withdraw", "mapping": "packed"},
        applications=FOUR,
        assign=RULES,
        output={"trace": "chunks"},
        **{name: section for name, section in sections.items() if section},
    )
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".swf"])
def test_conversion_of_a_run_keeps_what_the_format_can_hold(tmp_path, suffix):
    run = simulate(tmp_path, write_csv(tmp_path / "log.csv", **OWN), "run", **SEVERAL)
    assert format_of(run) == "run"
    to = {".csv": "csv", ".parquet": "parquet", ".swf": "swf"}[suffix]
    config = WorkloadConfig(path="run")
    out = tmp_path / f"jobs{suffix}"
    done = convert(config, run, out, WorkloadFormat(to), as_simulated=False)
    assert done.jobs == len(ROWS)
    kept = {"application", "technique", "model", "steps", "iterations", "variation"}
    if suffix == ".swf":
        assert kept <= set(done.left_out)
        return
    assert not kept & set(done.left_out)
    again = simulate(tmp_path, out, "again", **SEVERAL)
    tables = [pl.read_parquet(place / "jobs.parquet") for place in (run, again)]
    assert tables[0].sort("job_id").drop("user").equals(tables[1].sort("job_id").drop("user"))


def test_jobs_fit_the_schema_and_odd_ones_do_not(tmp_path):
    schema = workload_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    run = simulate(tmp_path, write_csv(tmp_path / "log.csv", **OWN), "run", **SEVERAL)
    out = tmp_path / "jobs.parquet"
    convert(WorkloadConfig(path="run"), run, out, WorkloadFormat.PARQUET, as_simulated=False)
    rows = pl.read_parquet(out).rename({"estimate": "walltime"}).to_dicts()
    for row in rows:
        check.validate(row)
    for wrong in (
        {"job_id": -1},
        {"steps": 0},
        {"processors": 1.5},
        {"request_gpu": "two"},
        {"run_time": None},
    ):
        assert not check.is_valid(rows[0] | wrong), wrong
    assert {column.name for column in WORKLOAD_COLUMNS} >= set(APPLICATION_COLUMNS)


def test_a_directory_that_is_no_workload_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"a directory without jobs\.parquet"):
        simulate(tmp_path, "empty", "run")
    with pytest.raises(InputError, match=r"has no jobs\.parquet"):
        LogReader(tmp_path / "empty", "auto", Reading()).blocks().__next__()
    log = write_csv(tmp_path / "log.csv")
    with pytest.raises(InputError, match=r"has no jobs\.parquet"):
        LogReader(log, WorkloadFormat.RUN, Reading()).blocks().__next__()


def test_the_recorded_loops_of_such_runs_have_their_steps_and_models(tmp_path):
    columns = OWN | {"variation": [0.2, "", "", "", 0.4, 0.7]}
    log = write_csv(tmp_path / "log.csv", **columns)
    run = simulate(tmp_path, log, "run", **SEVERAL, batch={"on_overrun": "extend"})
    loops = pl.read_parquet(run / "loops.parquet")
    for job, steps, model, technique in ((1, 3, "dca", "FAC2"), (3, 2, "dca", "GSS"), (6, 2, "cca", "SS")):
        found = recorded_loop(run, job)
        (row,) = loops.filter(pl.col("job_id") == job).to_dicts()
        assert (found.model, found.technique) == (model, technique)
        assert found.t_loop == row["t_loop"] / steps
        assert len(found.costs) == row["iterations"] // steps
        with maker_of(found) as (make, _):
            alone = run_loop(make({}))
        assert alone.facts["t_loop"] == pytest.approx(found.t_loop, rel=1e-6)
    table = pl.read_parquet(run / "jobs.parquet").drop("model")
    table.write_parquet(run / "jobs.parquet")
    write_manifest(run)
    with pytest.raises(InputError, match="an earlier mlsim left out the column model"):
        recorded_loop(run, 1)
