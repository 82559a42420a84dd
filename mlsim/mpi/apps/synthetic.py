"""A loop whose iterations take given times: they sleep, so that many ranks fit on few cores, or spin.

A sleep lasts longer than asked for, by some 0.1 ms; the excess is taken off the next one, so that a rank's
iterations together take what they cost.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from mlsim._files import read_npy
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.mpi.apps.common import Application, main
from mlsim.scenario import Scenario


class Synthetic(Application):
    """Iterations that sleep, or compute (``spins``), for times with the prefix sums ``prefix`` [s]."""

    name = "synthetic"

    def __init__(self, prefix: Floats, spins: bool) -> None:
        self._prefix, self._spins, self.n = prefix, spins, len(prefix) - 1
        self.out = np.zeros(self.n, np.int64)
        self._excess = 0.0

    def begin(self) -> None:
        """Clear the counts of executions."""
        super().begin()
        self._excess = 0.0

    def execute(self, first: int, size: int) -> None:
        """Pass the time of some iterations."""
        begin = time.perf_counter()
        self.out[first : first + size] += 1
        seconds = float(self._prefix[first + size] - self._prefix[first])
        if self._spins:
            # Calls take what they take besides, as those of a body that computes do.
            begin = time.perf_counter()
            while time.perf_counter() - begin < seconds:
                pass
            return
        wanted = seconds - self._excess
        if wanted > 0.0:
            time.sleep(wanted)
        self._excess += time.perf_counter() - begin - seconds

    def alone(self) -> Application:
        """Return the same loop, whose iterations take no time."""
        return Synthetic(np.zeros(self.n + 1), self._spins)


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, help="iterations (default 1000)")
    parser.add_argument("--profile", help="cost profile, see mlsim list profiles (default constant)")
    parser.add_argument("--mean", help="mean cost of an iteration, such as '1 ms' (default)")
    parser.add_argument("--std", help="standard deviation of the costs, for profiles that have one")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="costs of the iterations in s, as .npy")
    parser.add_argument("--work", choices=["sleep", "spin"], default="sleep", help="how time passes (sleep)")


def _make(arguments: argparse.Namespace, scenario: Scenario | None) -> Synthetic:
    if arguments.costs is not None:
        return Synthetic(_given_costs(arguments, scenario), arguments.work == "spin")
    from mlsim.cosim.simulation import loop_costs
    from mlsim.experiment import loop_from_mapping

    given = {
        "application.iterations.count": arguments.size,
        "application.costs.profile": arguments.profile,
        "application.costs.mean": arguments.mean,
        "application.costs.std": arguments.std,
    }
    if scenario is None:
        defaults: dict[str, object] = {
            "application.iterations.count": 1000,
            "application.costs.profile": "constant",
            "application.costs.mean": "1 ms",
        }
        chosen = {**defaults, **{key: value for key, value in given.items() if value is not None}}
        scenario = loop_from_mapping({"platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]}}, chosen)
    elif named := [key for key, value in given.items() if value is not None]:
        raise InputError(f"{named[0]}: the scenario says what iterations cost; change it with --set")
    return Synthetic(loop_costs(scenario), arguments.work == "spin")


def _given_costs(arguments: argparse.Namespace, scenario: Scenario | None) -> Floats:
    """Return the prefix sums of the costs of ``--costs``."""
    others = (arguments.size, arguments.profile, arguments.mean, arguments.std, scenario)
    if any(other is not None for other in others):
        raise InputError("--costs: says all; it goes with no other option of the loop, and no scenario")
    costs = read_npy(arguments.costs, "costs of iterations")
    if costs.ndim != 1 or costs.dtype.kind not in "iuf" or not np.isfinite(costs).all() or (costs < 0).any():
        raise InputError(f"--costs {arguments.costs}: allowed: one column of finite numbers, 0 or more")
    return np.concatenate([[0.0], np.cumsum(costs, dtype=np.float64)])


if __name__ == "__main__":
    main("A loop of given costs, self-scheduled.", _add, _make)
