"""The machine: nodes, cores and the network between them."""

from mlsim.platform.machine import Machine, Perturbations, build_machine, machine_of, power_of
from mlsim.platform.network import Network

__all__ = ["Machine", "Network", "Perturbations", "build_machine", "machine_of", "power_of"]
