"""The trace of a run, or of a loop alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mlsim.experiment.result import technique_of
from mlsim.scenario import Scenario

if TYPE_CHECKING:
    from mlsim.record import Records
    from mlsim.record.otf2 import Service
    from mlsim.record.ranks import Ranks

__all__ = ["service_of", "write_trace"]


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
    from mlsim.record.otf2 import Level, Selection, write_otf2

    output = scenario.output
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
        service=service_of(scenario),
    )


def service_of(scenario: Scenario) -> Service:
    """Return how the PEs of a scenario's loops get their chunks."""
    from mlsim.application.user_model import properties_of_model
    from mlsim.record.otf2 import Service

    costs = scenario.application.execution
    asking = properties_of_model(costs.model).asking
    return Service(
        by_messages=asking in ("master", "node master"),
        by_atomics=asking in ("window", "node window"),
        on_node=asking in ("node master", "node window"),
        calculates=asking in ("window", "node window", "own part"),
        waits=asking == "threads",
        calculation=costs.chunk_calculation,
        delay=costs.injected_delay,
        assignment=costs.chunk_assignment,
        access=costs.atomic_service,
        message_bytes=int(costs.message_size),
    )
