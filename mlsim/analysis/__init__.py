"""Metrics, summaries, reports and pictures of runs; reads records only."""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.analysis.run_summary import SCHEMA_VERSION, best_loop, loop_facts, summarize
    from mlsim.analysis.terminal_tables import loop_seconds, loop_table, summary_table

__getattr__ = late(__name__)
