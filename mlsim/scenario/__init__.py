"""What to simulate: the scenario file, its sections as frozen models, and how it is read."""

from mlsim.scenario.amounts import Quantity
from mlsim.scenario.application import ApplicationConfig, CostsConfig, ExecutionConfig, IterationsConfig
from mlsim.scenario.batch import BatchConfig
from mlsim.scenario.catalogue import Option, options
from mlsim.scenario.coordination import CoordinationConfig
from mlsim.scenario.dumping import dump, plain
from mlsim.scenario.jsonschema import json_schema
from mlsim.scenario.loading import from_mapping, load, loads
from mlsim.scenario.output import OutputConfig
from mlsim.scenario.overrides import parse_override, parse_overrides
from mlsim.scenario.paths import resolve_path
from mlsim.scenario.platform import NetworkConfig, NodeGroup, PlatformConfig
from mlsim.scenario.remarks import remarks
from mlsim.scenario.schema import Scenario
from mlsim.scenario.words import (
    Allocator,
    ApplicationModel,
    Backfill,
    Calibration,
    CleaningRule,
    CostProfile,
    EstimateSource,
    ExecutionModel,
    Mapping,
    OverrunRule,
    Policy,
    ServiceOrder,
    Technique,
    Topology,
    TraceLevel,
    WorkloadFormat,
)
from mlsim.scenario.workload import CleaningConfig, SelectConfig, WindowConfig, WorkloadConfig

__all__ = [
    "Allocator",
    "ApplicationConfig",
    "ApplicationModel",
    "Backfill",
    "BatchConfig",
    "Calibration",
    "CleaningConfig",
    "CleaningRule",
    "CoordinationConfig",
    "CostProfile",
    "CostsConfig",
    "EstimateSource",
    "ExecutionConfig",
    "ExecutionModel",
    "IterationsConfig",
    "Mapping",
    "NetworkConfig",
    "NodeGroup",
    "Option",
    "OutputConfig",
    "OverrunRule",
    "PlatformConfig",
    "Policy",
    "Quantity",
    "Scenario",
    "SelectConfig",
    "ServiceOrder",
    "Technique",
    "Topology",
    "TraceLevel",
    "WindowConfig",
    "WorkloadConfig",
    "WorkloadFormat",
    "dump",
    "from_mapping",
    "json_schema",
    "load",
    "loads",
    "options",
    "parse_override",
    "parse_overrides",
    "plain",
    "remarks",
    "resolve_path",
]
