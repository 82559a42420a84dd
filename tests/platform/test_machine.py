"""Machine and network."""

from __future__ import annotations

import numpy as np
import pytest

from mlsim.platform import Network, build_machine
from mlsim.scenario import PlatformConfig


def test_groups_are_laid_out_in_the_order_written():
    machine = build_machine(
        PlatformConfig.model_validate(
            {
                "nodes": [
                    {"name": "fast", "count": 2, "cores": 4, "speed": "3 GFLOP/s"},
                    {"name": "slow", "count": 1, "cores": 2, "node_speed": "3 GFLOP/s"},
                ]
            }
        )
    )
    assert machine.name == ["fast0", "fast1", "slow0"]
    assert machine.group == ["fast", "fast", "slow"]
    assert machine.cores.tolist() == [4, 4, 2]
    assert machine.speed.tolist() == [1.0, 1.0, 0.5]
    assert (machine.n_nodes, machine.n_cores) == (3, 10)


def test_the_reference_speed_scales_all_speeds():
    machine = build_machine(
        PlatformConfig.model_validate(
            {"nodes": [{"name": "n", "count": 1, "cores": 1, "speed": 2e9}], "reference_speed": 1e9}
        )
    )
    assert machine.speed.tolist() == [2.0]


def test_a_host_of_the_two_level_study_has_64_cores_of_47_gigaflops():
    machine = build_machine(
        PlatformConfig.model_validate(
            {"nodes": [{"name": "h", "count": 4, "cores": 64, "node_speed": "3 TFLOP/s"}]}
        )
    )
    assert machine.reference_speed == pytest.approx(46.875e9)


def test_message_time_is_latency_and_size_over_bandwidth_between_nodes_only():
    network = Network(latency=500e-9, bandwidth=50e9, intra_node_latency=100e-9)
    times = network.message_time(1, np.array([0, 1, 2]), size=1000.0)
    assert times == pytest.approx([500e-9 + 8000 / 50e9, 100e-9, 500e-9 + 8000 / 50e9])
