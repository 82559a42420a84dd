"""Metrics, summaries, reports and pictures of runs; reads records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late

if TYPE_CHECKING:
    from mlsim.analysis.loops import best_loop, loop_facts, loop_seconds, loop_table
    from mlsim.analysis.report import summary_table
    from mlsim.analysis.summary import SCHEMA_VERSION, summarize

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
        "loops": "best_loop loop_facts loop_seconds loop_table",
        "report": "summary_table",
        "summary": "SCHEMA_VERSION summarize",
    },
)
