"""Several applications in one run: each job behaves as in a run in which all jobs have its application."""

from __future__ import annotations

import csv
import json
import math
import random
import re
from dataclasses import fields, is_dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.analysis.page.report_page import applications
from mlsim.application.application_simulator import AnswerPolicy, LoopApplication
from mlsim.cosim import assignment, coupling, scenario_inputs, simulation
from mlsim.errors import InputError
from mlsim.experiment.recorded_loop import recorded_loop
from mlsim.experiment.stored_runs import measure_run, read_run
from mlsim.platform import machine_of
from mlsim.record import JobState
from mlsim.scenario import dump, from_mapping, loads
from mlsim.scenario.scenario_keys import warnings_of

NODES, CORES = 6, 2

APPLICATIONS = {
    "rigid": {"model": "fixed"},
    "cfd": {
        "model": "loop",
        "steps": 3,
        "iterations": {"per_pe": 6},
        "costs": {"variation": 0.3},
        "technique": "FAC2+GSS",
        "execution": {"model": "hdca", "chunk_calculation": "1 ms", "atomic_service": "1 ms"},
    },
    "render": {
        "model": "loop",
        "costs": {"profile": "mandelbrot", "parameters": {"size": 8}, "calibrate": "run-time"},
        "technique": "AF",
        "execution": {"model": "dca"},
    },
    "particles": {
        "model": "loop",
        "steps": 4,
        "costs": {"profile": "file", "path": "costs-{user}.csv", "calibrate": "run-time"},
        "technique": "auto",
        "selection": {"method": "exhaustive", "portfolio": ["STATIC", "SS", "GSS"]},
        "execution": {"model": "cca", "chunk_assignment": "2 ms"},
    },
    "steps": {
        "model": "loop",
        "steps": 3,
        "iterations": {"count": 40},
        "costs": {"variation": 0.5},
        "technique": "AWF",
        "execution": {"model": "dca"},
    },
    "chosen": {
        "model": "loop",
        "steps": 2,
        "iterations": {"per_pe": 9},
        "costs": {"variation": 0.4},
        "technique": "auto",
        "selection": {"method": "simulation", "portfolio": ["STATIC", "GSS", "FAC2"]},
    },
    "random": {
        "model": "loop",
        "iterations": {"per_pe": 12},
        "costs": {"profile": "exponential", "mean": "1 s", "calibrate": "run-time"},
        "technique": "RND+GSS",
        "execution": {"model": "mpi+openmp"},
    },
}
NAMES = sorted(APPLICATIONS)


def write_jobs(directory, jobs, **columns):
    """Write jobs of (submit, run, processors, user) as CSV, with further columns."""
    with (directory / "jobs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["job_id", "submit_time", "run_time", "walltime", "processors", "user", "executable", *columns]
        )
        for k, (submit, run, processors, user) in enumerate(jobs):
            more = [values[k] for values in columns.values()]
            writer.writerow([k + 1, submit, run, run * 1.5, processors, user, f"app{user % 2}", *more])
    for user in range(4):
        costs = [2.0 + 0.5 * user * math.sin(k) for k in range(24)]
        (directory / f"costs-{user}.csv").write_text("cost\n" + "\n".join(map(repr, costs)) + "\n")
    for code in (0, 1):
        costs = [2.0 + code * (k % 3) for k in range(20)]
        (directory / f"costs-app{code}.csv").write_text("cost\n" + "\n".join(map(repr, costs)) + "\n")


