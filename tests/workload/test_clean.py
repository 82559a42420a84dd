from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mlsim.scenario import WorkloadConfig
from mlsim.scenario.words import CleaningRule, EstimateSource
from mlsim.scenario.workload_section import CleaningConfig
from mlsim.workload.log_source import Cleaner
from mlsim.workload.workload_jobs import JobBlock, LogBlock

MACHINE = 16
NORMAL = {"submit_time": 5, "run_time": 60, "requested_processors": 4, "requested_time": 90, "status": 1}
IMPOSSIBLE = {
    ("cancelled", "clamp"),
    ("failed", "clamp"),
    ("unknown_run_time", "keep"),
    ("no_processors", "keep"),
}
# A job that meets the rule and no other, and what clamping makes of it.
CASES = {
    "cancelled": ({"status": 5}, None),
    "failed": ({"status": 0}, None),
    "unknown_run_time": ({"run_time": -1}, {"run_time": 90, "walltime": 90}),
    "zero_run_time": ({"run_time": 0}, {"run_time": 1, "walltime": 90}),
    "no_processors": ({"requested_processors": -1}, {"processors": 1}),
    "oversize": ({"requested_processors": 17}, {"processors": 16, "run_time": 60}),
    "underestimate": ({"run_time": 91}, {"run_time": 91, "walltime": 91}),
}


def log_of(*jobs: dict[str, float]) -> LogBlock:
    names = [
        field.name for field in dataclasses.fields(LogBlock) if field.name not in ("asked", "after", "own")
    ]
    rows = [{**NORMAL, "job_id": number, **job} for number, job in enumerate(jobs)]
    return LogBlock(*(np.array([row.get(name, -1) for row in rows], dtype=float) for name in names))


def clean(
    rules: dict[str, str], *jobs: dict[str, float], actual: bool = False
) -> tuple[JobBlock, dict[str, int]]:
    estimates = EstimateSource.ACTUAL if actual else EstimateSource.REQUEST
    config = WorkloadConfig(path="log", cleaning=CleaningConfig.model_validate(rules), estimates=estimates)
    cleaner = Cleaner(config, MACHINE)
    return cleaner.clean(log_of(*jobs)), {name: count for name, count in cleaner.notes.items() if count}


@pytest.mark.parametrize("rule", CASES)
@pytest.mark.parametrize("word", list(CleaningRule))
def test_each_rule_and_word(rule: str, word: CleaningRule) -> None:
    job, clamped = CASES[rule]
    if (rule, word) in IMPOSSIBLE:
        with pytest.raises(ValidationError, match=rf"{rule}\n.*allowed: "):
            clean({rule: word})
        return
    jobs, notes = clean({rule: word}, job, {})
    assert notes == {rule: 1}
    assert jobs.job_id.tolist() == ([1] if word == "drop" else [0, 1])
    if word == "keep":
        expected = {"run_time": job.get("run_time", 60), "processors": job.get("requested_processors", 4)}
    else:
        expected = clamped if word == "clamp" and clamped else {}
    for name, value in expected.items():
        assert getattr(jobs, name)[0] == value, name


def test_defaults_are_those_of_the_scenario() -> None:
    jobs, notes = clean({}, *(job for job, _ in CASES.values()))
    assert jobs.job_id.tolist() == [0, 1, 3, 5, 6]
    assert notes == dict.fromkeys(CASES, 1)


def test_a_dropped_job_meets_no_further_rule() -> None:
    jobs, notes = clean(
        {"cancelled": "drop"},
        {"status": 5, "run_time": 0, "requested_processors": -1},
        {"status": 0, "run_time": 0},
    )
    assert jobs.job_id.tolist() == [1]
    assert notes == {"cancelled": 1, "failed": 1, "zero_run_time": 1}


def test_unknown_times() -> None:
    jobs, notes = clean(
        {"unknown_run_time": "clamp"},
        {"submit_time": -1},
        {"run_time": -1, "requested_time": -1},
        {"run_time": -1},
    )
    assert jobs.job_id.tolist() == [2]
    assert notes == {"unknown_submit_time": 1, "unknown_run_time": 2, "no_time_at_all": 1}


