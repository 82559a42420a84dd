"""``mlsim loop`` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

LOOP = ("loop", "--pes", "4x4", "--profile", "exponential", "--mean", "1ms", "--iterations", "2000")
ONE_LOOP = {
    "chunk-sizes.png",
    "chunks.parquet",
    "jobs.parquet",
    "loop.yaml",
    "loops.parquet",
    "manifest.json",
    "nodes.parquet",
    "occupancy.parquet",
    "pes.parquet",
    "pes.png",
    "summary.json",
    "versions.json",
}


def facts(done) -> list[dict]:
    assert done.code == 0, done.err
    return json.loads(done.out)["loops"]


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.slow
def test_a_table_of_techniques_and_models_marks_the_best(mlsim, small: Path):
    options = ("--technique", "static,SS,GSS", "--model", "cca,dca", "--injected-delay", "10us")
    done = mlsim(*LOOP, *options)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines() if " cca " in line or " dca " in line]
    assert [row[:2] for row in rows] == [[t, m] for t in ("STATIC", "SS", "GSS") for m in ("cca", "dca")]
    assert sum("*" in row for row in rows) == 1
    loops = facts(mlsim(*LOOP, *options, "--json"))
    best = min(range(6), key=lambda row: loops[row]["t_loop"])
    assert "*" in rows[best]
    assert f"shortest: {loops[best]['technique']} {loops[best]['model']}" in done.out
    assert not (small / "runs").exists()


def test_json_has_every_metric(mlsim):
    (loop,) = facts(mlsim(*LOOP, "--technique", "GSS", "--json"))
    assert (loop["nodes"], loop["pes"], loop["iterations"]) == (4, 16, 2000)
    assert loop["imbalance"] == pytest.approx((1 - 1 / loop["max_over_mean"]) * 100)
    assert loop["efficiency"] == pytest.approx(loop["busy"] / (16 * loop["t_loop"]))


def test_one_loop_fills_the_directory(mlsim, small: Path):
    done = mlsim(*LOOP, "--technique", "FAC2", "--out", "one", "--json", "--otf2")
    (loop,) = facts(done)
    assert names(small / "one") == ONE_LOOP | {"trace"}
    assert (small / "one" / "trace" / "traces.otf2").exists()
    assert json.loads((small / "one" / "summary.json").read_text()) == json.loads(done.out)
    chunks = pl.read_parquet(small / "one" / "chunks.parquet")
    assert len(chunks) == loop["steps"]
    assert chunks["size"].sum() == 2000
    assert len(pl.read_parquet(small / "one" / "pes.parquet")) == 16


@pytest.mark.slow
def test_several_loops_have_a_directory_each(mlsim, small: Path):
    assert mlsim(*LOOP, "--technique", "SS,GSS", "--model", "cca", "--out", "two").code == 0
    together = {"chunk-sizes.png", "loops.csv", "manifest.json", "summary.json"}
    assert names(small / "two") == {"SS-cca", "GSS-cca"} | together
    assert names(small / "two" / "SS-cca") == ONE_LOOP
    assert pl.read_csv(small / "two" / "loops.csv")["technique"].to_list() == ["SS", "GSS"]


def test_without_chunks(mlsim, small: Path):
    assert mlsim(*LOOP, "--out", "one", "--no-chunks").code == 0
    assert names(small / "one") == ONE_LOOP - {"chunks.parquet", "pes.png", "chunk-sizes.png"}


@pytest.mark.slow
def test_what_was_written_runs_again_with_the_same_results(mlsim, small: Path):
    assert mlsim(*LOOP, "--technique", "AF", "--seed", "7", "--speeds", "1x2,0.5x2", "--out", "one").code == 0
    assert mlsim("loop", "one/loop.yaml", "--out", "again").code == 0
    for name in ONE_LOOP - {"versions.json", "manifest.json"}:  # which tell where the scenario was read
        assert (small / "one" / name).read_bytes() == (small / "again" / name).read_bytes(), name


def test_a_scenario_file_gives_platform_and_application(mlsim):
    (loop,) = facts(mlsim("loop", "small.yaml", "--run-time", "100 s", "--json"))
    assert (loop["technique"], loop["pes"], loop["iterations"]) == ("GSS", 16, 64)
    assert loop["busy"] == pytest.approx(1600, rel=0.2)
    (loop,) = facts(
        mlsim("loop", "small.yaml", "--run-time", "100 s", "--pes", "8", "--technique", "ss", "--json")
    )
    assert (loop["technique"], loop["pes"], loop["iterations"]) == ("SS", 8, 32)


def test_speeds_are_relative_to_the_speed_at_which_costs_hold(mlsim):
    constant = ("loop", "--pes", "2x1", "--profile", "constant", "--mean", "1 s", "--iterations", "2")
    (loop,) = facts(mlsim(*constant, "--speeds", "0.5,2", "--json"))
    assert loop["busy"] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--technique", "GSSS"), ("GSSS", "'GSS'")),
        (("--model", "cda"), ("cda", "cca")),
        (("--pes", "4xx4"), ("--pes 4xx4", "16x16")),
        (("--pes", "0x4"), ("--pes 0x4",)),
        (("--pes", "4x" * 20_000), ("--pes 4x4x", "16x16")),
        (("--speeds", "1x3"), ("--speeds 1x3", "3 nodes", "has 4")),
        (("--speeds", "0x4"), ("--speeds 0x4", "more than 0")),
        (("--iterations", "-5"), ("--iterations: -5", "0 to")),
        (("--profile", "job"), ("--mean: not for profile: job",)),
        (("--profile", "mandelbrot"), ("2000", "square", "1936", "2025")),
        (("--injected-delay", "10 uss"), ("--injected-delay: ", "10 uss")),
        (("--set", "batch.policy=SAF"), ("batch.policy", "no batch")),
        (("--set", "applcation.min_chunk=2"), ("applcation", "application")),
        (("--otf2",), ("--otf2", "--out")),
        (("--no-chunks",), ("--no-chunks", "--out")),
        (("--out", "small.csv/there"), ("small.csv",)),
        (("--run-time", "1 mn"), ("--run-time", "1 mn")),
    ],
)
def test_bad_input_is_one_clear_message(mlsim, small: Path, options, words):
    before = names(small)
    done = mlsim(*LOOP, *options)
    assert done.code == 2, done.out
    assert "Traceback" not in done.err
    assert len(done.err) < 2_000
    for word in words:
        assert word in done.err
    assert names(small) == before


def test_a_column_of_the_costs_is_chosen(mlsim, small: Path):
    (small / "costs.csv").write_text("node,seconds\n1,0.5\n2,0.25\n")
    loop = "loop", "--pes", "1x2", "--profile", "file", "--costs", "costs.csv", "--json"
    for column, total in ((("--column", "node"), 3.0), (("--column", "2"), 0.75), ((), 0.75)):
        assert facts(mlsim(*loop, *column))[0]["busy"] == pytest.approx(total)
    (small / "costs.csv").write_text("1,0.5\n2,0.25\n")
    done = mlsim(*loop)
    assert done.code == 2
    assert "costs.csv:1: 2 columns, 1 (1, 2), 2 (0.5, 0.25): which one holds the costs?" in done.err


def test_a_file_of_costs_takes_the_place_of_others(mlsim, small: Path):
    (small / "costs.csv").write_text("seconds\n0.5\n0.25\n")
    (small / "loop.yaml").write_text(
        "platform: {nodes: [{name: n, count: 1, cores: 2}]}\nworkload: {path: none.swf}\n"
        "application: {model: loop, costs: {profile: exponential, mean: 1 ms}, iterations: {count: 9}}\n"
    )
    for words in (("--pes", "1x2"), ("--pes", "1x2", "--profile", "file"), ("--pes", "1x2", "--column", "1")):
        (loop,) = facts(mlsim("loop", *words, "--costs", "costs.csv", "--json"))
        assert (loop["iterations"], loop["busy"]) == (2, pytest.approx(0.75))
    done = mlsim("loop", "--pes", "1x2", "--profile", "constant", "--mean", "1s", "--costs", "costs.csv")
    assert done.code == 2
    assert "--costs: not for profile: constant, which takes mean, calibrate" in done.err
    done = mlsim("loop", "loop.yaml", "--costs", "costs.csv")
    assert done.code == 2
    assert "iterations: not with costs.profile: file" in done.err
    (loop,) = facts(
        mlsim("loop", "loop.yaml", "--costs", "costs.csv", "--set", "application.iterations=null", "--json")
    )
    assert (loop["iterations"], loop["busy"]) == (2, pytest.approx(0.75))


def test_advice_on_what_is_not_there_says_what_records_a_loop(mlsim):
    done = mlsim("advise", "runs/none")
    assert (done.code, done.out) == (2, "")
    assert "runs/none: there is no such scenario or run; mlsim loop FILE --out DIR records a loop" in done.err


def test_a_loop_needs_a_machine_and_costs_a_run_time(mlsim):
    assert "--pes" in mlsim("loop", "--profile", "constant", "--mean", "1ms").err
    assert "--speeds" in mlsim("loop", "small.yaml", "--speeds", "1x4").err
    done = mlsim("loop", "small.yaml")
    assert (done.code, "--run-time" in done.err) == (2, True)