def mapping_of(directory, applications=None, assign=None, **sections):
    """Return a scenario of small jobs as a mapping."""
    content = {
        "name": "mixed",
        "seed": 11,
        "platform": {
            "nodes": [
                {"name": "a", "count": NODES // 2, "cores": CORES, "speed": 1e9},
                {"name": "b", "count": NODES // 2, "cores": CORES, "speed": 2e9},
            ]
        },
        "workload": {"path": str(directory / "jobs.csv"), "mapping": "packed"},
        "batch": {"backfill": "easy", "on_overrun": "extend"},
        "output": {"trace": "chunks"},
    }
    if applications is not None:
        content["applications"] = applications
    if assign is not None:
        content["assign"] = assign
    for name, section in sections.items():
        content[name] = {**content.get(name, {}), **section} if isinstance(section, dict) else section
    return content


def simulated(content, directory):
    """Simulate a mapping."""
    return simulation.simulate(from_mapping(content, directory=directory))


def naive_uniform(seed, job_id):
    """Draw a number of a job, with Python's integers."""
    mask = (1 << 64) - 1
    golden, one, two = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    z = (job_id + seed * golden + one) * golden & mask
    z = (z ^ (z >> 30)) * one & mask
    z = (z ^ (z >> 27)) * two & mask
    return ((z ^ (z >> 31)) >> 11) / 2**53


def naive_application(job, rules, seed):
    """Return the application of a job of (id, submit, run, processors, user) by rules, one by one."""
    job_id, _submit, run, processors, user = job
    value = {"user": user, "processors": processors, "walltime": run * 1.5, "job_id": job_id}
    for rule in rules:
        holds = True
        for column, wanted in rule.get("where", {}).items():
            found = value[column]
            if isinstance(wanted, list):
                holds &= found in wanted
            elif isinstance(wanted, str):
                low = float(wanted.removeprefix(">= "))
                holds &= found >= low
            else:
                holds &= found == wanted
        if holds:
            shares = rule.get("application", rule.get("default"))
            if isinstance(shares, str):
                return shares
            drawn, total = naive_uniform(seed, job_id), 0.0
            for name, share in shares.items():
                total += share
                if drawn < total:
                    return name
            return name
    return None


def plain_of(value):
    """Return an answer or a forecast as plain values."""
    if is_dataclass(value):
        return type(value).__name__, [plain_of(getattr(value, column.name)) for column in fields(value)]
    if isinstance(value, list | tuple):
        return [plain_of(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def troubled(content, rca, trouble):
    """Return a scenario with RCA (off, on, asks for nodes) and with jobs that overrun or lose their nodes."""
    content = dict(content)
    if rca != "off":
        asks = {"requests": "head-of-queue", "answer": "tolerance", "tolerance": 0.5, "reclaim": True}
        content["coordination"] = {"rca": True} | (asks if rca == "asks" else {})
    if trouble == "kill":
        content["batch"] |= {"on_overrun": "kill"}
    elif trouble != "none":
        content["batch"] |= {"on_failure": trouble}
        failures = [{"nodes": "a", "mtbf": 120, "mttr": 20}]
        content["platform"] = content["platform"] | {"random_failures": failures}
    return content


class Spied(LoopApplication):
    """Notes every call of the batch level, with its answer."""

    made: ClassVar[list[Spied]] = []  # of one run

    def __init__(self, job, *rest, **more):
        super().__init__(job, *rest, **more)
        self.calls = []
        self.made.append(self)

    def start(self, at, nodes):
        found = super().start(at, nodes)
        self.calls.append(("start", (at, nodes), found))
        return found

    def apply_change(self, at, change):
        found = super().apply_change(at, change)
        self.calls.append(("apply_change", (at, change), found))
        return found

    def request_release(self, at, request):
        found = super().request_release(at, request)
        self.calls.append(("request_release", (at, request), found))
        return found


def check_replays(content, result, directory):
    """Replay each job's calls on the application alone, as the one of all jobs; everything must be equal."""
    jobs, names = result.records.jobs, result.records.names.of
    of_job = {
        int(job): names["application"][int(code)]
        for job, code in zip(jobs.job_id, jobs.application, strict=True)
    }
    users = dict(zip(jobs.job_id.tolist(), jobs.user.tolist(), strict=True))
    sections = content["applications"]
    for one in Spied.made:
        section = json.loads(json.dumps(sections[of_job[one.job.job_id]]))
        path = section["costs"].get("path")
        if path is not None:
            section["costs"]["path"] = path.replace("{user}", str(users[one.job.job_id]))
        alone = {key: value for key, value in content.items() if key not in ("applications", "assign")}
        if content.get("coordination", {}).get("rca"):
            alone["coordination"] = content["coordination"]
        scenario = from_mapping({**alone, "application": section}, directory=directory)
        machine = machine_of(scenario)
        rca = scenario.coordination
        latency = scenario_inputs.message_latency(scenario, machine) if rca.rca else 0.0
        twin = LoopApplication(
            one.job,
            scenario_inputs.application_of(scenario),
            scenario_inputs.cost_profiles(scenario, machine),
            machine,
            None,
            scenario.seed,
            AnswerPolicy(rca.answer, rca.tolerance, latency),
            reports_idle=rca.rca,
        )
        for method, arguments, found in one.calls:
            assert plain_of(getattr(twin, method)(*arguments)) == plain_of(found)
        for column in fields(one.outcome):
            mine, other = getattr(one.outcome, column.name), getattr(twin.outcome, column.name)
            if isinstance(mine, np.ndarray):
                np.testing.assert_array_equal(mine, other)
            elif column.name != "rows":
                assert mine == other


jobs_of_workload = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 80), st.integers(1, NODES * CORES), st.integers(0, 3)),
    min_size=1,
    max_size=14,
)
rules_of_jobs = st.tuples(
    st.lists(
        st.tuples(
            st.sampled_from(
                [{"user": 1}, {"user": [0, 2]}, {"processors": ">= 4"}, {"walltime": ">= 60", "user": 3}]
            ),
            st.one_of(
                st.sampled_from(NAMES),
                st.sampled_from(NAMES).flatmap(
                    lambda name: st.sampled_from([other for other in NAMES if other != name]).map(
                        lambda other: {name: 0.25, other: 0.75}
                    )
                ),
            ),
        ),
        max_size=3,
    ),
    st.sampled_from(NAMES),
).map(
    lambda drawn: [
        *({"where": where, "application": shares} for where, shares in drawn[0]),
        {"default": drawn[1]},
    ]
)


@settings(deadline=None, max_examples=60)
@given(
    jobs_of_workload,
    rules_of_jobs,
    st.sampled_from(["off", "on", "asks"]),
    st.sampled_from(["none", "kill", "die", "restart"]),
    st.booleans(),
)
def test_each_job_is_as_in_a_run_of_its_application(tmp_path_factory, jobs, rules, rca, trouble, slowed):
    directory = tmp_path_factory.mktemp("mixed")
    write_jobs(directory, jobs)
    content = mapping_of(directory, APPLICATIONS, rules)
    loops = {name for rule in rules for name in as_names(rule)} - {"rigid"}
    content = troubled(content, rca, trouble)
    if slowed and loops:
        content["platform"] = content["platform"] | {
            "perturbations": [{"nodes": "b", "from": 10, "to": 90, "factor": 0.5}]
        }
    Spied.made = []
    original = coupling.LoopApplication
    coupling.LoopApplication = Spied
    try:
        result = simulated(content, directory)
    finally:
        coupling.LoopApplication = original
    records = result.records
    columns = records.jobs
    names = records.names.of["application"]
    arrival = sorted(enumerate(jobs, 1), key=lambda job: (job[1][0], job[0]))
    expected = [naive_application((k, *job), rules, 11) for k, job in arrival]
    assert [names[int(code)] for code in columns.application] == expected
    techniques = records.names.of.get("technique", {})
    for row, name in enumerate(expected):
        code = int(columns.technique[row])
        assert techniques.get(code) == (None if name == "rigid" else APPLICATIONS[name]["technique"])
        if name == "rigid" and columns.state[row] == JobState.COMPLETED and trouble != "restart":
            took = columns.end_time[row] - columns.start_time[row]
            assert took == pytest.approx(columns.log_run_time[row], abs=1e-9)
    with_loops = {row for row, name in enumerate(expected) if name != "rigid"}
    assert set(records.loops.job.tolist()) <= with_loops
    check_replays(content, result, directory)


def as_names(rule):
    shares = rule.get("application", rule.get("default"))
    return [shares] if isinstance(shares, str) else list(shares)


def test_uniform_numbers_are_those_of_plain_integers():
    ids = np.array([0, 1, 2, 17, 312_807, 2**62], np.int64)
    for seed in (0, 1, 42, 2**70):
        expected = [naive_uniform(seed, int(job)) for job in ids]
        assert assignment.uniform_by_id(seed, ids).tolist() == expected
    many = assignment.uniform_by_id(3, np.arange(100_000))
    assert abs(float(many.mean()) - 0.5) < 0.005
    assert abs(float(np.mean(many < 0.3)) - 0.3) < 0.005


def tables_of(result):
    """Return the tables of a run as plain values, without application."""
    found = {}
    for name in ("jobs", "loops", "chunks", "pes", "messages", "occupancy", "attempts"):
        table = getattr(result.records, name)
        for column in fields(table):
            values = getattr(table, column.name)
            if values is not None and column.name not in ("application", "technique"):
                found[name, column.name] = np.asarray(values).tolist()
    return found


DRAWN = random.Random(4)  # no secret
JOBS = [
    (DRAWN.randint(0, 80), DRAWN.randint(5, 80), DRAWN.randint(1, NODES * CORES), DRAWN.randint(0, 3))
    for _ in range(25)
]


@pytest.mark.parametrize("rca", [False, True])
def test_both_engines_agree(tmp_path, rca):
    write_jobs(tmp_path, JOBS)
    shares = dict.fromkeys(NAMES, 1 / len(NAMES))
    found = []
    for engine in ("simpy", "replay"):
        more = {"coordination": {"rca": rca}, "batch": {"engine": engine}}
        result = simulated(mapping_of(tmp_path, APPLICATIONS, [{"default": shares}], **more), tmp_path)
        assert result.engine == engine
        found.append(tables_of(result))
    for key, values in found[0].items():
        np.testing.assert_array_equal(np.array(values), np.array(found[1][key]), err_msg=str(key))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rca", [False, True])
def test_one_of_several_is_the_same_as_one_alone(tmp_path, name, rca):
    if name == "rigid" and rca:
        pytest.skip("rigid jobs alone have no messages")
    write_jobs(tmp_path, JOBS)
    section = APPLICATIONS[name]
    if name == "particles":
        section = {**section, "costs": {**section["costs"], "path": "costs-2.csv"}}
    more = {"coordination": {"rca": rca}}
    alone = simulated(mapping_of(tmp_path, application=section, **more), tmp_path)
    several = simulated(
        mapping_of(tmp_path, {**APPLICATIONS, name: section}, [{"default": name}], **more), tmp_path
    )
    for key, values in tables_of(alone).items():
        np.testing.assert_array_equal(np.array(values), np.array(tables_of(several)[key]), err_msg=str(key))


def test_rigid_jobs_alone_keep_compiled_replay(tmp_path):
    write_jobs(tmp_path, JOBS)
    content = mapping_of(tmp_path, APPLICATIONS, [{"default": "rigid"}], output={"trace": "none"})
    assert simulated(content, tmp_path).engine == "replay"
    both = {"a": {"model": "rigid"}, "b": {"model": "rigid"}}
    content = mapping_of(tmp_path, both, [{"default": {"a": 0.5, "b": 0.5}}], output={"trace": "none"})
    found = simulated(content, tmp_path)
    assert found.engine == "replay"
    assert len(set(found.records.jobs.application.tolist())) == 2


def test_columns_of_the_workload_win_over_rules(tmp_path):
    jobs = [(k, 40, 4, k % 4) for k in range(8)]
    own = {
        "application": ["", "cfd", "render", "", "", "cfd", "", ""],
        "technique": ["", "", "GSS", "", "", "GSS+SS", "", ""],
        "model": ["", "", "", "rigid", "cca", "", "", "fixed"],
        "steps": ["", 5, "", "", 2, "", "", ""],
        "variation": ["", 0.1, "", "", "", "", 0.25, ""],
        "iterations": ["", 48, "", "", 30, "", "", ""],
        "costs": ["", "", "", "", "", "", "", ""],
    }
    write_jobs(tmp_path, jobs, **own)
    plain = {"model": "loop", "technique": "FAC2", "iterations": {"per_pe": 3}}
    applications = {"plain": plain, "cfd": APPLICATIONS["cfd"], "render": APPLICATIONS["render"]}
    result = simulated(mapping_of(tmp_path, applications, [{"default": "plain"}]), tmp_path)
    records = result.records
    names, techniques = records.names.of["application"], records.names.of["technique"]
    found = [names[int(code)] for code in records.jobs.application]
    assert found == ["plain", "cfd", "render", "plain", "plain", "cfd", "plain", "plain"]
    chosen = [techniques.get(int(code)) for code in records.jobs.technique]
    assert chosen == ["FAC2", "FAC2+GSS", "GSS", None, "FAC2", "GSS+SS", "FAC2", None]
    assert result.replaced == ("technique", "model", "steps", "variation", "iterations")
    iterations = dict(zip(records.loops.job.tolist(), records.loops.iterations.tolist(), strict=True))
    assert iterations[1] == 48 * 5
    assert iterations[4] == 30 * 2
    # The same by rules and applications without columns.
    write_jobs(tmp_path, jobs, iterations=own["iterations"])
    by_rule = {
        **applications,
        "cfd1": {**APPLICATIONS["cfd"], "steps": 5, "costs": {"variation": 0.1}},
        "render2": {**APPLICATIONS["render"], "technique": "GSS"},
        "rigid": {"model": "rigid"},
        "cca": {**plain, "steps": 2, "execution": {"model": "cca"}},
        "cfd5": {**APPLICATIONS["cfd"], "technique": "GSS+SS"},
        "varied": {**plain, "costs": {"variation": 0.25}},
    }
    rules = [
        {"where": {"job_id": 2}, "application": "cfd1"},
        {"where": {"job_id": 3}, "application": "render2"},
        {"where": {"job_id": [4, 8]}, "application": "rigid"},
        {"where": {"job_id": 5}, "application": "cca"},
        {"where": {"job_id": 6}, "application": "cfd5"},
        {"where": {"job_id": "> 6 and < 8"}, "application": "varied"},
        {"default": "plain"},
    ]
    other = simulated(mapping_of(tmp_path, by_rule, rules), tmp_path)
    for key, values in tables_of(result).items():
        np.testing.assert_array_equal(np.array(values), np.array(tables_of(other)[key]), err_msg=str(key))


@pytest.mark.parametrize(
    ("condition", "matching"),
    [
        ({"user": 1001}, [2]),
        ({"user": "1001"}, [2]),
        ({"user": [1, "alice"]}, [1, 3]),
        ({"user": "!= 1001"}, [1, 3, 4]),
        ({"project": 1234567}, [1, 4]),
    ],
)
def test_numbers_in_conditions_are_names_where_the_log_has_names(tmp_path, condition, matching):
    rows = [
        "1,0,100,200,4,alice,1234567",
        "2,10,100,200,4,1001,x",
        "3,20,100,200,4,1,y",
        "4,30,100,200,4,bob,1234567",
    ]
    header = "job_id,submit_time,run_time,walltime,processors,user,project"
    (tmp_path / "jobs.csv").write_text("\n".join([header, *rows]) + "\n")
    content = mapping_of(
        tmp_path, APPLICATIONS, [{"where": condition, "application": "cfd"}, {"default": "rigid"}]
    )
    jobs = simulated(content, tmp_path).records
    names = jobs.names.of["application"]
    assert [k for k, code in enumerate(jobs.jobs.application.tolist(), 1) if names[code] == "cfd"] == matching


def test_costs_are_read_by_names_of_the_log(tmp_path):
    write_jobs(tmp_path, JOBS)
    section = {"model": "loop", "costs": {"profile": "file", "path": "costs-{executable}.csv"}}
    result = simulated(mapping_of(tmp_path, application=section), tmp_path)
    jobs, loops = result.records.jobs, result.records.loops
    assert jobs.application is None
    names = result.records.names.of["executable"]
    for row, busy in zip(loops.job.tolist(), loops.busy.tolist(), strict=True):
        code = int(names[int(jobs.executable[row])].removeprefix("app"))
        work = sum(2.0 + code * (k % 3) for k in range(20))
        assert work / 2.0 - 1e-9 <= busy <= work + 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"assign": [{"where": {"colour": "red"}, "application": "cfd"}, {"default": "rigid"}]},
         "assign.0.where.colour: the workload has no such column"),
        ({"assign": [{"where": {"executable": "app7"}, "application": "cfd"}, {"default": "rigid"}]},
         "no executable of the workload is called 'app7'; did you mean 'app"),
        ({"assign": [{"where": {"executable": 1}, "application": "cfd"}, {"default": "rigid"}]},
         "no executable of the workload is called '1'; it has: app"),
        ({"assign": [{"where": {"executable": "> 1"}, "application": "cfd"}, {"default": "rigid"}]},
         "assign.0.where.executable: > compares numbers, and the column holds names"),
        ({"assign": [{"where": {"queue": 3}, "application": "cfd"}, {"default": "rigid"}]},
         "assign.0.where.queue: unknown for every job"),
        ({"assign": [{"where": {"user": 1}, "application": "cfd"}]}, "assign: no rule matches job"),
        ({"assign": [{"default": "lost"}],
          "applications": {"lost": {"model": "loop", "costs": {"profile": "file", "path": "no-{user}.csv"}}}},
         "applications.lost.costs.path: there is no file"),
        ({"assign": [{"default": "own"}],
          "applications": {"own": {"model": "loop", "technique": "./no.py:rule"}}},
         "applications.own.technique: there is no file"),
        ({"assign": [{"default": "big"}],
          "applications": {"big": {"model": "loop", "iterations": {"per_pe": 10**17}, "steps": 999_999}}},
         "applications.big.iterations.per_pe"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, changes, message):
    write_jobs(tmp_path, JOBS)
    content = mapping_of(tmp_path, APPLICATIONS, [{"default": "rigid"}]) | changes
    with pytest.raises(InputError) as error:
        simulated(content, tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"application": "cdf"}, " of the workload has application 'cdf'"),
        ({"technique": "GSSS"}, "application cfd with technique GSSS: technique: 'GSSS' is not known"),
        ({"model": "rigid", "technique": "GSS"}, "model is rigid"),
        ({"steps": 2.5}, "steps 2.5: time_steps:"),
        ({"variation": 1.5}, "variation 1.5: costs.variation:"),
        ({"iterations": 1.5}, "iterations is 1.5"),
        ({"costs": "nowhere.csv"}, "applications.cfd.costs.path: there is no file"),
    ],
)
def test_what_is_wrong_in_a_column_is_named(tmp_path, columns, message):
    jobs = JOBS[:4]
    write_jobs(tmp_path, jobs, **{name: [value] * len(jobs) for name, value in columns.items()})
    with pytest.raises(InputError) as error:
        simulated(mapping_of(tmp_path, {"cfd": APPLICATIONS["cfd"]}), tmp_path)
    assert message in str(error.value)