def test_fallbacks_count_jobs_that_stay() -> None:
    jobs, notes = clean(
        {"oversize": "drop"},
        {"requested_processors": -1, "allocated_processors": 3, "requested_time": 0},
        {"requested_processors": 0, "allocated_processors": 17, "requested_time": -1},
        {"requested_processors": 2, "allocated_processors": 9},
    )
    assert jobs.processors.tolist() == [3, 2]
    assert jobs.walltime.tolist() == [60, 90]
    assert notes == {"processors_from_allocated": 1, "estimate_from_run_time": 1, "oversize": 1}


def test_actual_estimates() -> None:
    jobs, notes = clean(
        {"underestimate": "drop"}, {"run_time": 91}, {"requested_time": -1}, {"run_time": 0.5}, actual=True
    )
    assert jobs.walltime.tolist() == jobs.run_time.tolist() == [91, 60, 0.5]
    assert notes == {}


@pytest.mark.parametrize("actual", [False, True])
def test_estimates_are_above_zero(actual: bool) -> None:
    jobs, _ = clean({}, {"run_time": 0, "requested_time": -1}, actual=actual)
    assert (jobs.run_time.tolist(), jobs.walltime.tolist()) == ([0], [1])


def one_by_one(
    rules: dict[str, str], job: dict[str, float], notes: dict[str, int]
) -> tuple[float, ...] | None:
    """The table of the module's docstring, for one job."""

    def meets(rule: str) -> str:
        notes[rule] = notes.get(rule, 0) + 1
        return rules[rule]

    run, requested = job["run_time"], job["requested_time"]
    if job["status"] == 5 and meets("cancelled") == "drop":
        return None
    if job["status"] == 0 and meets("failed") == "drop":
        return None
    if run == -1:
        if meets("unknown_run_time") == "drop":
            return None
        if requested <= 0:
            notes["no_time_at_all"] = notes.get("no_time_at_all", 0) + 1
            return None
        run = requested
    if run == 0:
        word = meets("zero_run_time")
        if word == "drop":
            return None
        run = 1 if word == "clamp" else 0
    estimate = requested if requested > 0 else (run or 1)
    processors = (
        job["requested_processors"] if job["requested_processors"] > 0 else job["allocated_processors"]
    )
    if processors <= 0:
        if meets("no_processors") == "drop":
            return None
        processors = 1
    if processors > MACHINE:
        word = meets("oversize")
        if word == "drop":
            return None
        processors = MACHINE if word == "clamp" else processors
    if run > estimate:
        word = meets("underestimate")
        if word == "drop":
            return None
        estimate = run if word == "clamp" else estimate
    for name, met in (
        ("estimate_from_run_time", requested <= 0),
        ("processors_from_allocated", job["requested_processors"] <= 0 < job["allocated_processors"]),
    ):
        notes[name] = notes.get(name, 0) + met
    return run, estimate, processors


odd_jobs = st.fixed_dictionaries(
    {
        "run_time": st.sampled_from([-1, 0, 1, 50, 100]),
        "requested_time": st.sampled_from([-1, 0, 50, 99]),
        "requested_processors": st.sampled_from([-1, 0, 4, 16, 17]),
        "allocated_processors": st.sampled_from([-1, 0, 5, 18]),
        "status": st.sampled_from([-1, 0, 1, 5]),
    }
)
possible = st.fixed_dictionaries(
    {rule: st.sampled_from([w.value for w in CleaningRule if (rule, w) not in IMPOSSIBLE]) for rule in CASES}
)


@settings(max_examples=200, deadline=None)
@given(rules=possible, jobs=st.lists(odd_jobs, min_size=1, max_size=15))
def test_rules_together_against_one_job_at_a_time(
    rules: dict[str, str], jobs: list[dict[str, float]]
) -> None:
    block, notes = clean(rules, *jobs)
    expected_notes: dict[str, int] = {}
    expected = [one_by_one(rules, job, expected_notes) for job in jobs]
    found = list(
        zip(block.run_time.tolist(), block.walltime.tolist(), block.processors.tolist(), strict=True)
    )
    assert found == [row for row in expected if row]
    assert block.job_id.tolist() == [number for number, row in enumerate(expected) if row]
    assert notes == {name: count for name, count in expected_notes.items() if count}
