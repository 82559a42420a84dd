"""Advice on techniques: of a scenario, and of what a run has recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.experiment import loop_from_mapping, run_loop, run_loops
from mlsim.experiment.advice import advise, maker_of, recorded_loop
from mlsim.mpi.loop_options import LoopOptions
from mlsim.mpi.real_validation import charges_of, keys_of, read_machine
from mlsim.scenario import Scenario

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
    with maker_of(record) as make:
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
    with pytest.raises(InputError, match=r"2 jobs executed loops; say which with --job, such as \[7, 8\]"):
        recorded_loop(tmp_path / "run")
    with pytest.raises(InputError, match="--job 9: no job of that number"):
        recorded_loop(tmp_path / "run", 9)
    for number in (7, 8):
        record = recorded_loop(tmp_path / "run", number)
        loop = run.loops.filter(pl.col("job_id") == number)
        assert record.t_loop == loop["t_loop"][0]
        with maker_of(record) as make:
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


@pytest.mark.parametrize(
    ("changes", "per_pe", "instead"),
    [
        ({"application.technique": "GSS"}, 24 / 7, "--set application.technique=SS"),
        ({"application.iterations.count": 139}, 139 / 7, "profile: file, path: costs.csv"),
        # the same chunks in every time step tell no more
        ({"application.technique": "STATIC", "application.time_steps": 30}, 1.0, "technique=SS"),
    ],
)
def test_records_of_few_chunks_allow_no_verdict(
    tmp_path: Path, changes: dict[str, object], per_pe: float, instead: str
) -> None:
    run_loops([loop_from_mapping(LOOP, changes)], out=tmp_path / "run")
    told = advise_on(tmp_path / "run")
    assert told.startswith("No verdict: ")
    assert "per PE, fewer than 20" in told
    assert instead in told
    facts = json.loads(advise_on(tmp_path / "run", "--json", "--out", tmp_path / "advice"))
    assert facts["best"] is None
    assert instead in facts["instead"]
    assert facts["record"]["chunks_per_pe"] == pytest.approx(per_pe)
    assert facts["record"]["least_chunks_per_pe"] == 20
    assert {path.name for path in (tmp_path / "advice").iterdir()} == {"advice.json", "manifest.json"}
    assert json.loads((tmp_path / "advice" / "advice.json").read_text()) == facts


def test_time_steps_of_a_record_are_averaged(tmp_path: Path) -> None:
    run_loops([loop_from_mapping(LOOP, {"application.time_steps": 3})], out=tmp_path / "run")
    record = recorded_loop(tmp_path / "run")
    assert (record.chunks, record.parts, len(record.costs)) == (1200, 400, 400)
    with maker_of(record) as make:
        assert run_loop(make({})).facts["t_loop"] == pytest.approx(record.t_loop, rel=1e-3)


def test_a_record_of_twenty_chunks_per_pe_allows_a_verdict(tmp_path: Path) -> None:
    run_loops([loop_from_mapping(LOOP, {"application.iterations.count": 140})], out=tmp_path / "run")
    facts = json.loads(advise_on(tmp_path / "run", "--json", "--technique", "GSS", "--seeds", "1"))
    assert facts["best"]["technique"] in ("SS", "GSS", "STATIC")
    assert facts["record"]["chunks_per_pe"] == 20.0
