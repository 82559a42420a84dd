"""One loop alone, from Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.experiment import LoopResult, choices, load_loop, loop_from_mapping, run_loop, run_loops

BASE = {
    "seed": 3,
    "platform": {"nodes": [{"name": "n", "count": 2, "cores": 3}, {"name": "m", "count": 1, "cores": 2}]},
    "application": {
        "costs": {"profile": "exponential", "mean": "1 ms"},
        "iterations": {"count": 500},
        "technique": "GSS",
    },
}


@pytest.mark.slow
def test_records_are_those_of_a_run_with_one_job():
    result = run_loop(loop_from_mapping(BASE))
    records = result.records
    assert len(records.jobs.job_id) == len(records.loops.job) == 1
    assert records.occupancy.count.tolist() == [2, 1]
    assert records.occupancy.cores.tolist() == [3, 2]
    assert records.jobs.cores.tolist() == [8]
    assert records.jobs.end_time[0] == records.pes.told.max()
    assert result.facts["pes"] == len(result.pes) == 8


def test_every_iteration_once_and_the_facts_fit_the_chunks():
    result = run_loop(loop_from_mapping(BASE))
    chunks = result.chunks.sort("first")
    ends = chunks["first"] + chunks["size"]
    assert chunks["first"].to_list() == [0, *ends.to_list()[:-1]]
    assert ends[-1] == 500
    finish = [chunks.filter(chunks["pe"] == pe)["end_time"].max() or 0.0 for pe in range(8)]
    assert result.facts["t_loop"] == max(finish)
    assert result.facts["mean_finish"] == pytest.approx(np.mean(finish))
    assert result.facts["cov"] == pytest.approx(np.std(finish) / np.mean(finish))
    assert result.facts["imbalance"] == pytest.approx((1 - np.mean(finish) / max(finish)) * 100)
    assert result.facts["busy"] == pytest.approx((chunks["end_time"] - chunks["start_time"]).sum())


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(st.sampled_from(["STATIC", "SS", "GSS", "FAC2"]), st.sampled_from(["cca", "dca"]), st.integers(0, 9))
def test_the_same_loop_gives_the_same_records(technique, model, seed):
    keys = {"application.technique": technique, "application.execution.model": model, "seed": seed}
    one, other = (run_loop(loop_from_mapping(BASE, keys)) for _ in range(2))
    assert one.facts == other.facts
    assert one.chunks.equals(other.chunks)


def test_choices_are_all_pairs():
    pairs = choices(["SS", "GSS"], ["cca", "dca"])
    assert [tuple(pair.values()) for pair in pairs] == [
        ("SS", "cca"),
        ("SS", "dca"),
        ("GSS", "cca"),
        ("GSS", "dca"),
    ]
    assert choices([], []) == [{}]
    assert choices(["SS"], []) == [{"application.technique": "SS"}]


def test_a_file_may_lack_what_a_loop_does_not_read(tmp_path):
    file = tmp_path / "loop.yaml"
    file.write_text("platform: {nodes: [{name: n, count: 1, cores: 2}]}\n")
    loop = load_loop(file, {"application.costs": {"profile": "constant", "mean": 1.0}})
    assert run_loop(loop).facts["t_loop"] == pytest.approx(1.0, rel=1e-3)
    file.write_text("platform: {nodes: [{name: n, count: 1, cores: 2}]}\nworkload: {path: a, format: odd}\n")
    assert load_loop(file).application.model == "loop"
    file.write_text("platform:\n  nodes: [{name: n, count: 1, coers: 2}]\n")
    with pytest.raises(InputError, match=r"loop.yaml:2: platform.nodes.0.coers: unknown key; did you mean"):
        load_loop(file)


@pytest.mark.parametrize("key", ["workload.path", "batch.policy", "coordination.rca"])
def test_sections_that_are_not_read_cannot_be_set(key):
    with pytest.raises(InputError, match="a loop alone has no"):
        loop_from_mapping(BASE, {key: "x"})


def test_nothing_is_left_when_a_loop_cannot_be_simulated(tmp_path):
    good = loop_from_mapping(BASE)
    bad = loop_from_mapping(BASE, {"application.costs": {"profile": "job"}})
    with pytest.raises(InputError, match="run-time"):
        run_loops([good, bad], out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_never_overwritten(tmp_path):
    with pytest.raises(InputError, match="already exists"):
        run_loops([loop_from_mapping(BASE)], out=tmp_path)


def test_progress_and_directories(tmp_path):
    seen: list[LoopResult] = []
    loops = [loop_from_mapping(BASE, pair) for pair in choices(["SS", "GSS"], ["cca"])]
    results = run_loops(loops, out=tmp_path / "out", progress=seen.append)
    assert [result.label for result in seen] == [result.label for result in results] == ["SS cca", "GSS cca"]
    assert [result.directory.name for result in results] == ["SS-cca", "GSS-cca"]
    assert all(len(result.chunks) == 0 for result in results)
