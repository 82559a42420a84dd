"""One run: couples the batch level and the application level by forecasts.

The batch system starts a job; an application simulator computes the job's whole future on the nodes
it got; the batch system schedules that future as events. This is the only room that knows both
levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late

if TYPE_CHECKING:
    from mlsim.cosim.alone import check_loop, loop_cost_sums, loop_costs, simulate_loop
    from mlsim.cosim.inputs import workload_of
    from mlsim.cosim.outcome import Outcome
    from mlsim.cosim.running import simulate
    from mlsim.cosim.surveying import Survey, survey

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
        "alone": "check_loop loop_cost_sums loop_costs simulate_loop",
        "inputs": "workload_of",
        "outcome": "Outcome",
        "running": "simulate",
        "surveying": "Survey survey",
    },
)
