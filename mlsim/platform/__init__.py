"""What jobs run on: nodes, cores and the network between them."""

from mlsim.platform.machine import Machine, build_machine
from mlsim.platform.network import Network

__all__ = ["Machine", "Network", "build_machine"]