def test_a_trace_of_messages_shows_one_execution_model_of_columns_too(tmp_path):
    write_jobs(tmp_path, JOBS[:3], model=["cca", "dca", "rigid"])
    content = mapping_of(tmp_path, {"steps": APPLICATIONS["steps"]}, output={"trace": "messages"})
    with pytest.raises(
        InputError, match=r"output\.trace: messages .* several: cca, dca; write trace: chunks"
    ):
        simulated(content, tmp_path)
    write_jobs(tmp_path, JOBS[:3], model=["cca", "cca", "rigid"])
    assert len(simulated(content, tmp_path).records.loops.job) == 2


def test_rigid_applications_stand_keys_for_loops_with_a_note(tmp_path):
    write_jobs(tmp_path, JOBS)
    rigid = {"rigid": APPLICATIONS["rigid"]}
    slowed = [{"nodes": "0", "factor": 0.5}]
    content = mapping_of(tmp_path, rigid, coordination={"rca": True}, platform={"perturbations": slowed})
    noted = [line.split()[0] for line in warnings_of(from_mapping(content, directory=tmp_path))]
    assert noted == ["coordination.rca", "platform.perturbations"]
    plain = simulated(mapping_of(tmp_path, rigid), tmp_path).records
    found = simulated(content, tmp_path).records
    assert found.jobs.start_time.tolist() == plain.jobs.start_time.tolist()
    assert found.jobs.end_time.tolist() == plain.jobs.end_time.tolist()
    with pytest.raises(InputError, match="a rigid job has no idle nodes to release"):
        from_mapping({**content, "applications": None, "application": {"model": "rigid"}})
    write_jobs(tmp_path, JOBS, model=["dca"] * len(JOBS))  # a column may give them loops
    assert len(simulated(content, tmp_path).records.loops.job) == len(JOBS)


