"""Names of the planners and what they mean; imports none of them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from mlsim.errors import InputError
from mlsim.scenario import CpConfig, Dispatcher

if TYPE_CHECKING:
    from mlsim.batch.cp.planners.planner import AnyPlanner
    from mlsim.batch.cp.solver.cp_solve import Control


MEANINGS = {
    Dispatcher.CP: "list schedules on classes of nodes, made better by CP-SAT; ours",
    Dispatcher.LISTS: "the list schedules of cp alone; ours",
    Dispatcher.HCP19: "times on pooled resources by CP, then best-fit (HCP'19, HCP3)",
    Dispatcher.PCP19: "times and nodes by CP, an optional interval a unit and node (PCP'19, PCP3)",
    Dispatcher.PCP4: "times and nodes by CP, a count of units a job and node (PCP4)",
    Dispatcher.PCP21: "times and nodes by CP, a box a unit and resource type (PCP'21)",
    Dispatcher.PCP21S: "PCP'21 for requests that are all alike (PCP'21s)",
    Dispatcher.HCP1: "HCP, version 1: objective from ewt, reduced model, search control",
    Dispatcher.HCP2: "HCP, version 2: version 1 with underestimated jobs taken as 1 s",
    Dispatcher.PCP1: "PCP, version 1: objective from ewt, reduced model, search control",
    Dispatcher.PCP2: "PCP, version 2: version 1 with underestimated jobs taken as 1 s",
}


def control_for(name: Dispatcher, config: CpConfig, seed: int = 0) -> Control:
    """Return the solver's time limits, search mode, seed and workers for a dispatcher."""
    from mlsim.batch.cp.solver.cp_solve import Control

    limit, last = config.limits(name)
    return Control(
        limit, max(last, limit), config.extensions, config.deterministic, seed % 2**31, config.workers
    )


def make_planner(name: Dispatcher, config: CpConfig, seed: int = 0) -> AnyPlanner:
    """Make the planner of a name, new: it remembers nothing.

    Parameters
    ----------
    name
        One of :data:`MEANINGS`.
    config
        The section ``batch.cp``.
    seed
        Of the scenario.

    Raises
    ------
    InputError
        If it asks CP-SAT, and ortools is not installed.
    """
    asks = name is not Dispatcher.LISTS
    if asks and find_spec("ortools") is None:
        raise InputError(
            f"batch.dispatcher: {name} plans by CP-SAT, and ortools is not installed; "
            "pip install 'mlsim[cp]'. Without it there are queue, prb and lists"
        )
    from mlsim.batch.cp.planners.early_models import Hcp1, Hcp2, Pcp1, Pcp2
    from mlsim.batch.cp.planners.list_planner import CpOptions, Lists
    from mlsim.batch.cp.planners.pcp import Hcp19, Pcp4, Pcp19, Pcp21, Pcp21s

    control = control_for(name, config, seed)
    if name in (Dispatcher.CP, Dispatcher.LISTS):
        options = CpOptions(
            config.goal,
            config.by_size,
            config.headroom,
            config.reserve,
            config.patience,
            config.solve_jobs,
        )
        if name is Dispatcher.LISTS:
            return Lists(control, config.jobs, options)
        from mlsim.batch.cp.planners.cp_planner import Cp  # here, as it loads the solver

        return Cp(control, config.jobs, options)
    kinds = (Hcp19, Pcp19, Pcp4, Pcp21, Pcp21s, Hcp1, Hcp2, Pcp1, Pcp2)
    (kind,) = [kind for kind in kinds if kind.name == name]
    return kind(control, config.jobs)
