"""How long a message takes from one node to another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim.scenario import NetworkConfig

__all__ = ["Network"]


@dataclass(frozen=True, slots=True)
class Network:
    """A fully connected network: one link between any two nodes, shared memory inside a node.

    Attributes
    ----------
    latency
        Seconds for an empty message between two nodes.
    bandwidth
        bit/s of a link.
    intra_node_latency
        Seconds for a message between two PEs of one node, whatever its size.
    """

    latency: float
    bandwidth: float
    intra_node_latency: float

    @classmethod
    def from_config(cls, config: NetworkConfig) -> Network:
        """Take over the network section of a scenario."""
        return cls(config.latency, config.bandwidth, config.intra_node_latency)

    def message_time(self, node: int, others: NDArray[np.int64], size: float) -> NDArray[np.float64]:
        """Give the one-way time of a message between a node and each of several nodes.

        Parameters
        ----------
        node, others
            Node numbers.
        size
            Bytes of the message.

        Returns
        -------
        NDArray
            Seconds: ``latency + 8 size / bandwidth`` between nodes, ``intra_node_latency`` within one.
        """
        remote = self.latency + 8.0 * size / self.bandwidth
        return np.where(others == node, self.intra_node_latency, remote)