def test_advice_on_a_run_with_a_column_of_models_knows_each_jobs_model(tmp_path):
    write_jobs(tmp_path, JOBS[:2], model=["cca", "dca"])
    content = mapping_of(tmp_path, {"steps": APPLICATIONS["steps"]})
    file = tmp_path / "mixed.yaml"
    file.write_text(dump(from_mapping(content, directory=tmp_path)))
    jobs = mlsim.run(file, out=tmp_path / "run").records
    models = [recorded_loop(tmp_path / "run", int(job)).model for job in jobs.jobs.job_id[jobs.loops.job]]
    assert models == ["cca", "dca"]


def test_the_page_has_a_table_of_applications(tmp_path):
    write_jobs(tmp_path, JOBS)
    own = {name: APPLICATIONS[name] for name in ("rigid", "cfd")}
    rules = [{"where": {"user": 1}, "application": "cfd"}, {"default": "rigid"}]
    result = mlsim.run(from_mapping(mapping_of(tmp_path, own, rules), directory=tmp_path))
    table = applications(result.summary)
    for name, one in result.summary["applications"].items():
        row = re.search(rf'<th scope="row">{name}</th>(.*?)</tr>', table)[1]
        assert f'<td data-value="{one["jobs"]["submitted"]}">' in row
        assert f'data-value="{one["wait_time"]["mean"]!r}"' in row
        assert ("FAC2+GSS" in row) is ("loops" in one) is (name == "cfd")
    assert applications({**result.summary, "applications": {}}) == ""


