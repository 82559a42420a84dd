"""The trace of a run, or of a loop alone."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mlsim.experiment.result import technique_of
from mlsim.scenario import Scenario, TraceLevel, TraceRows

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
    info = write_otf2(
        directory,
        records,
        cast(Level, output.trace.value),
        scenario_name=scenario.name,
        technique=technique_of(scenario) or "",
        workload_name=workload_name,
        exclusive_nodes=exclusive_nodes,
        pes_per_node=scenario.application.pes_per_node,
        details=output.trace_details,
        apart=output.trace_apart,
        ranks=ranks,
        selection=Selection(begin, end, output.trace_jobs or ()),
        service=service_of(scenario),
        rows=output.trace_rows.value,
    )
    if output.trace_rows is TraceRows.AUTO and info.nodes_per_row:
        cores = int(records.nodes.cores.sum())
        logging.getLogger("mlsim").warning(
            "the trace shows %s, as %s cores are too many for rows of their own: %s. For a row per core, "
            "in two files each: output.trace_rows: cores",
            "a row per node" if info.nodes_per_row == 1 else f"up to {info.nodes_per_row} nodes in a row",
            f"{cores:,}",
            _TOGETHER[output.trace],
        )


_TOGETHER = {
    TraceLevel.JOBS: "several jobs at a time are one region",
    TraceLevel.NODES: "several jobs at a time are one region",
    TraceLevel.CHUNKS: "several jobs at a time are one region, and so are chunks",
    TraceLevel.MESSAGES: "several jobs at a time are one region, and so are chunks; requests are left out",
}


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
