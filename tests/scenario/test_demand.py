"""What cannot be held or has no end is refused before it begins, with the keys, the amount and a way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mlsim
from mlsim.cosim.simulation import survey
from mlsim.errors import InputError
from mlsim.experiment import loop_from_mapping, run_loop, run_loops
from mlsim.experiment.loops import node_groups
from mlsim.scenario import from_mapping, load, loads
from mlsim.scenario.simulation_demand import Share, check_memory

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


def scenario(path: str = "x.swf", **sections: Any) -> dict[str, Any]:
    platform = {"nodes": [{"name": "n", "count": 4, "cores": 2}]} | sections.pop("platform", {})
    return {"platform": platform, "workload": {"path": path, "mapping": "core"}, **sections}


def group(name: str = "n", count: int = 10_000_000, cores: int = 1) -> dict[str, Any]:
    return {"name": name, "count": count, "cores": cores}


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([group(cores=1_000_000)], "platform.nodes.cores: 10,000,000,000,000 cores: 80,000.0 GB"),
        ([group(f"g{k}") for k in range(30)], "300,000,000 nodes in all groups; allowed: 100,000,000"),
    ],
)
def test_machines_that_cannot_be_held(nodes: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError) as info:
        from_mapping(scenario(platform={"nodes": nodes}))
    assert words in str(info.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"network": {"topology": "star"}}, "platform.network.topology: 10,000,000 nodes to route between"),
        ({"random_failures": [{"mtbf": "1 d", "mttr": "1 h"}]}, "10,000,000 nodes that may fail: 14.0 GB"),
    ],
)
def test_the_memory_that_there_is_decides(monkeypatch, more: dict[str, Any], words: str) -> None:
    large = scenario(platform={"nodes": [group()], **more})
    monkeypatch.setenv("MLSIM_MEMORY", "5")
    with pytest.raises(InputError, match=r"there are 5\.0 GB") as info:
        from_mapping(large)
    assert words in str(info.value)
    assert "MLSIM_MEMORY" in str(info.value)
    monkeypatch.setenv("MLSIM_MEMORY", "64")
    assert from_mapping(large).platform.n_nodes == 10_000_000


def test_loops_that_cannot_be_held(tmp_path: Path) -> None:
    costs = {"profile": "exponential", "mean": "1 ms"}
    per_pe = {"costs": costs, "iterations": {"per_pe": 1_000_000_000}, "technique": "GSS"}
    loop = loop_from_mapping({"platform": {"nodes": [group(count=16, cores=16)]}, "application": per_pe})
    words = r"iterations.per_pe: 1,000,000,000 iterations on each of 256 PEs: 4,096.0 GB"
    with pytest.raises(InputError, match=words):
        run_loop(loop)
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job_id,submit_time,run_time,walltime,processors\n1,0,5,5,1\n2,0,5,5,8\n3,0,5,5,99\n")
    whole = scenario(str(jobs), application={"model": "loop", **per_pe})
    with pytest.raises(InputError, match=r"1,000,000,000 iterations on each of 8 PEs: 128\.0 GB"):
        survey(from_mapping(whole))


def test_loops_on_more_pes_than_one_is_simulated_on(tmp_path: Path) -> None:
    constant = {"costs": {"profile": "constant", "mean": "1 ms"}, "iterations": {"count": 9}}
    words = r"a loop on 10,000,000 PEs or more would take 4\.5 GB .*; allowed: 4,000,000 PEs; try a part"
    for nodes in (group(), group(count=100_000, cores=100)):
        with pytest.raises(InputError, match=words):
            run_loop(loop_from_mapping({"platform": {"nodes": [nodes]}, "application": constant}))
    with pytest.raises(InputError, match=rf"platform\.nodes: {words}"):
        from_mapping(scenario(platform={"nodes": [group()]}, application={"model": "loop", **constant}))
    with pytest.raises(InputError, match=rf"--pes 1x2,10000000x1: {words}"):
        node_groups("1x2,10000000x1")
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job_id,submit_time,run_time,walltime,processors\n1,0,5,5,10000000\n")
    nodes = group(count=100_000, cores=100)
    whole = scenario(str(jobs), platform={"nodes": [nodes]}, application={"model": "loop", **constant})
    with pytest.raises(InputError, match=words):
        mlsim.run(from_mapping(whole))
    assert from_mapping(scenario(platform={"nodes": [nodes]})).platform.n_nodes == 100_000


def test_results_of_many_loops_that_cannot_be_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_MEMORY", "2")
    constant = {"costs": {"profile": "constant", "mean": "1 ms"}, "iterations": {"count": 9}}
    loop = loop_from_mapping({"platform": {"nodes": [group(count=1_000_000)]}, "application": constant})
    with pytest.raises(InputError, match=r"results: of 19 other loops on as many PEs: 2\.6 GB"):
        run_loops([loop] * 20)


def test_failures_without_end(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("job_id,submit_time,run_time,walltime,processors\n1,0,5,5,1\n2,1000,5,5,8\n")
    often = scenario(
        str(jobs), platform={"random_failures": [{"nodes": "0-1", "mtbf": "1 ns", "mttr": "1 ns"}]}
    )
    with pytest.raises(InputError, match=r"random_failures\.0: 2 nodes would fail 1\.0e\+12 times.*1000 s"):
        mlsim.run(from_mapping(often))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("platform.nodes.0.memory", "3e212", "is too large; allowed: at most 1e+15 B"),
        ("batch.backfill_interval", 1.7e308, "is too large; allowed: at most 9.01e+15 s"),
        ("platform.nodes.0.speed", "1e33 FLOP/s", "is too large; allowed: at most 1e+30 FLOP/s"),
        ("description", "x" * 200_000, "is too long; allowed: a text, of at most 100,000 bytes"),
        ("name", "x" * 300, "is too long"),
    ],
)
def test_values_beyond_calculation(key: str, value: object, words: str) -> None:
    with pytest.raises(InputError, match=r"--set ") as info:
        from_mapping(scenario(), overrides={key: value})
    assert words in str(info.value)
    assert len(str(info.value)) < 500


def test_a_file_of_one_long_text_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("description: " + "x" * 7_000_000)
    with pytest.raises(InputError, match="7 MB is too large for a scenario file; allowed: 4 MB"):
        load(path)


def test_thousands_of_unknown_keys_are_told_in_short() -> None:
    text = "platform: {nodes: [{name: n, count: 1, cores: 1}]}\nworkload: {path: x.swf}\n"
    with pytest.raises(InputError) as info:
        loads(text + "".join(f"key{k}: 1\n" for k in range(5_000)))
    assert str(info.value).startswith("scenario: 5000 problems\nscenario:3: key0: unknown key; ")
    assert "and 4980 more" in str(info.value)


def test_shares_are_listed_the_largest_first() -> None:
    shares = [Share(f"key{k}", f"{k} things", k * 1e15) for k in range(9)]
    with pytest.raises(InputError) as info:
        check_memory("here", shares, "it")
    lines = str(info.value).splitlines()
    assert lines[0].startswith("here: it would take 3.6e+07 GB of memory or more; there are ")
    assert [line.split(":")[0].strip() for line in lines[1:-1]] == ["key8", "key7", "key6", "key5"]
    check_memory("here", shares[:1])


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_examples_are_far_from_any_limit(path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MLSIM_MEMORY", "1")
    if "mpi" not in path.parts:
        load(path)


def test_nesting_is_bounded_before_anything_looks_at_it() -> None:
    with pytest.raises(InputError, match="nested too deeply; allowed: 50 levels"):
        loads("platform: " + "[" * 51 + "]" * 51 + "\nworkload: {path: x.swf}\n")
    with pytest.raises(InputError) as info:
        loads("platform: " + "[" * 49 + "]" * 49 + "\nworkload: {path: x.swf}\n")
    assert "nested" not in str(info.value)
