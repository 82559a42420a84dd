"""One run: couples the batch level and the application level by forecasts.

The batch system starts a job; an application simulator computes the job's whole future on the nodes
it got; the batch system schedules that future as events. This is the only room that knows both
levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.cosim.scenario_inputs import workload_of
    from mlsim.cosim.simulation import (
        Outcome,
        Survey,
        check_loop,
        loop_cost_sums,
        loop_costs,
        simulate,
        simulate_loop,
        survey,
    )

__all__ = [
    "Outcome",
    "Survey",
    "check_loop",
    "loop_cost_sums",
    "loop_costs",
    "simulate",
    "simulate_loop",
    "survey",
    "workload_of",
]

__getattr__ = late(
    __name__,
    {
        "scenario_inputs": "workload_of",
        "simulation": "Outcome Survey check_loop loop_cost_sums loop_costs simulate simulate_loop survey",
    },
)
