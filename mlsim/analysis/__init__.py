"""Metrics, summaries, reports and pictures of runs; reads records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late

if TYPE_CHECKING:
    from mlsim.analysis.run_summary import SCHEMA_VERSION, summarize
    from mlsim.analysis.single_loops import best_loop, loop_facts, loop_seconds, loop_table
    from mlsim.analysis.terminal_summary import summary_table

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
        "run_summary": "SCHEMA_VERSION summarize",
        "single_loops": "best_loop loop_facts loop_seconds loop_table",
        "terminal_summary": "summary_table",
    },
)