def test_files_and_metrics_show_applications(tmp_path):
    write_jobs(tmp_path, JOBS)
    rules = [
        {"where": {"user": [1, 2]}, "application": "cfd"},
        {"where": {"user": 9}, "application": "render"},
    ]
    content = mapping_of(tmp_path, APPLICATIONS, [*rules, {"default": "rigid"}], coordination={"rca": True})
    scenario = from_mapping(content, directory=tmp_path)
    file = tmp_path / "mixed.yaml"
    file.write_text(dump(scenario))
    assert loads(file.read_text(), directory=tmp_path) == scenario
    result = mlsim.run(file, out=tmp_path / "run")
    jobs = pl.read_parquet(tmp_path / "run" / "jobs.parquet")
    assert jobs["application"].to_list() == ["cfd" if user in (1, 2) else "rigid" for user in jobs["user"]]
    assert jobs["technique"].unique().sort().to_list() == [None, "FAC2+GSS"]
    assert set(pl.read_parquet(tmp_path / "run" / "loops.parquet")["technique"]) == {"FAC2+GSS"}
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert list(summary["applications"]) == ["cfd", "rigid"]
    of_cfd = summary["applications"]["cfd"]
    here = jobs.filter(pl.col("application") == "cfd")
    assert of_cfd["jobs"]["submitted"] == here.height
    assert of_cfd["wait_time"]["mean"] == pytest.approx(here["wait_time"].mean())
    assert of_cfd["run_time"]["max"] == pytest.approx(here["run_time"].max())
    assert of_cfd["techniques"] == {"FAC2+GSS": here.height}
    assert of_cfd["loops"]["count"] == here.height
    assert "loops" not in summary["applications"]["rigid"]
    by = result.by("application")
    assert by["application"].to_list() == ["cfd", "rigid"]
    assert result.by("technique")["technique"].to_list() == ["none", "FAC2+GSS"]
    again = measure_run(read_run(tmp_path / "run"), "application")
    assert again.groups["jobs"].to_list() == by["jobs"].to_list()
    assert again.summary["applications"] == result.summary["applications"]


