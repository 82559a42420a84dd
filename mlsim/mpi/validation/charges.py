"""What was measured of a machine, as costs of handing out chunks in a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mlsim._files import read_json
from mlsim.application.selection.overhead import has_masters
from mlsim.errors import InputError
from mlsim.mpi.loop.breaks import typical_break_after
from mlsim.mpi.loop.chunk_rules import is_ordered
from mlsim.mpi.loop.options import LoopOptions, chosen
from mlsim.scenario import ExecutionModel

__all__ = ["Charges", "charges_of", "keys_of", "read_machine"]

_NUMBERS = ("atomic", "break", "message", "noticed", "recursive", "straightforward")


class Charges(NamedTuple):
    """Costs of handing out a chunk [s].

    Attributes
    ----------
    latency
        Of a message, one way.
    chunk_calculation, atomic_service
        As the scenario's keys.
    """

    latency: float
    chunk_calculation: float
    atomic_service: float


def charges_of(machine: Mapping[str, Any], model: str, ordered: bool) -> Charges:
    """Return what a chunk costs on a machine that :func:`mlsim.mpi.calibrate.calibrate` has measured.

    ``ordered``: whether the technique sizes chunks by the step alone.

    Masters: a request is there after ``message``, and a rank that waits knows of the reply after
    ``noticed``; the simulator has one latency for both, so it gets their mean. Windows: an atomic with its
    flush takes ``atomic`` altogether, which is charged as the window's service; no latency comes on top.
    Where one atomic is enough, each of the simulator's two is charged half of it.
    """
    if has_masters(model):
        return Charges((machine["message"] + machine["noticed"]) / 2.0, machine["recursive"], 0.0)
    one_atomic = model == ExecutionModel.DCA and ordered
    return Charges(0.0, machine["straightforward"], machine["atomic"] / (2.0 if one_atomic else 1.0))


def keys_of(machine: Mapping[str, Any], technique: str, model: str, mean: float) -> dict[str, object]:
    """Return the keys of a scenario by which a loop is charged; ``mean`` is what an iteration costs [s].

    Raises
    ------
    InputError
        If real runs do not have the technique, or the model.
    """
    options = LoopOptions(n=1, technique=technique, model=model).checked()
    charges = charges_of(machine, options.model, is_ordered(chosen(options, 2)[0]))
    keys: dict[str, object] = {
        "application.execution.chunk_calculation": f"{charges.chunk_calculation!r} s",
        "application.execution.chunk_assignment": "0 s",
        "application.execution.atomic_service": f"{charges.atomic_service!r} s",
        "platform.network.latency": f"{charges.latency!r} s",
        "platform.network.intra_node_latency": f"{charges.latency!r} s",
    }
    if options.has_master:
        keys["application.execution.break_after"] = typical_break_after(mean)
        keys["application.execution.break_time"] = f"{machine['break']!r} s"
    return keys


def read_machine(path: Path) -> dict[str, Any]:
    """Read what ``mlsim mpi calibrate --json`` has printed.

    Raises
    ------
    InputError
        If the file cannot be read, or is another one.
    """
    machine = read_json(path, "calibration")
    if not isinstance(machine, dict):
        raise InputError(f"{path}: not what mlsim mpi calibrate --json prints")
    for name in _NUMBERS:
        value = machine.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value < 1e3:
            raise InputError(
                f"{path}: {name}: {'missing' if value is None else value}; allowed: seconds, 0 or more, as "
                "mlsim mpi calibrate --json prints on two ranks or more"
            )
    return machine
