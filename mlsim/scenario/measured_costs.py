"""Costs of scheduling measured on machines by ``mlsim mpi calibrate``, as defaults of an execution."""

from typing import NamedTuple

from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.words import MeasuredCosts


class MachineCosts(NamedTuple):
    """Medians of three calibrations on two ranks, in s."""

    recursive: float  # calculation of a chunk by a master
    straightforward: float  # by a PE
    service: float  # a master receives a request and replies
    request: float  # a PE makes a request
    look: float  # a break of a master
    atomic: float  # a fetch-and-add with its flush


MACHINES = {MeasuredCosts.MPICH_EPYC: MachineCosts(0.96e-6, 0.79e-6, 2.16e-6, 0.84e-6, 1.04e-6, 1.20e-6)}


def charged(execution: ExecutionConfig) -> ExecutionConfig:
    """Return an execution in which measured costs take the place of those that are not set."""
    machine = MACHINES.get(execution.parameters.measured)
    if machine is None:
        return execution
    if execution.model in ("cca", "hmw"):
        costs = {
            "chunk_calculation": machine.recursive,
            "chunk_assignment": machine.service,
            "break_time": machine.look,
        }
        request = execution.parameters.request_cost
        if request == 0.0 and execution.request_ahead == 0:
            request = machine.request
        parameters = execution.parameters.model_copy(update={"request_cost": request})
        execution = execution.model_copy(update={"parameters": parameters})
    else:
        costs = {"chunk_calculation": machine.straightforward, "atomic_service": machine.atomic}
    return execution.model_copy(update={key: costs[key] for key in costs if not execution.is_set(key)})