def learning(method, over, portfolio=("STATIC", "SS", "GSS"), steps=1):
    """Return an application whose selection learns over executions."""
    return {
        "model": "loop",
        "steps": steps,
        "iterations": {"count": 24},
        "costs": {"profile": "increasing", "low": "1 s", "high": "9 s"},
        "technique": "auto",
        "selection": {"method": method, "learns_over": over, "portfolio": list(portfolio)},
        "execution": {"model": "dca", "chunk_calculation": "1 ms"},
    }


def chosen(result):
    """Return the techniques of each job, by its place."""
    found = {}
    for job, technique in zip(
        result.records.selections.job, result.records.selections.technique, strict=True
    ):
        found.setdefault(int(job), []).append(str(technique))
    return found


def one_after_the_other(directory, n, apart=10_000):
    write_jobs(directory, [(k * apart, 100, NODES * CORES, k % 2) for k in range(n)])


def test_trials_go_on_in_the_next_job(tmp_path):
    one_after_the_other(tmp_path, 6)
    result = simulated(mapping_of(tmp_path, application=learning("exhaustive", "application")), tmp_path)
    found = [one for (one,) in chosen(result).values()]
    assert found[:3] == ["STATIC", "SS", "GSS"]
    times = dict(zip(found, result.records.loops.t_loop.tolist(), strict=False))
    best = min(("STATIC", "SS", "GSS"), key=times.__getitem__)
    assert found[3:] == [best] * 3
    alone = simulated(mapping_of(tmp_path, application=learning("exhaustive", "job")), tmp_path)
    assert [one for (one,) in chosen(alone).values()] == ["STATIC"] * 6
    by_executable = simulated(
        mapping_of(tmp_path, application=learning("exhaustive", "executable")), tmp_path
    )
    assert [one for (one,) in chosen(by_executable).values()] == [*["STATIC"] * 2, *["SS"] * 2, *["GSS"] * 2]


