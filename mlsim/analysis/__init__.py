"""Metrics, summaries, reports and pictures of runs; reads records only."""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.analysis.run_summary import SCHEMA_VERSION, best_loop, loop_facts, summarize
    from mlsim.analysis.terminal_tables import loop_seconds, loop_table, summary_table

__all__ = [
    "SCHEMA_VERSION",
    "best_loop",
    "loop_facts",
    "loop_seconds",
    "loop_table",
    "summarize",
    "summary_table",
]

__getattr__ = late(
    __name__,
    {
        "run_summary": "best_loop loop_facts SCHEMA_VERSION summarize",
        "terminal_tables": "loop_seconds loop_table summary_table",
    },
)
