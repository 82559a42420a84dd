"""Loops of no iteration, and of far more than a list of costs holds, where chunks are few."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from mlsim._jit import INTERPRETED
from mlsim.application import CostProfiles, LoopOutcome, simulate
from mlsim.application.iteration_costs import CostSums, prefix_sums
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario.application_section import ExecutionConfig, IterationsConfig
from mlsim.scenario.costs_section import CostsConfig, SelectionConfig
from mlsim.scenario.technique_section import NEEDS, ParametersConfig
from tests.application.test_loop import ALL_MODELS, POSSIBLE, for_model
from tests.reference.techniques import Parameters, Rule

SPEED = np.array([1.0, 2.0, 1.0, 0.5])
LATENCY = np.array([0.0, 5e-7, 6e-7, 7e-7])
LONGEST = 1 << 62
MANY_CHUNKS = ("SS", "CYCLIC", "FSC", "TAP")
"""Techniques that cut the longest loops into too many chunks."""


def run(costs: CostSums | np.ndarray, technique: str, model: str, **more: Any) -> LoopOutcome:
    keys = {"min_chunk", "statistics", "pieces"}
    execution = {key: value for key, value in more.items() if key not in keys}
    told = {"statistics": more["statistics"]} if "statistics" in more else {"sigma": 1e-3, "mu": 1e-3}
    told["pieces"] = more.get("pieces")
    return simulate(
        costs,
        SPEED,
        LATENCY,
        technique,
        ExecutionConfig(model=model, **execution),
        more.get("min_chunk", 1),
        record=True,
        parameters=ParametersConfig(overhead=1e-6, **told),
        node_of_pe=np.array([0, 0, 1, 1]),
        intra_latency=1e-7,
    )


def chunks(outcome: LoopOutcome) -> list[tuple[int, int]]:
    """Return first iteration and size of each chunk, in order of the loop, as integers of Python."""
    assert outcome.rows is not None
    return sorted(zip(outcome.rows.first.tolist(), outcome.rows.size.tolist(), strict=True))


def check_whole(outcome: LoopOutcome, n: int, work: float) -> None:
    position = 0
    for first, size in chunks(outcome):
        assert first == position
        assert size > 0
        position += size
    assert position == n == outcome.iterations
    assert float(outcome.busy @ SPEED) == pytest.approx(work, rel=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="integers of Python do not end at 64 bits")
@pytest.mark.parametrize("n", [1 << 32, LONGEST])
@pytest.mark.parametrize("model", ALL_MODELS)
def test_every_iteration_of_the_longest_loops_once(model: str, n: int) -> None:
    for technique in (name for of, name in POSSIBLE if of == model and name not in MANY_CHUNKS):
        if (model, technique) == ("mpi+openmp", "WF"):
            continue  # nodes of unequal speed leave WF a part of the loop that it cuts into single iterations
        outcome = run(CostSums.linear(n, 1e-3, 2e-3 / n), for_model(technique, model), model)
        check_whole(outcome, n, n * 2e-3)


@pytest.mark.skipif(INTERPRETED, reason="integers of Python do not end at 64 bits")
@pytest.mark.parametrize("technique", ["STATIC", "mFSC", "GSS", "TSS", "FAC2", "TFSS", "FISS", "VISS", "PLS"])
@pytest.mark.parametrize("n", [1 << 32, (1 << 53) + 1, LONGEST])
def test_sizes_are_those_of_integers_of_any_length(technique: str, n: int) -> None:
    outcome = run(CostSums.linear(n, 1e-3, 0.0), technique, "dca")
    assert outcome.rows is not None
    rule = Rule(technique, n, 4, (1.0,) * 4, Parameters())
    last = max(first for first, _ in chunks(outcome))
    rows = zip(*(column.tolist() for column in (outcome.rows.step, outcome.rows.pe)), strict=True)
    sizes = zip(*(column.tolist() for column in (outcome.rows.first, outcome.rows.size)), strict=True)
    for (step, pe), (first, size) in zip(rows, sizes, strict=True):
        whole = max(rule.straightforward(step, pe), 1)
        assert size == whole or (first == last and size < whole)


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
def test_empty_loops_have_no_chunk_and_take_no_time(model: str, technique: str) -> None:
    for costs in (np.zeros(1), CostSums.linear(0, 1e-3, 0.0)):
        outcome = run(costs, for_model(technique, model), model)
        assert (outcome.steps, outcome.t_loop, chunks(outcome)) == (0, 0.0, [])
        assert outcome.busy.tolist() == [0.0] * 4
        assert np.isfinite(outcome.notified_at).all()


@pytest.mark.parametrize(("model", "technique"), POSSIBLE)
@pytest.mark.parametrize("growth", [3.0173e-6, -1.0371e-6])
def test_linear_costs_give_what_lists_of_them_give(model: str, technique: str, growth: float) -> None:
    n = 700
    prefix = prefix_sums(1.0057e-3 + growth * np.arange(n))
    costs: dict[str, Any] = {"chunk_calculation": 1e-6, "atomic_service": 3e-7, "break_after": 3}
    for more in (costs, costs | {"piece_time": 1e-6}, costs | {"break_time": 1e-6}):
        if technique in ("AF", "mAF"):
            more = more | {"pieces": 5 if "break_time" in more else 0}
        listed, linear = (
            run(of, for_model(technique, model), model, **more)
            for of in (prefix, CostSums.linear(n, 1.0057e-3, growth))
        )
        assert chunks(linear) == chunks(listed)
        np.testing.assert_allclose(linear.finish, listed.finish, rtol=1e-9)
        np.testing.assert_allclose(linear.notified_at, listed.notified_at, rtol=1e-9)
        times = np.linspace(linear.notified_at.min(), linear.finish.max(), 7)
        of_lines = linear.remaining(CostSums.linear(n, 1.0057e-3, growth), SPEED, times)
        of_lists = listed.remaining(prefix, SPEED, times)
        assert np.abs(of_lines[0] - of_lists[0]).max() <= 1  # one that ends at the very time
        np.testing.assert_allclose(of_lines[1], of_lists[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("technique", NEEDS)
def test_statistics_of_linear_costs(technique: str) -> None:
    n = 3000
    prefix = prefix_sums(1e-3 + 2e-6 * np.arange(n))
    listed, linear = (
        run(of, technique, "cca", statistics="profiled") for of in (prefix, CostSums.linear(n, 1e-3, 2e-6))
    )
    assert chunks(linear) == chunks(listed)
    with pytest.raises(InputError, match="all cost the same"):
        run(CostSums.linear(n, 1e-3, 0.0), "FSC", "cca", statistics="profiled")


def test_a_class_learns_the_same_from_linear_costs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Spread:\n    times_pieces = True\n    def numbers(self, p):\n        return p\n"
        "    def size(self, memory, n, p, remaining, step, pe):\n"
        "        return max(1, int(remaining / (2 * p) / (1.0 + 1e6 * memory[pe])))\n"
        "    def learn(self, memory, n, p, chunk):\n        memory[chunk.pe] = chunk.spread\n"
    )
    technique = f"{tmp_path / 'mine.py'}:Spread"
    prefix = prefix_sums(1e-3 + 2e-6 * np.arange(900))
    listed, linear = (run(of, technique, "dca") for of in (prefix, CostSums.linear(900, 1e-3, 2e-6)))
    assert len(chunks(linear)) > 30
    assert chunks(linear) == chunks(listed)


@pytest.mark.parametrize("model", ALL_MODELS)
def test_a_least_chunk_as_long_as_the_longest_loop(model: str) -> None:
    """The product of a PE's number and its chunk does not fit in 64 bits."""
    outcome = run(CostSums.linear(LONGEST, 1e-3, 0.0), for_model("STATIC", model), model, min_chunk=LONGEST)
    assert chunks(outcome) == [(0, LONGEST)]