@pytest.mark.parametrize("method", ["exhaustive", "expert", "rl", "simulation"])
def test_a_job_that_starts_before_the_end_of_another_knows_nothing_of_it(tmp_path, method):
    apart = [(0, 100, 4, 0), (1, 100, 4, 0), (50_000, 100, 4, 0)]
    section = learning(method, "application", steps=4)
    write_jobs(tmp_path, apart)
    both = chosen(simulated(mapping_of(tmp_path, application=section), tmp_path))
    # Without the first job, the second one chooses the same: it knows nothing of the first.
    alone = chosen(
        simulated(
            mapping_of(
                tmp_path, application=section | {"selection": section["selection"] | {"learns_over": "job"}}
            ),
            tmp_path,
        )
    )
    if method != "rl":  # whose times are relative to a balanced time step, and whose draws are by job
        assert both[1] == alone[1]
    # The third one knows of both, and begins elsewhere than they did.
    write_jobs(tmp_path, apart[:2])
    first = chosen(simulated(mapping_of(tmp_path, application=section), tmp_path))
    assert [first[0], first[1]] == [both[0], both[1]]
    if method in ("exhaustive", "rl"):
        assert both[2][0] != "STATIC" or "STATIC" in both[0][1:]
    assert both[0][0] == alone[0][0]


def test_simulation_begins_with_the_costs_of_ended_executions(tmp_path):
    one_after_the_other(tmp_path, 3)
    section = learning("simulation", "application", ("FAC2", "SS", "STATIC"), steps=3)
    learned = chosen(simulated(mapping_of(tmp_path, application=section), tmp_path))
    assert learned[0][0] == "FAC2"
    assert learned[1][0] == learned[0][-1]


@settings(deadline=None, max_examples=15)
@given(jobs_of_workload, st.sampled_from(["exhaustive", "expert", "rl", "simulation"]), st.booleans())
def test_learning_is_the_same_in_both_engines_and_from_run_to_run(tmp_path_factory, jobs, method, rca):
    directory = tmp_path_factory.mktemp("learning")
    write_jobs(directory, jobs)
    applications = {"a": learning(method, "executable", steps=2), "rigid": {"model": "rigid"}}
    rules = [{"where": {"user": 3}, "application": "rigid"}, {"default": "a"}]
    found = []
    for engine in ("simpy", "replay", "replay"):
        more = {"coordination": {"rca": rca}, "batch": {"engine": engine}}
        found.append(tables_of(simulated(mapping_of(directory, applications, rules, **more), directory)))
    for other in found[1:]:
        for key, values in found[0].items():
            np.testing.assert_array_equal(np.array(values), np.array(other[key]), err_msg=str(key))


