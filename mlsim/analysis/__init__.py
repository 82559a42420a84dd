"""From what happened to what it means: metrics, a summary, a report, pictures. Reads records only."""

from mlsim.analysis.report import summary_table
from mlsim.analysis.summary import SCHEMA_VERSION, summarize

__all__ = ["SCHEMA_VERSION", "summarize", "summary_table"]
