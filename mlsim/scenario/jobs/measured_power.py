"""The section ``workload.power``: power over time that jobs took when they were measured."""

from __future__ import annotations

from pydantic import Field

from mlsim.scenario.values.field_types import Line
from mlsim.scenario.values.section import Section

__all__ = ["MeasuredPowerConfig"]


class MeasuredPowerConfig(Section):
    """Power over time of jobs, such as `mlsim learn energy --steps` writes it."""

    path: Line = Field(examples=["steps.csv"])
    """CSV or Parquet file of steps: job_id, time (s from the job's start, 0 first), power (W of a node all of
    whose cores it holds) and, optionally, period (s, after which the steps begin again; empty: the last one
    holds). Looked up as workload.path. Jobs that it does not name take the busy power of their nodes.
    """