class Watched(coupling.LoopApplications):
    """Notes starts and ends of executions: (time, job, its loop)."""

    started: ClassVar[list[tuple]] = []  # of one run
    ended: ClassVar[list[tuple]] = []

    def launch(self, slot, at):
        found = super().launch(slot, at)
        self.started.append((at, self._state.number(slot), self._running[slot], len(self.ended)))
        return found

    def finish(self, slot, at, state):
        loop, number = self._running[slot], self._state.number(slot)
        super().finish(slot, at, state)
        self.ended.append((at, number, loop))

    def requeue(self, slot, at, /):
        loop, number = self._running[slot], self._state.number(slot)
        done = super().requeue(slot, at)
        self.ended.append((at, number, loop))
        return done


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    jobs_of_workload,
    st.sampled_from(["off", "on", "asks"]),
    st.sampled_from(["none", "kill", "die", "restart"]),
)
def test_trials_over_executions_are_those_of_a_slow_reference(tmp_path_factory, jobs, rca, trouble):
    directory = tmp_path_factory.mktemp("trials")
    write_jobs(directory, jobs)
    portfolio = ("STATIC", "SS", "GSS", "FAC2")
    section = learning("exhaustive", "executable", portfolio, steps=3)
    section["selection"]["parameters"] = {"threshold": 100}  # trials are made once
    if trouble != "kill":  # whose loops take longer than their walltimes
        section |= {"costs": section["costs"] | {"calibrate": "recorded"}}
    rules = [{"where": {"user": 3}, "application": "rigid"}, {"default": "a"}]
    content = mapping_of(directory, {"a": section, "rigid": {"model": "rigid"}}, rules)
    content = troubled(content, rca, trouble)
    Watched.started, Watched.ended = [], []
    original, coupling.LoopApplications = coupling.LoopApplications, Watched
    try:
        simulated(content, directory)
    finally:
        coupling.LoopApplications = original
    ordered = sorted(enumerate(jobs, 1), key=lambda job: (job[1][0], job[0]))
    code = [user % 2 for _, (*_, user) in ordered]
    for *_, loop in Watched.ended:
        steps, shown = loop.outcome.selected, loop.outcome.shown
        # Only complete time steps count, and all of them do.
        assert [one.technique for one in shown] == [one.technique for one in steps[: len(shown)]]
        assert len(steps) - len(shown) <= 1 or loop.outcome.t_loop == 0.0
    for at, number, loop, count in Watched.started:
        known = [
            one
            for end, other, one in sorted(Watched.ended[:count], key=lambda one: one[:2])
            if end <= at and code[other] == code[number]
        ]
        tried = [step.technique for one in known for step in one.outcome.shown]
        expected = list(dict.fromkeys(tried))
        for step in loop.outcome.selected:
            left = [name for name in portfolio if name not in expected]
            if left:
                assert step.technique == left[0]
                expected.append(step.technique)


def test_a_trace_names_the_technique_of_each_job(tmp_path):
    otf2 = pytest.importorskip("otf2", reason="there is no wheel of the package otf2 for this Python")
    write_jobs(tmp_path, JOBS)
    rules = [{"where": {"user": 1}, "application": "cfd"}, {"where": {"user": 2}, "application": "render"}]
    file = tmp_path / "mixed.yaml"
    content = mapping_of(tmp_path, APPLICATIONS, [*rules, {"default": "rigid"}])
    file.write_text(dump(from_mapping(content, directory=tmp_path)))
    mlsim.run(file, out=tmp_path / "run")
    expected = {"FAC2+GSS": {1}, "AF": {2}}
    users = {f"J{k + 1}": user for k, (*_, user) in enumerate(JOBS)}
    found = {}
    with otf2.reader.open(str(tmp_path / "run" / "trace" / "traces.otf2")) as trace:
        groups = {group.name for group in trace.definitions.groups}
        for _, event in trace.events:
            for attribute, value in (event.attributes or {}).items():
                if attribute.name == "technique":
                    user = users[event.region.name.split()[0]]
                    found.setdefault(value, set()).add(user)
    assert found == expected
    assert {"jobs under FAC2+GSS", "jobs under AF", "application rigid", "application cfd"} <= groups


def test_advice_is_on_the_application_of_a_job(tmp_path):
    write_jobs(tmp_path, [(0, 400, 4, 1), (1, 400, 4, 2)])
    section = {**APPLICATIONS["steps"], "steps": 1, "technique": "SS", "iterations": {"count": 400}}
    content = mapping_of(tmp_path, {"rigid": {"model": "rigid"}, "own": section}, [{"default": "own"}])
    file = tmp_path / "mixed.yaml"
    file.write_text(dump(from_mapping(content, directory=tmp_path)))
    mlsim.run(file, out=tmp_path / "run")
    record = recorded_loop(tmp_path / "run", 2)
    assert (record.technique, record.model, record.place) == ("SS", "dca", "applications.own")
    assert record.content["application"]["execution"]["model"] == "dca"