@pytest.mark.parametrize("more", [{"selection": SelectionConfig()}, {"asks": np.zeros(4)}])
def test_what_needs_a_list_of_costs_refuses_lines(more: dict[str, Any]) -> None:
    technique = "auto" if "selection" in more else "GSS"
    with pytest.raises(InputError, match="need a list of the costs"):
        simulate(CostSums.linear(100, 1.0, 0.0), SPEED, LATENCY, technique, ExecutionConfig(), **more)


@pytest.mark.parametrize(
    ("costs", "total", "last"),
    [
        ({"profile": "constant", "mean": "1 ms"}, 1e-3, 1e-3),
        ({"profile": "increasing", "low": "1 ms", "high": "3 ms"}, 2e-3, 3e-3),
        ({"profile": "decreasing", "low": "1 ms", "high": "3 ms", "mean": "4 ms"}, 4e-3, 2e-3),
        (
            {"profile": "constant", "mean": "1 ms", "calibrate": "run-time"},
            60.0 / 2**40 * 4,
            60.0 / 2**40 * 4,
        ),
        ({"profile": "job"}, 60.0 / 2**40 * 4, 60.0 / 2**40 * 4),
    ],
)
def test_profiles_of_long_loops_are_lines(costs: dict[str, Any], total: float, last: float) -> None:
    n = 1 << 40
    made = CostProfiles(CostsConfig(**costs), IterationsConfig(count=n), 1e9, 0).costs(1, 4, 60.0)
    assert isinstance(made, CostSums)
    assert made.total == pytest.approx(n * total)
    assert made.between(np.array([n - 1]), np.array([1]))[0] == pytest.approx(last)
    short = CostProfiles(CostsConfig(**costs), IterationsConfig(count=1000), 1e9, 0).costs(1, 4, 60.0)
    assert isinstance(short, np.ndarray)


