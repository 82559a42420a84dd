"""Topologies and routes: worked examples, and every route against one found by listing them all."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.platform import Network, build_machine
from mlsim.platform.network import TOPOLOGIES, Routes, build_graph, edges_of
from mlsim.scenario import PlatformConfig
from mlsim.scenario.platform_section import NetworkConfig
from mlsim.scenario.words import Topology
from tests.reference.routes import best_route

SMALL: list[tuple[int, dict[str, Any]]] = [
    (1, {"topology": "star"}),
    (5, {"topology": "star"}),
    (2, {"topology": "fat-tree", "ports": 2}),
    (16, {"topology": "fat-tree", "ports": 4}),
    (11, {"topology": "fat-tree", "ports": 4}),
    (54, {"topology": "fat-tree", "ports": 6}),
    (1, {"topology": "dragonfly", "groups": 1, "routers": 1, "nodes_per_router": 3}),
    (36, {"topology": "dragonfly", "groups": 9, "routers": 4, "nodes_per_router": 1}),
    (20, {"topology": "dragonfly", "groups": 4, "routers": 3, "nodes_per_router": 2}),
    (12, {"topology": "dragonfly", "groups": 7, "routers": 1, "nodes_per_router": 2}),
    (24, {"topology": "torus", "dimensions": "4x3x2"}),
    (20, {"topology": "torus", "dimensions": "4x3x2"}),
    (7, {"topology": "torus", "dimensions": "7"}),
    (1, {"topology": "torus", "dimensions": "1x1"}),
]


def network(nodes: int, **config: Any) -> Network:
    group = {"name": "n", "count": nodes, "cores": 1}
    return build_machine(PlatformConfig.model_validate({"nodes": [group], "network": config})).network


def links(nodes: int, **config: Any) -> list[list[int]]:
    """Links between all pairs of nodes: latency in links, as each takes 1 s."""
    built = network(nodes, latency=1.0, intra_node_latency=0.0, **config)
    others = np.arange(nodes)
    return [built.message_time(node, others, 0.0).astype(int).tolist() for node in range(nodes)]


def test_star_has_two_links_between_any_two_nodes() -> None:
    assert links(3, topology="star") == [[0, 2, 2], [2, 0, 2], [2, 2, 0]]


def test_fat_tree_of_four_ports() -> None:
    """Two nodes at an edge switch, two such in each of four pods (Al-Fares et al. 2008, Fig. 3)."""
    first = links(16, topology="fat-tree", ports=4)[0]
    assert first == [0, 2, 4, 4] + [6] * 12
    assert links(16, topology="fat-tree", ports=4)[7] == [6, 6, 6, 6, 4, 4, 2, 0] + [6] * 8


def test_fat_tree_has_the_switches_of_its_source() -> None:
    """k²/4 core switches, k²/2 edge and aggregation switches each, every one with k ports."""
    for k in (2, 4, 8):
        config = NetworkConfig(topology=Topology.FAT_TREE, ports=k)
        nodes = k**3 // 4
        graph = build_graph(config, [f"n{node}" for node in range(nodes)])
        switches = [vertex for vertex in graph if isinstance(vertex, str)]
        assert len(switches) == 5 * k * k // 4
        assert {graph.degree(switch) for switch in switches} == {k}
        assert {graph.degree(node) for node in range(nodes)} == {1}
        assert graph.number_of_edges() == 3 * nodes


def test_dragonfly_of_nine_groups() -> None:
    """Four routers of two links to other groups each: g = ah + 1 = 9 (Kim et al. 2008, Fig. 5)."""
    config = NetworkConfig(topology=Topology.DRAGONFLY, groups=9, routers=4, nodes_per_router=2)
    graph = build_graph(config, [f"n{node}" for node in range(72)])
    routers = [vertex for vertex in graph if isinstance(vertex, str)]
    assert len(routers) == 36
    assert {graph.degree(router) for router in routers} == {2 + 3 + 2}
    first = links(72, topology="dragonfly", groups=9, routers=4, nodes_per_router=2)[0]
    assert first[:8] == [0, 2, 3, 3, 3, 3, 3, 3]
    # Router 0 of group 0 has the links to groups 1 and 2, each to that group's router 0.
    assert first[8:16] == [3, 3, 4, 4, 4, 4, 4, 4]
    assert first[16:24] == [3, 3, 4, 4, 4, 4, 4, 4]
    # Router 1 has the link to group 3: one link more.
    assert first[24:32] == [4, 4, 5, 5, 5, 5, 5, 5]
    assert max(first) == 5


def test_torus_goes_the_shorter_way_round() -> None:
    assert links(5, topology="torus", dimensions="5")[0] == [0, 1, 2, 2, 1]
    # 4 x 3 places: node 0 is at (0, 0), node 3 at (1, 0), node 11 at (3, 2).
    first = links(12, topology="torus", dimensions="4x3")[0]
    assert first == [0, 1, 1, 1, 2, 2, 2, 3, 3, 1, 2, 2]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_torus_against_distances_of_coordinates(dimensions: list[int]) -> None:
    nodes = math.prod(dimensions)
    places = [np.unravel_index(node, dimensions) for node in range(nodes)]
    expected = [
        [
            sum(
                min(abs(a - b), length - abs(a - b))
                for a, b, length in zip(one, other, dimensions, strict=True)
            )
            for other in places
        ]
        for one in places
    ]
    assert links(nodes, topology="torus", dimensions=dimensions) == expected


@pytest.mark.parametrize(("nodes", "config"), SMALL)
def test_every_route_has_the_fewest_links(nodes: int, config: dict[str, Any]) -> None:
    graph = build_graph(NetworkConfig.model_validate(config), [f"n{node}" for node in range(nodes)])
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    found = links(nodes, **config)
    for one in range(nodes):
        assert found[one] == [lengths[one][other] for other in range(nodes)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[nx.Graph, int]:
    """Connected graphs of a few nodes and switches, with links of few latencies and bandwidths."""
    nodes, switches = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    vertices = [*range(nodes), *(f"s{number}" for number in range(switches))]
    graph = nx.Graph()
    graph.add_nodes_from(vertices)
    weights = st.fixed_dictionaries(
        {"latency": st.sampled_from([0.0, 1.0, 2.0]), "bandwidth": st.sampled_from([1.0, 5.0, 9.0])}
    )
    for row, vertex in enumerate(vertices[1:], 1):
        graph.add_edge(vertices[draw(st.integers(0, row - 1))], vertex, **draw(weights))
    for _ in range(draw(st.integers(0, 12))):
        one, other = draw(st.sampled_from(vertices)), draw(st.sampled_from(vertices))
        if one != other:
            graph.add_edge(one, other, **draw(weights))
    return graph, nodes


@settings(deadline=None, max_examples=200)
@given(graphs())
def test_routes_against_listing_them_all(drawn: tuple[nx.Graph, int]) -> None:
    graph, nodes = drawn
    routes = Routes(graph, nodes)
    for node in range(nodes):
        latency, bandwidth = routes.from_node(node)
        expected = [best_route(graph, node, other) for other in range(nodes)]
        assert list(zip(latency.tolist(), bandwidth.tolist(), strict=True)) == expected


EDGES = [
    {"from": "n0", "to": "left"},
    {"from": "n1", "to": "left", "bandwidth": 4.0},
    {"from": "left", "to": "right", "latency": 5.0, "bandwidth": 2.0},
    {"from": "n2", "to": "right"},
]


def test_the_narrowest_link_and_all_latencies_count() -> None:
    """Names of nodes are nodes, others switches; 8 B over 2, 4 or 8 bit/s take 32, 16 or 8 s."""
    built = network(3, topology="edge-list", edges=EDGES, latency=1.0, bandwidth=8.0, intra_node_latency=0.5)
    assert built.message_time(0, np.arange(3), 8.0).tolist() == [0.5, 2 + 16, 7 + 32]
    assert built.message_time(1, np.array([2, 1]), 8.0).tolist() == [7 + 32, 0.5]
    assert built.message_time(2, np.array([0]), 0.0).tolist() == [7]


def test_an_edge_list_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text(
        "from,to,latency,bandwidth\n# two switches\n"
        "n0,left\nn1, left,,4 bit/s\n\nleft,right,5 s,2 bit/s\nn2,right,\n"
    )
    config = NetworkConfig.model_validate({"topology": "edge-list", "path": "links.csv", "latency": 1.0})
    built = Network.from_config(config, ["n0", "n1", "n2"], path)
    assert built.message_time(0, np.arange(3), 0.0).tolist() == [1e-7, 2, 7]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n0", "links.csv:2: 1 values separated by commas; allowed: 2 to 4"),
        ("n0,s,1,2,3", "links.csv:2: 5 values"),
        ("n0,s,1 parsec", "links.csv:2: latency: '1 parsec' is not a time; allowed: ns, us"),
        ("n0,s,1 us,0", "links.csv:2: bandwidth: '0' is too small"),
        ("n0,", "links.csv:2: to: '' cannot be used"),
        ("n1,n1", "links.csv:2: a link from n1 to itself"),
        ("n1,n0", "links.csv:2: n1 and n0 are linked already by"),
        ("s,t", "no link of n2; every node needs one"),
        ("n2,t", "no route from n0 to n2"),
    ],
)
def test_edge_lists_that_cannot_be_used(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "links.csv"
    path.write_text(f"n0,n1\n{line}\n")
    config = NetworkConfig.model_validate({"topology": "edge-list", "path": "links.csv"})
    with pytest.raises(InputError) as info:
        Network.from_config(config, ["n0", "n1", "n2"], path)
    assert message in str(info.value)


def test_an_edge_list_that_is_not_there(tmp_path: Path) -> None:
    config = NetworkConfig.model_validate({"topology": "edge-list", "path": "x"})
    with pytest.raises(InputError, match="x: there is no such file"):
        Network.from_config(config, ["n0"], tmp_path / "x")


def test_an_inline_edge_list_names_the_entry() -> None:
    edges = NetworkConfig.model_validate({"topology": "edge-list", "edges": [EDGES[0], EDGES[0]]})
    with pytest.raises(InputError, match=r"platform.network.edges.1: n0 and left are linked already"):
        build_graph(edges, ["n0"], edges_of(edges.edges))


def test_too_many_nodes_are_refused_without_a_scenario_too() -> None:
    with pytest.raises(InputError, match="holds 16 nodes, and there are 17"):
        build_graph(NetworkConfig(topology=Topology.FAT_TREE, ports=4), [str(node) for node in range(17)])


def test_routes_do_not_depend_on_what_was_asked_before() -> None:
    graph = build_graph(NetworkConfig(topology=Topology.FAT_TREE, ports=4), [str(n) for n in range(16)])
    routes, fresh = Routes(graph, 16), Routes(graph, 16)
    routes._most_known = 2
    for node in (3, 1, 3, 7, 1, 3):
        assert routes.from_node(node)[0].tolist() == fresh.from_node(node)[0].tolist()
    assert len(routes._known) == 2


def test_the_catalogue_has_every_topology() -> None:
    assert [entry.name for entry in TOPOLOGIES] == [topology.value for topology in Topology]


def test_a_fully_connected_network_does_not_load_networkx() -> None:
    code = (
        "import sys; from mlsim.platform import build_machine; from mlsim.scenario import PlatformConfig; "
        "build_machine(PlatformConfig.model_validate({'nodes': [{'name': 'n', 'count': 9, 'cores': 1}]})); "
        "sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
