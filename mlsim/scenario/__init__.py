"""What to simulate: the scenario file, its sections as frozen models, and how it is read."""

from mlsim.scenario.amounts import Quantity
from mlsim.scenario.application import ApplicationConfig, ExecutionConfig, IterationsConfig
from mlsim.scenario.batch import BatchConfig
from mlsim.scenario.catalogue import Option, options
from mlsim.scenario.coordination import CoordinationConfig
from mlsim.scenario.costs import CostsConfig, ImageWindow
from mlsim.scenario.dumping import dump, plain
from mlsim.scenario.failures import FailureConfig
from mlsim.scenario.jsonschema import json_schema
from mlsim.scenario.levels import TWO_LEVELS, wrong_levels
from mlsim.scenario.lists import node_ranges
from mlsim.scenario.loading import from_mapping, load, loads
from mlsim.scenario.network import EdgeConfig, NetworkConfig
from mlsim.scenario.output import OutputConfig
from mlsim.scenario.overrides import parse_override, parse_overrides
from mlsim.scenario.paths import located_technique, resolve_path
from mlsim.scenario.perturbation import PerturbationConfig
from mlsim.scenario.platform import NodeGroup, PlatformConfig
from mlsim.scenario.remarks import remarks
from mlsim.scenario.schema import Scenario
from mlsim.scenario.techniques import (
    ParametersConfig,
    lacking_parameters,
    split_technique,
    user_function,
)
from mlsim.scenario.words import (
    Allocator,
    AnswerRule,
    ApplicationModel,
    Backfill,
    Calibration,
    CleaningRule,
    CostProfile,
    Dispatcher,
    EstimateSource,
    ExecutionModel,
    Growth,
    LockOrder,
    Mapping,
    MasterRole,
    OverrunRule,
    Policy,
    ReleasedNodes,
    RequestRule,
    ServiceOrder,
    Statistics,
    Technique,
    Topology,
    TraceLevel,
    WeightSource,
    WorkloadFormat,
)
from mlsim.scenario.workload import CleaningConfig, DatesConfig, SelectConfig, WindowConfig, WorkloadConfig

__all__ = [
    "TWO_LEVELS",
    "Allocator",
    "AnswerRule",
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
    "DatesConfig",
    "Dispatcher",
    "EdgeConfig",
    "EstimateSource",
    "ExecutionConfig",
    "ExecutionModel",
    "FailureConfig",
    "Growth",
    "ImageWindow",
    "IterationsConfig",
    "LockOrder",
    "Mapping",
    "MasterRole",
    "NetworkConfig",
    "NodeGroup",
    "Option",
    "OutputConfig",
    "OverrunRule",
    "ParametersConfig",
    "PerturbationConfig",
    "PlatformConfig",
    "Policy",
    "Quantity",
    "ReleasedNodes",
    "RequestRule",
    "Scenario",
    "SelectConfig",
    "ServiceOrder",
    "Statistics",
    "Technique",
    "Topology",
    "TraceLevel",
    "WeightSource",
    "WindowConfig",
    "WorkloadConfig",
    "WorkloadFormat",
    "dump",
    "from_mapping",
    "json_schema",
    "lacking_parameters",
    "load",
    "loads",
    "located_technique",
    "node_ranges",
    "options",
    "parse_override",
    "parse_overrides",
    "plain",
    "remarks",
    "resolve_path",
    "split_technique",
    "user_function",
    "wrong_levels",
]
