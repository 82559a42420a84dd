"""Scenarios: the scenario file, its sections as frozen models, and its reader."""

from mlsim.scenario.application_section import ApplicationConfig
from mlsim.scenario.batch_section import BatchConfig
from mlsim.scenario.cp_section import CpConfig
from mlsim.scenario.overrides import parse_overrides
from mlsim.scenario.platform_section import PlatformConfig
from mlsim.scenario.policy_words import Policy
from mlsim.scenario.scenario_loading import from_mapping, load, loads
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.scenario_text import dump
from mlsim.scenario.workload_section import WorkloadConfig

__all__ = [
    "ApplicationConfig",
    "BatchConfig",
    "CpConfig",
    "PlatformConfig",
    "Policy",
    "Scenario",
    "WorkloadConfig",
    "dump",
    "from_mapping",
    "load",
    "loads",
    "parse_overrides",
]
