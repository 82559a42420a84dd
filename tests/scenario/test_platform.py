"""Networks and perturbations in scenario files: what fits together, and what is said when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from mlsim.errors import InputError
from mlsim.scenario import Scenario, dump, from_mapping, loads
from mlsim.scenario.amount_types import node_ranges
from mlsim.scenario.scenario_keys import json_schema
from mlsim.scenario.words import Topology
from tests.scenario.test_writing import accepts

NODES = [{"name": "n", "count": 17, "cores": 4}, {"name": "slow", "count": 3, "cores": 4}]
STRETCH = {"nodes": "0-3 7", "from": "1 h", "to": "2 h", "factor": 0.5}
PROCESS = {"nodes": "slow", "factor": [0.1, 0.5], "mean_time_between": "1 h", "mean_duration": "1 min"}


def text(network: Any = None, perturbations: Any = None, model: str = "loop") -> dict[str, Any]:
    platform = {"nodes": NODES, "network": network, "perturbations": perturbations}
    return {"platform": platform, "workload": {"path": "log.swf"}, "application": {"model": model}}


def scenario(*arguments: Any, **options: Any) -> Scenario:
    return from_mapping(text(*arguments, **options))


def broken(*arguments: Any, **options: Any) -> str:
    with pytest.raises(InputError) as info:
        scenario(*arguments, **options)
    return str(info.value)


FITTING: list[dict[str, Any]] = [
    {"topology": "star", "latency": "1 us"},
    {"topology": "Fat-Tree", "ports": 6},
    {"topology": "dragonfly", "groups": 5, "routers": 2, "nodes_per_router": 2},
    {"topology": "torus", "dimensions": "5x4"},
    {"topology": "torus", "dimensions": [5, 2, 2]},
    {"topology": "torus", "dimensions": 20},
    {"topology": "edge-list", "path": "links.csv"},
    {"topology": "edge-list", "edges": [{"from": "n0", "to": "s", "latency": "1 us"}]},
    {"topology": "edge-list", "edges": [{"from": "n0", "to": "s", "bandwidth": "1 GB/s"}]},
]


@pytest.mark.parametrize("network", FITTING)
def test_networks_survive_a_dump_and_the_schema(network: dict[str, Any]) -> None:
    made = scenario(network)
    written = dump(made)
    assert loads(written) == made
    schema = json_schema()
    wanted = {key: value for key, value in text(network)["platform"].items() if value is not None}
    assert accepts(schema["$defs"]["PlatformConfig"], wanted, schema)
    assert ("edges:" in written) == ("edges" in network)
    assert ("ports:" in written) == ("ports" in network)


def test_values_of_networks() -> None:
    assert scenario(FITTING[1]).platform.network.ports == 6
    assert scenario(FITTING[1]).platform.network.topology is Topology.FAT_TREE
    assert scenario(FITTING[3]).platform.network.dimensions == (5, 4)
    (edge,) = scenario(FITTING[-1]).platform.network.edges
    assert (edge.a, edge.b, edge.latency, edge.bandwidth) == ("n0", "s", None, 8e9)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"topology": "fat-tree", "ports": 4}, "4 ports holds 16 nodes, and there are 20; 6 ports hold 54"),
        ({"topology": "fat-tree", "ports": 5}, "5 is odd; allowed: an even number, 2 to 128"),
        ({"topology": "fat-tree"}, "network.ports: missing; topology: fat-tree needs it"),
        ({"topology": "fat-treee"}, "did you mean 'fat-tree'?"),
        ({"topology": "star", "ports": 6}, "ports: not for topology: star; only fat-tree has ports"),
        ({"dimensions": "5x4"}, "not for topology: fully-connected; only torus has dimensions"),
        ({"topology": "torus", "dimensions": "3x3"}, "3x3 holds 9 nodes, and there are 20; 7x3 holds 21"),
        ({"topology": "torus", "dimensions": "3x"}, "'3x' are no lengths of dimensions; allowed: lengths"),
        ({"topology": "torus", "dimensions": [3, 0]}, "0 is too small"),
        ({"topology": "torus", "dimensions": "2000x2000"}, "2000x2000 is too large"),
        (
            {"topology": "dragonfly", "groups": 2, "routers": 2, "nodes_per_router": 4},
            "2 groups x 2 routers x 4 nodes holds 16 nodes, and there are 20; 3 such groups hold 24",
        ),
        ({"topology": "dragonfly", "groups": 2, "routers": 2}, "nodes_per_router: missing"),
        ({"topology": "edge-list"}, "network.edges: missing; topology: edge-list needs one of edges"),
        (
            {"topology": "edge-list", "path": "x", "edges": [{"from": "a", "to": "b"}]},
            "given together with path",
        ),
        (
            {"topology": "edge-list", "edges": [{"from": "a", "too": "b"}]},
            "did you mean 'to'? allowed: from, to",
        ),
    ],
)
def test_networks_that_do_not_fit(network: dict[str, Any], message: str) -> None:
    found = broken(network)
    assert message in found
    assert len(found.splitlines()) == 1


def test_perturbations_survive_a_dump_and_the_schema() -> None:
    entries = [STRETCH, PROCESS, {"nodes": 3, "factor": 2}]
    made = scenario(perturbations=entries)
    assert loads(dump(made)) == made
    schema = json_schema()
    assert accepts(schema["$defs"]["PlatformConfig"], {"nodes": NODES, "perturbations": entries}, schema)
    stretch, process, forever = made.platform.perturbations
    assert (stretch.begin, stretch.end, stretch.factor, stretch.is_random) == (3600, 7200, (0.5, 0.5), False)
    assert (process.begin, process.end, process.factor, process.is_random) == (0, None, (0.1, 0.5), True)
    assert (forever.nodes, forever.end, forever.factor) == ("3", None, (2, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": "0-3 20"}, "there is no node 20; allowed: 0 to 19, or a group: n, slow"),
        ({"nodes": "slwo"}, "'slwo' is neither node numbers nor a group; did you mean 'slow'?"),
        ({"nodes": "3-2"}, "3-2 begins after its end; write 2-3"),
        ({"nodes": -1}, "-1 names no nodes"),
        ({"factor": 0}, "0 is out of range; allowed: a number, more than 0, or a range"),
        ({"factor": [0.5, 0.1]}, "[0.5, 0.1] begins above its end"),
        ({"factor": [0.5, 0.6, 0.7]}, "a list of 3 is no range"),
        ({"factor": [0.5, 0.6]}, "a range is for a random process"),
        ({"factor": None}, "factor: missing"),
        ({"to": "1 h"}, "perturbations.0.to: is not after from"),
        (
            {"mean_duration": "1 h"},
            "mean_time_between: missing; the random process of mean_duration needs it",
        ),
        ({"form": 3}, "unknown key; did you mean 'from'?"),
    ],
)
def test_perturbations_that_cannot_be(change: dict[str, Any], message: str) -> None:
    found = broken(perturbations=[STRETCH | change])
    assert message in found
    assert len(found.splitlines()) == 1


def test_rigid_jobs_cannot_be_slowed_down() -> None:
    message = broken(perturbations=[STRETCH], model="rigid")
    assert "platform.perturbations: only loops can be slowed down" in message
    assert scenario(perturbations=[], model="rigid").platform.perturbations == ()


def test_a_group_may_be_called_like_numbers() -> None:
    assert node_ranges("7", [("7", 2), ("x", 9)]) == [range(2)]
    assert node_ranges("7, 9-10", [("a", 11)]) == [range(7, 8), range(9, 11)]
    assert node_ranges(None, [("a", 2), ("b", 3)]) == [range(5)]
