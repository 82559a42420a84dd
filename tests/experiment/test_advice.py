"""Advice on techniques: of a scenario, and of what a run has recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.experiment import loop_from_mapping, run_loop, run_loops
from mlsim.experiment.advice import Advice, advise
from mlsim.experiment.recorded_loop import HIDDEN, maker_of, rearranged, recorded_loop
from mlsim.mpi.loop_options import LoopOptions
from mlsim.mpi.real_validation import charges_of, keys_of, read_machine
from mlsim.scenario import Scenario
from mlsim.techniques import TECHNIQUES

GROUPS = [
    {"name": "slow", "count": 2, "cores": 2, "speed": "1 GFLOP/s"},
    {"name": "fast", "count": 1, "cores": 3, "speed": "3 GFLOP/s"},
]
LOOP: dict[str, Any] = {
    "platform": {"nodes": GROUPS, "reference_speed": "1 GFLOP/s"},
    "application": {
        "iterations": {"count": 400},
        "costs": {"profile": "exponential", "mean": "1 ms"},
        "technique": "SS",
        "execution": {"model": "dca", "atomic_service": "2 us"},
    },
}
MACHINE = {
    "message": 2e-6,
    "noticed": 4e-6,
    "recursive": 1e-6,
    "straightforward": 5e-7,
    "atomic": 8e-7,
    "break": 1e-6,
}


def maker(content: Mapping[str, Any]) -> Callable[[Mapping[str, object]], Scenario]:
    return lambda changes: loop_from_mapping(content, changes)


def test_choices_take_what_loops_take() -> None:
    advice = advise(maker(LOOP), ["GSS", "FAC2"], ["cca", "dca"], named=True, seeds=2)
    labels = {choice.label for choice in advice.choices}
    assert labels == {"SS dca", "STATIC dca", "GSS cca", "GSS dca", "FAC2 cca", "FAC2 dca"}
    assert (advice.now.label, advice.static.label) == ("SS dca", "STATIC dca")
    assert [(one.seed, one.factor) for one in advice.variations] == [
        (seed, factor) for factor in (1.0, 0.8, 1.2) for seed in (0, 1)
    ]
    for choice in advice.choices:
        keys = {"application.technique": choice.technique, "application.execution.model": choice.model}
        for variation, t_loop in zip(advice.variations, choice.t_loop, strict=True):
            costs = {
                "application.execution.atomic_service": f"{2e-6 * variation.factor!r} s",
                "platform.network.latency": f"{5e-7 * variation.factor!r} s",
                "platform.network.intra_node_latency": f"{1e-7 * variation.factor!r} s",
            }
            loop = run_loop(loop_from_mapping(LOOP, {**keys, **costs, "seed": variation.seed}))
            assert t_loop == pytest.approx(loop.facts["t_loop"], rel=1e-12)
    means = [choice.mean for choice in advice.choices]
    assert means == sorted(means)
    least = np.min([choice.t_loop for choice in advice.choices], axis=0)
    for choice in advice.choices:
        assert choice.as_good == np.mean(np.array(choice.t_loop) <= 1.01 * least)


def test_nothing_is_varied_where_nothing_is_random_or_charged() -> None:
    content = {
        "platform": {"nodes": GROUPS[:1], "network": {"latency": "0 s", "intra_node_latency": "0 s"}},
        "application": {"iterations": {"count": 40}, "costs": {"profile": "constant", "mean": "1 ms"}},
    }
    advice = advise(maker(content), ["GSS"], ["dca"], named=True)
    assert [(one.seed, one.factor) for one in advice.variations] == [(0, 1.0)]


def test_the_advice_is_to_stay_where_nothing_is_much_better() -> None:
    advice = advise(maker(LOOP), ["AF", "GSS"], ["dca"], named=True, seeds=1)
    assert advice.best is advice.now
    assert advice.now.technique == "SS"
    slow = {**LOOP, "application": {**LOOP["application"], "technique": "STATIC"}}
    advice = advise(maker(slow), ["SS", "FAC2"], ["dca"], named=True, seeds=1)
    assert advice.best is advice.choices[0]
    assert advice.best.mean < 0.7 * advice.now.mean


def test_techniques_that_need_more_are_left_out_unless_they_are_named() -> None:
    advice = advise(maker(LOOP), ["FSC", "GSS"], ["dca"], named=False, seeds=1)
    assert list(advice.left_out) == ["FSC dca"]
    assert "sigma" in advice.left_out["FSC dca"]
    with pytest.raises(InputError, match="sigma"):
        advise(maker(LOOP), ["FSC", "GSS"], ["dca"], named=True, seeds=1)


@pytest.mark.parametrize("model", ["cca", "dca"])
def test_a_record_of_single_iterations_gives_back_the_loop(tmp_path: Path, model: str) -> None:
    changes = {"application.execution.model": model}
    run_loops([loop_from_mapping(LOOP, changes)], out=tmp_path / "run")
    record = recorded_loop(tmp_path / "run")
    assert (record.technique, record.model, record.chunks, record.measured) == ("SS", model, 400, False)
    from mlsim.cosim.simulation import loop_costs

    assert record.costs == pytest.approx(np.diff(loop_costs(loop_from_mapping(LOOP))), rel=1e-9)
    with maker_of(record) as (make, _):
        for technique in ("SS", "STATIC", "GSS", "AF"):
            keys = {"application.technique": technique}
            found = run_loop(make(keys)).facts["t_loop"]
            assert found == pytest.approx(run_loop(loop_from_mapping(LOOP, changes | keys)).facts["t_loop"])
        assert run_loop(make({})).facts["t_loop"] == pytest.approx(record.t_loop)


def test_iterations_of_a_chunk_share_its_time(tmp_path: Path) -> None:
    run_loops([loop_from_mapping(LOOP, {"application.technique": "GSS"})], out=tmp_path / "run")
    record = recorded_loop(tmp_path / "run")
    chunks = pl.read_parquet(tmp_path / "run" / "chunks.parquet").sort("first")
    ends = np.cumsum(record.costs)[(chunks["first"] + chunks["size"]).to_numpy() - 1]
    speed = np.array([1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0])[chunks["pe"].to_numpy()]
    work = ((chunks["end_time"] - chunks["start_time"]).to_numpy() * speed).cumsum()
    assert ends == pytest.approx(work)


def test_a_job_of_a_run_is_advised_on_its_own_nodes(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,run_time,walltime,processors\n7,0,10,20,4\n8,0,10,20,3\n"
    )
    content = {
        **LOOP,
        "workload": {"path": str(tmp_path / "jobs.csv"), "mapping": "core"},
        "batch": {"on_overrun": "extend"},
        "output": {"trace": "chunks"},
    }
    content["application"] = {**LOOP["application"], "model": "loop"}
    run = mlsim.run(content, out=tmp_path / "run")
    with pytest.raises(InputError, match=r"2 jobs executed loops; choose one with --job, such as \[7, 8\]"):
        recorded_loop(tmp_path / "run")
    with pytest.raises(InputError, match="--job 9: no job of that number"):
        recorded_loop(tmp_path / "run", 9)
    for number in (7, 8):
        record = recorded_loop(tmp_path / "run", number)
        loop = run.loops.filter(pl.col("job_id") == number)
        assert record.t_loop == loop["t_loop"][0]
        with maker_of(record) as (make, _):
            assert run_loop(make({})).facts["t_loop"] == pytest.approx(record.t_loop)


def test_records_without_chunks_say_what_to_do(tmp_path: Path) -> None:
    run_loops([loop_from_mapping(LOOP)], out=tmp_path / "run", chunks=False)
    with pytest.raises(InputError, match="has no chunks; run it again"):
        recorded_loop(tmp_path / "run")


def test_a_measured_machine_is_charged(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(MACHINE))
    machine = read_machine(file)
    for technique, model, charges in (
        ("GSS", "cca", (3e-6, 1e-6, 0.0)),
        ("GSS", "dca", (0.0, 5e-7, 4e-7)),
        ("WF", "dca", (0.0, 5e-7, 8e-7)),
    ):
        options = LoopOptions(n=1, technique=technique, model=model)
        assert charges_of(machine, options, 2) == pytest.approx(charges)
    assert keys_of(machine, "GSS", "cca", 1e-6)["application.execution.break_after"] == 75
    charged = advise(
        maker(LOOP),
        ["GSS"],
        ["cca"],
        named=True,
        seeds=1,
        charge=lambda technique, model: keys_of(machine, technique, model, 1e-3),
    )
    keys: dict[str, object] = {"application.technique": "GSS", "application.execution.model": "cca"}
    loop = run_loop(loop_from_mapping(LOOP, {**keys, **keys_of(machine, "GSS", "cca", 1e-3)}))
    (gss,) = (choice for choice in charged.choices if choice.label == "GSS cca")
    assert gss.t_loop[0] == loop.facts["t_loop"]
    for content, words in (
        ("[]", "not what mlsim mpi calibrate"),
        (json.dumps({**MACHINE, "atomic": "1 us"}), "atomic: 1 us; allowed: seconds"),
        (json.dumps({"atomic": 1e-6}), "break: missing"),
    ):
        file.write_text(content)
        with pytest.raises(InputError, match=words):
            read_machine(file)


def advise_on(*words: str | Path) -> str:
    from typer.testing import CliRunner

    from mlsim.cli.main import app

    done = CliRunner().invoke(app, ["advise", *map(str, words)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


# Costs are unequal within the few chunks that STATIC and GSS assign.
@pytest.mark.parametrize(
    ("changes", "per_pe", "reason"),
    [
        ({"application.technique": "GSS"}, 24 / 7, "(3.43 per PE) hide how costs differ"),
        # the same chunks in every time step show no more
        (
            {"application.technique": "STATIC", "application.time_steps": 30},
            1.0,
            "210 chunks at 7 different iterations on 7 PEs (1 per PE) hide",
        ),
    ],
)
def test_records_that_hide_too_much_allow_no_verdict(
    tmp_path: Path, changes: dict[str, object], per_pe: float, reason: str
) -> None:
    run_loops([loop_from_mapping(LOOP, changes)], out=tmp_path / "run")
    told = advise_on(tmp_path / "run")
    assert told.startswith("No verdict: ")
    assert reason in told
    assert "of the loop time (allowed: 25%); another technique can save at most" in told
    assert "--set application.technique=SS, and run mlsim advise" in told
    facts = json.loads(advise_on(tmp_path / "run", "--json", "--out", tmp_path / "advice"))
    assert (facts["best"], facts["verdict"]) == (None, None)
    assert reason in facts["reason"]
    assert "application.technique=SS" in facts["instead"]
    assert facts["record"]["chunks_per_pe"] == pytest.approx(per_pe)
    assert facts["record"]["least_chunks_per_pe"] == 20
    assert {path.name for path in (tmp_path / "advice").iterdir()} == {"advice.json", "manifest.json"}
    assert json.loads((tmp_path / "advice" / "advice.json").read_text()) == facts


def record_of(
    directory: Path, costs: np.ndarray[Any, Any], technique: str, min_chunk: int = 1, **execution: str
) -> tuple[dict[str, Any], Path]:
    """Record a loop of these costs on 16 PEs of one node; return it with its directory."""
    directory.mkdir()
    np.save(directory / "costs.npy", costs)
    content = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 16}]},
        "application": {
            "costs": {"profile": "file", "path": str(directory / "costs.npy")},
            "technique": technique,
            "min_chunk": min_chunk,
            "execution": {"model": "dca", "atomic_service": "2 us", **execution},
        },
        "output": {"pictures": False},
    }
    run_loops([loop_from_mapping(content)], out=directory / "run")
    return content, directory / "run"


def advice_on(run: Path, techniques: list[str], models: list[str]) -> Advice:
    record = recorded_loop(run)
    with maker_of(record) as (make, hidden):
        return advise(make, techniques, models, named=False, record=record, hidden=hidden)


def test_a_balanced_record_of_few_chunks_is_left_alone(tmp_path: Path) -> None:
    costs = np.random.default_rng(1).normal(1e-3, 1e-4, 3200)
    _, run = record_of(tmp_path / "a", costs, "STATIC")
    record = recorded_loop(run)
    assert record.has_hidden_costs
    assert record.hides_too_much
    assert record.most_saved == pytest.approx(1.0 - costs.sum() / 16 / record.t_loop)
    told = advise_on(run, "--technique", "SS,FAC2", "--model", "dca")
    most = f"{record.most_saved:.1%}"
    assert f"Recommended: leave it, STATIC dca; no choice saves more than {most}, whatever costs" in told
    facts = json.loads(advise_on(run, "--technique", "SS", "--json", "--out", tmp_path / "advice"))
    assert facts["verdict"] == "leave"
    assert facts["best"]["technique"] == "STATIC"
    assert facts["most_saved"] == record.most_saved < 0.05
    assert (tmp_path / "advice" / "advice.png").exists()


def test_orders_of_costs_within_chunks_are_variations(tmp_path: Path) -> None:
    _, run = record_of(tmp_path / "a", np.linspace(2e-3, 1e-4, 2000), "mFSC")
    advice = advice_on(run, ["SS", "TSS", "FAC2"], ["dca"])
    orders = [one.within_chunks for one in advice.variations]
    assert orders == ["even"] * 3 + list(HIDDEN)
    by_label = {choice.label: choice for choice in advice.choices}
    recorded = by_label["mFSC dca"]  # its chunks are the recorded ones: only their sums count
    assert recorded.t_loop[3:] == pytest.approx([recorded.t_loop[0]] * len(HIDDEN), rel=1e-9)
    coarse = by_label["STATIC dca"]
    assert len(set(coarse.t_loop[3:])) > 1
    for choice in advice.choices:
        even = np.mean([other.t_loop[:3] for other in advice.choices], axis=1).min()
        least = np.array([other.t_loop for other in advice.choices]).min(axis=0)
        longer = [choice.mean / even, *(np.array(choice.t_loop) / least)[3:]]
        assert choice.regret == pytest.approx(max(longer) - 1.0)
        assert choice.mean == pytest.approx(np.mean(choice.t_loop[:3]))
    assert advice.choices[0].regret == min(choice.regret for choice in advice.choices)
    assert advice.verdict is not None


EVERYWHERE = "first", "last"  # half of the hidden costs is spread evenly


def test_rearranged_costs_have_the_sums_of_the_chunks(tmp_path: Path) -> None:
    costs = np.random.default_rng(2).exponential(1e-3, 4000)
    for technique, min_chunk, is_bounded in (("GSS", 1, False), ("SS", 5, True)):
        _, run = record_of(tmp_path / technique, costs, technique, min_chunk)
        record = recorded_loop(run)
        sums = np.add.reduceat(record.costs, record.edges[:-1])
        for name in HIDDEN:
            other = rearranged(record, name)
            assert np.add.reduceat(other, record.edges[:-1]) == pytest.approx(sums)
            assert (other >= 0.0).all()
            assert (other.min() > 0.0) == (is_bounded or name in EVERYWHERE)
            assert not np.allclose(other, record.costs)
        first, front = rearranged(record, "first"), rearranged(record, "front")
        k = int(sums.argmax())
        chunk = slice(record.edges[k], record.edges[k + 1])
        assert first[chunk].argmax() == 0
        assert rearranged(record, "last")[chunk].argmax() == record.edges[k + 1] - record.edges[k] - 1
        half = -(-(record.edges[k + 1] - record.edges[k]) // 2)
        assert len(set(front[chunk][:half])) == 1
        assert front[chunk][0] > front[chunk][-1]


def test_a_record_of_single_iterations_hides_nothing(tmp_path: Path) -> None:
    run_loops([loop_from_mapping(LOOP, {"application.iterations.count": 139})], out=tmp_path / "run")
    record = recorded_loop(tmp_path / "run")
    assert not record.has_hidden_costs
    assert not record.hides_too_much
    facts = json.loads(advise_on(tmp_path / "run", "--json", "--technique", "GSS", "--seeds", "1"))
    assert facts["best"]["technique"] in ("SS", "GSS", "STATIC")
    assert {one["within_chunks"] for one in facts["variations"]} == {"even"}


def test_a_small_saving_that_is_not_certain_is_left(tmp_path: Path) -> None:
    advice = advise(maker(LOOP), ["AF", "FAC2"], ["dca"], named=True, seeds=5)
    assert advice.most_saved == pytest.approx(
        max(
            1.0 - min(choice.t_loop[k] for choice in advice.choices) / advice.now.t_loop[k]
            for k in range(len(advice.variations))
        )
    )
    near = replace(advice, most_saved=0.05)
    best = replace(advice.now, regret=0.03)
    first = replace(advice.now, technique="AF", regret=0.0, t_loop=tuple(0.97 * t for t in best.t_loop))
    sure = replace(near, choices=[first, best], now=best)
    assert (sure.best, sure.verdict) == (first, "change")
    unsure = replace(first, t_loop=(*first.t_loop[:-1], best.t_loop[-1]))
    assert replace(sure, choices=[unsure, best]).verdict == "leave"
    assert replace(sure, choices=[unsure, best], most_saved=0.06).verdict == "change"
    assert replace(sure, choices=[replace(unsure, regret=0.06), best], most_saved=0.06).verdict == "keep"
    lost = replace(best, regret=0.09)
    wrong = replace(sure, choices=[replace(unsure, regret=0.06), lost], now=lost, most_saved=0.06)
    assert wrong.verdict is None
    assert not wrong.is_sure


def test_time_steps_of_a_record_are_averaged(tmp_path: Path) -> None:
    run_loops([loop_from_mapping(LOOP, {"application.time_steps": 3})], out=tmp_path / "run")
    record = recorded_loop(tmp_path / "run")
    assert (record.chunks, record.parts, len(record.costs)) == (1200, 400, 400)
    with maker_of(record) as (make, _):
        assert run_loop(make({})).facts["t_loop"] == pytest.approx(record.t_loop, rel=1e-3)


SHAPES = "increasing", "hill", "exponential", "few long"
RECORDS = "STATIC", "FAC2", "FISS", "SS, min_chunk 5", "SS"


def costs_of(shape: str) -> np.ndarray[Any, Any]:
    """Return the costs of 8,000 iterations, of 1 ms on average."""
    n, random = 8000, np.random.default_rng(3)
    place = np.arange(n) / n
    costs = {
        "increasing": 0.1 + 1.8 * place,
        "hill": 0.2 + 8.0 * np.exp(-(((place - 0.4) / 0.04) ** 2)),
        "exponential": random.exponential(1.0, n),
        "few long": np.where(random.random(n) < 0.02, 20.0, 0.6),
    }[shape]
    return costs * (1e-3 / costs.mean())


@pytest.mark.slow
@pytest.mark.parametrize("technique", RECORDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_advice_on_a_record_is_right_or_none(tmp_path: Path, shape: str, technique: str) -> None:
    name, _, chunk = technique.partition(", min_chunk ")
    content, run = record_of(
        tmp_path / "a", costs_of(shape), name, int(chunk or 1), chunk_calculation="80 us"
    )
    advice = advice_on(run, list(TECHNIQUES), ["cca", "dca"])
    truth = advise(maker(content), list(TECHNIQUES), ["cca", "dca"], named=False)
    real = {choice.label: choice.t_loop[0] for choice in truth.choices}
    longer = real[advice.best.label] / min(real.values()) - 1.0
    answer = f"{advice.best.technique} `{advice.best.model}`" if advice.verdict else "-"
    good = f"{round(advice.best.as_good * len(advice.variations))} of {len(advice.variations)}"
    current = real[advice.now.label] / min(real.values()) - 1.0
    cells = shape, technique, advice.verdict, answer, good, f"{100 * current:.1f}", f"{100 * longer:.1f}"
    print(f"| {' | '.join(map(str, cells))} |")  # a row of the table in docs/advise.md; pytest -rP prints it
    assert advice.verdict is None or longer <= 0.05
    assert not (advice.is_sure and longer > 0.01)
    if technique == "SS":  # all costs are known
        assert advice.verdict is not None
