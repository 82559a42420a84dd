"""Functions found by regression over trials: against a plain queue, and functions that are planted."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mlsim
from mlsim.errors import InputError
from mlsim.experiment.weekly_runs import LogWeeks, weeks_of
from mlsim.learning.policy_functions import Trials, as_policy, fit_functions, run_trials
from mlsim.scenario import dump, from_mapping
from mlsim.workload import generate
from tests.batch.builders import block
from tests.effort import examples

UNITS = 8


def served(jobs, order):
    """Return the sum of bounded slowdowns of jobs (submit, run, processors) served strictly in an order."""
    running: list[tuple[float, int]] = []
    total, queue, now = 0.0, list(order), 0.0
    while queue:
        running = [(end, size) for end, size in running if end > now]
        here = [job for job in queue if jobs[job][0] <= now]
        free = UNITS - sum(size for _, size in running)
        if here and jobs[here[0]][2] <= free:
            submit, run, size = jobs[here[0]]
            running.append((now + run, size))
            total += max((now + run - submit) / max(run, 10.0), 1.0)
            queue.remove(here[0])
            continue
        now = min([end for end, _ in running] + [jobs[job][0] for job in queue if jobs[job][0] > now])
    return total


@settings(deadline=None, max_examples=examples(30))
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 60), st.integers(1, UNITS)), min_size=6, max_size=6
    ).map(sorted),
    st.integers(0, 5),
)
def test_scores_are_those_of_plain_queues(jobs, seed):
    """Two jobs go first always, four in random orders; every order is served by a loop in plain words."""
    from mlsim.learning.policy_functions import _orders

    submit, run, processors = (np.array(column) for column in zip(*jobs, strict=True))
    tried = Trials(sets=1, tasks=4, initial=2, trials=9, seed=seed)
    weeks = LogWeeks(None, {0: block(submit, run, run + 7, processors)}, UNITS)
    p, q, r, score = run_trials(weeks, tried)
    assert p.tolist() == (run + 7)[2:].tolist()
    assert q.tolist() == processors[2:].tolist()
    assert r.tolist() == (submit - submit[0])[2:].tolist()
    rng = np.random.default_rng(seed)
    rng.integers(1)
    sums: dict[int, list[float]] = {task: [] for task in range(4)}
    jobs = [(job[0] - jobs[0][0], *job[1:]) for job in jobs]
    busy = served(jobs[:2], [0, 1])
    for order in _orders(tried, rng).tolist():
        sums[order[0]].append(served(jobs, [0, 1, *(2 + task for task in order)]) - busy)
    means = np.array([np.mean(sums[task]) for task in range(4)])
    np.testing.assert_allclose(score, means / means.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "planted",
    [
        lambda p, q, r: 2e-3 * np.log10(p) * q + 0.5 * np.log10(r),
        lambda p, q, r: 1e-6 * p * np.sqrt(q) + 0.1 / r,
        lambda p, q, r: 3.0 * np.sqrt(p) / q / r,
    ],
)
def test_a_planted_function_is_found(planted):
    rng = np.random.default_rng(4)
    p, q, r = rng.uniform(10, 1e5, 400), rng.integers(1, 64, 400).astype(float), rng.uniform(1, 1e5, 400)
    best = fit_functions(p, q, r, planted(p, q, r))[0]
    assert best.error < 1e-9
    np.testing.assert_allclose(best(p, q, r), planted(p, q, r), rtol=1e-6)


def test_no_other_weights_are_nearer_and_errors_are_weighted_means():
    rng = np.random.default_rng(6)
    p, q, r = rng.uniform(1, 1e5, 200), rng.integers(1, 64, 200).astype(float), rng.uniform(0, 1e5, 200)
    score = rng.uniform(0, 0.1, 200)
    weight = p * q

    def loss(function):
        return (weight * (function(p, q, r) - score) ** 2).sum()

    found = fit_functions(p, q, r, score, keep=484)
    for one in found:
        error = sum(w * abs(f - s) for w, f, s in zip(weight, one(p, q, r), score, strict=True)) / sum(weight)
        assert one.error == pytest.approx(error, rel=1e-9)
        for place, value in enumerate(one.weights):
            for factor in (0.999, 1.001):
                other = [*one.weights[:place], value * factor, *one.weights[place + 1 :]]
                assert loss(replace(one, weights=tuple(other))) >= loss(one) * (1 - 1e-9)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.swf"
    generate("lublin", days=21, processors=32, load=0.9, seed=4, estimates="tsafrir").write(path)
    return from_mapping(
        {
            "name": "log",
            "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
            "workload": {"path": str(path), "mapping": "node", "weeks": {}},
            "batch": {"policy": "FCFS", "backfill": "easy"},
        }
    )


def test_the_file_orders_the_queue_by_the_function(scenario, tmp_path):
    tried = Trials(sets=4, tasks=8, initial=4, trials=16, seed=2)
    found = fit_functions(*run_trials(weeks_of(scenario), tried), keep=484)
    again = fit_functions(*run_trials(weeks_of(scenario), tried), keep=600)
    assert len(found) == 484
    assert found == again
    assert [one.error for one in found] == sorted(one.error for one in found)
    path = tmp_path / "learned.py"
    path.write_text(as_policy(found, "a log"))
    spec = importlib.util.spec_from_file_location("learned", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Waiting:
        estimate, processors = np.array([0.5, 100.0, 1e4]), np.array([1, 4, 30])
        submit_time = np.array([0.0, 50.0, 7e3])

    p, q, r = np.array([1.0, 100, 1e4]), np.array([1.0, 4, 30]), np.array([1.0, 50, 7e3])
    for number, one in enumerate(found, 1):
        key = getattr(module, f"Learned{number}")().key(0.0, Waiting)
        assert np.isfinite(key).all()
        np.testing.assert_allclose(key, one(p, q, r), rtol=1e-9, atol=1e-12 * np.abs(key).max())


@pytest.mark.slow
def test_the_command_writes_policies_that_run(scenario, tmp_path):
    from mlsim.cli.main import app

    (tmp_path / "base.yaml").write_text(dump(scenario))
    out = tmp_path / "learned.py"
    few = ["--sets", "3", "--tasks", "6", "--initial", "3", "--trials", "12", "--train", "0-1"]
    result = CliRunner().invoke(app, ["learn", "function", str(tmp_path / "base.yaml"), *few, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "Learned4" in result.output
    run = mlsim.run(
        tmp_path / "base.yaml", {"batch.policy": "./learned.py:Learned1", "workload.select.first": 50}
    )
    assert run.summary["jobs"]["completed"] + run.summary["jobs"]["killed"] == 50
    result = CliRunner().invoke(
        app, ["learn", "function", str(tmp_path / "base.yaml"), "-o", str(out), "--trials", "3"]
    )
    assert isinstance(result.exception, InputError)


def test_a_log_with_too_few_jobs_is_refused(scenario):
    with pytest.raises(InputError, match="no week has 100000 jobs"):
        run_trials(weeks_of(scenario), Trials(tasks=99_984))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--train", "x"], "--train: 'x' names no weeks"),
        (
            ["--train", "0-1", "--set", "workload.select.weeks=1"],
            "--train: 0-1, and --set workload.select.weeks:",
        ),
        (["-o", "learned.txt"], "--out: learned.txt; allowed: a name that ends with .py"),
    ],
)
def test_options_that_make_no_sense_are_refused(scenario, words, message, tmp_path):
    from mlsim.cli.main import app

    (tmp_path / "base.yaml").write_text(dump(scenario))
    out = ["-o", str(tmp_path / "mine.py")]
    result = CliRunner().invoke(app, ["learn", "function", str(tmp_path / "base.yaml"), *out, *words])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_where_nothing_can_be_written_nothing_is_searched(scenario, tmp_path):
    from mlsim.cli.main import app

    (tmp_path / "base.yaml").write_text(dump(scenario))
    words = ["--initial", "99984", "-o", str(tmp_path / "missing" / "mine.py")]  # no week has so many jobs
    result = CliRunner().invoke(app, ["learn", "function", str(tmp_path / "base.yaml"), *words])
    assert isinstance(result.exception, InputError)
    assert "missing" in str(result.exception)
    words[-1] = str(tmp_path / "mine.py")
    result = CliRunner().invoke(app, ["learn", "function", str(tmp_path / "base.yaml"), *words])
    assert "no week has" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["base.yaml"]
