"""The trace of a run, or of a loop alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mlsim.experiment.result import technique_of
from mlsim.scenario import Scenario

if TYPE_CHECKING:
    from mlsim.record import Records
    from mlsim.record.ranks import Ranks

__all__ = ["write_trace"]


def write_trace(
    directory: Path,
    records: Records,
    scenario: Scenario,
    workload_name: str,
    exclusive_nodes: bool,
    ranks: Ranks | None = None,
) -> None:
    """Write the OTF2 trace of records, at the level that their scenario asks for.

    Parameters
    ----------
    directory
        Where to.
    records
        What happened.
    scenario
        What was simulated.
    workload_name
        The file of jobs; empty where there is none.
    exclusive_nodes
        Whether a node has one job at a time.
    ranks
        Of a real run.
    """
    from mlsim.record.otf2 import Level, Selection, Service, write_otf2

    output, costs = scenario.output, scenario.application.execution
    begin, end = output.trace_window or (0.0, math.inf)
    write_otf2(
        directory,
        records,
        cast(Level, output.trace.value),
        scenario_name=scenario.name,
        technique=technique_of(scenario) or "",
        workload_name=workload_name,
        exclusive_nodes=exclusive_nodes,
        pes_per_node=scenario.application.pes_per_node,
        details=output.trace_details,
        ranks=ranks,
        selection=Selection(begin, end, output.trace_jobs or ()),
        service=Service(
            costs.chunk_calculation, costs.injected_delay + costs.chunk_assignment, int(costs.message_size)
        ),
    )