# By the command line


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,run_time,walltime,processors\n1,0,5,9,4\n2,0,3,4,4\n"
    )
    return tmp_path


def mlsim(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


LOOP = ("loop", "--pes", "2x2", "--profile", "constant", "--mean", "1ms", "--technique", "GSS")


def test_four_nested_loops_of_256_are_one_of_2_to_the_32(here: Path) -> None:
    mlsim(*LOOP, "--model", "dca", "--iterations", "4294967296", "--out", "out")
    sizes = pl.read_parquet("out/chunks.parquet")["size"].to_list()
    assert (len(sizes), sum(sizes)) == (66, 2**32)
    facts = json.loads((here / "out" / "summary.json").read_text())["loops"][0]
    assert facts["iterations"] == 2**32
    assert facts["t_loop"] == pytest.approx(2**32 * 1e-3 / 4, rel=1e-6)


@pytest.mark.parametrize("model", ALL_MODELS)
def test_an_empty_loop_is_a_run_like_others(here: Path, model: str) -> None:
    mlsim(*LOOP, "--model", model, "--iterations", "0", "--out", "out")
    facts = json.loads((here / "out" / "summary.json").read_text())["loops"][0]
    assert (facts["iterations"], facts["steps"], facts["t_loop"]) == (0, 0, 0.0)


@pytest.mark.parametrize("count", [0, 1 << 40])
def test_jobs_of_a_scenario_execute_them(here: Path, count: int) -> None:
    content = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 2}]},
        "workload": {"path": "jobs.csv", "mapping": "core"},
        "batch": {"on_overrun": "extend"},
        "coordination": {"rca": True},
        "application": {
            "model": "loop",
            "technique": "FAC2",
            "iterations": {"count": count},
            "costs": {"profile": "increasing", "high": "3 us"},
        },
        "output": {"pictures": False, "trace": "chunks"},
    }
    (here / "s.yaml").write_text(json.dumps(content))
    mlsim("run", "s.yaml", "--out", "out")
    loops = pl.read_parquet("out/loops.parquet")
    assert loops["iterations"].to_list() == [count] * 2
    chunks = pl.read_parquet("out/chunks.parquet") if count else pl.DataFrame({"size": [0]})
    assert chunks["size"].sum() == 2 * count
    jobs = pl.read_parquet("out/jobs.parquet").sort("start_time")
    first = jobs["end_time"][0] - jobs["start_time"][0]
    assert first == pytest.approx(count * 1.5e-6 / 4, rel=1e-3, abs=1e-5)


def test_a_study_and_advice_on_them(here: Path) -> None:
    content = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 4}]},
        "application": {
            "iterations": {"count": 1 << 40},
            "costs": {"profile": "decreasing", "high": "1 ms"},
            "technique": "STATIC",
        },
    }
    (here / "l.yaml").write_text(json.dumps(content))
    (here / "study.yaml").write_text(
        "of: loops\nbase: l.yaml\n"
        "vary:\n  application.iterations.count: [0, 4294967296, 4611686018427387904]\n"
        "metrics: {t_loop: t_loop, n: iterations}\n"
    )
    mlsim("study", "study.yaml", "--out", "out")
    table = pl.read_csv(next((here / "out").glob("*.csv")))
    assert table["n"].to_list() == [0, 2**32, LONGEST]
    facts = json.loads(mlsim("advise", "l.yaml", "--technique", "GSS,FAC2", "--json"))
    assert facts["best"]["technique"] in ("GSS", "FAC2")
    assert facts["best"]["t_loop"] == pytest.approx((1 << 40) * 0.5e-3 / 4, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--profile", "exponential"), r"would take 17,592\.2 GB of memory or more"),
        (
            ("--iterations", str(1 << 43), "--set", "application.time_steps=1000000"),
            r"1,000,000 time steps; allowed: 4,611,686,018,427,387,904 \(2\^62\) iterations",
        ),
    ],
)
def test_more_than_memory_or_integers_hold_is_refused_before(
    here: Path, words: tuple[str, ...], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        mlsim(*LOOP, "--iterations", str(1 << 40), *words)


def test_chunks_that_memory_does_not_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_MEMORY", "1e-6")
    with pytest.raises(InputError, match=r"chunks of a loop: .*0\.0 GB"):
        run(CostSums.linear(1 << 32, 1e-3, 0.0), "mFSC", "dca")
