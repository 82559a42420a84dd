"""Networks and slow-downs as a user of the command line meets them."""

from __future__ import annotations

from pathlib import Path

import otf2
import polars as pl
import pytest

FAT_TREE = "platform.network={topology: fat-tree, ports: 4, latency: 1 s, bandwidth: 1 Tbit/s}"
SLOW = "platform.perturbations=[{nodes: '1-2', from: 20, to: 60, factor: 0.5}]"
FAILING = "platform.perturbations=[{factor: [0.1, 0.5], mean_time_between: 30, mean_duration: 10}]"


def loop_times(mlsim, small: Path, name: str, *overrides: str) -> dict[int, float]:
    options = [word for override in overrides for word in ("--set", override)]
    done = mlsim("run", "small.yaml", "--quiet", "--out", name, *options)
    assert done.code == 0, done.err
    loops = pl.read_parquet(small / name / "loops.parquet")
    return dict(zip(loops["job_id"].to_list(), loops["t_loop"].to_list(), strict=True))


@pytest.mark.slow
def test_far_nodes_and_slow_nodes_take_longer(mlsim, small: Path):
    near = loop_times(mlsim, small, "near")
    far = loop_times(mlsim, small, "far", FAT_TREE)
    slow = loop_times(mlsim, small, "slow", SLOW)
    assert far[1] > near[1] + 5.0  # job 1 is on four nodes; a chunk takes several messages of 2 to 4 s
    assert slow[1] > near[1] + 5.0
    assert all(slow[job] >= near[job] for job in near)


@pytest.mark.slow
def test_random_slow_downs_are_the_same_in_every_run(mlsim, small: Path):
    first = loop_times(mlsim, small, "first", FAILING)
    assert first == loop_times(mlsim, small, "second", FAILING)
    assert first != loop_times(mlsim, small, "third", FAILING, "seed=4")
    for name in ("jobs", "chunks", "messages", "pes"):
        paths = [small / run / f"{name}.parquet" for run in ("first", "second")]
        assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.slow
def test_the_trace_shows_nodes_as_before(mlsim, small: Path):
    trees = []
    for name, overrides in (("near", ()), ("far", (FAT_TREE, FAILING))):
        loop_times(mlsim, small, name, *overrides)
        with otf2.reader.open(str(small / name / "trace" / "traces.otf2")) as trace:
            nodes = trace.definitions.system_tree_nodes
            trees.append([(node.class_name, node.name, node.parent and node.parent.name) for node in nodes])
    assert trees[0] == trees[1]
    assert trees[0][-1] == ("node", "n3", "n")


@pytest.mark.slow
def test_an_edge_list_is_looked_up_beside_the_scenario(mlsim, small: Path):
    (small / "links.csv").write_text("n0,s\nn1,s\nn2,s\n")
    edges = "platform.network={topology: edge-list, path: links.csv}"
    done = mlsim("check", "small.yaml", "--set", edges)
    assert done.code == 2
    assert done.err == (
        "mlsim: small.yaml: platform.network: the edge list has no link of n3; every node needs one\n"
    )
    (small / "links.csv").write_text("n0,s\nn1,s\nn2,s\nn3,s\n")
    assert mlsim("check", "small.yaml", "--set", edges).code == 0
    assert len(loop_times(mlsim, small, "here", edges)) == 4
    missing = mlsim("check", "small.yaml", "--set", edges.replace("links", "lnks"))
    assert missing.code == 2
    assert "platform.network.path: there is no file 'lnks.csv'" in missing.err
    assert "did you mean links.csv?" in missing.err


def test_a_topology_that_is_too_small(mlsim):
    done = mlsim("run", "small.yaml", "--set", FAT_TREE, "--set", "platform.nodes.0.count=17")
    assert done.code == 2
    assert "a fat-tree of switches with 4 ports holds 16 nodes, and there are 17; 6 ports hold 54" in done.err


def test_topologies_are_listed(mlsim):
    done = mlsim("list", "topologies", env={"COLUMNS": "200"})
    assert done.code == 0
    for word in ("fully-connected", "star", "fat-tree", "dragonfly", "torus", "edge-list", "k³/4"):
        assert word in done.out


def test_the_resolved_scenario_has_network_and_perturbations(mlsim):
    done = mlsim("check", "small.yaml", "--resolved", "--set", FAT_TREE, "--set", SLOW)
    assert "    topology: fat-tree\n" in done.out
    assert "    ports: 4\n" in done.out
    assert "  - nodes: 1-2\n    from: 20 s\n    to: 60 s\n    factor: 0.5\n" in done.out
    assert done.err == ""
