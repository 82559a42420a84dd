"""Metrics, summaries, reports and pictures of runs; reads records only."""

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
