"""What to simulate: the scenario file, its sections as frozen models, and how it is read."""

from mlsim.scenario.amounts import Quantity
from mlsim.scenario.application import ApplicationConfig, ExecutionConfig, IterationsConfig
from mlsim.scenario.batch import BatchConfig, FairshareConfig, WeightsConfig
from mlsim.scenario.catalogue import Option, dotted_keys, options
from mlsim.scenario.coordination import CoordinationConfig
from mlsim.scenario.costs import CostsConfig, ImageWindow
from mlsim.scenario.cp import CpConfig
from mlsim.scenario.dumping import dump, plain
from mlsim.scenario.engine import REPLAY_NEEDS, REPLAY_NEEDS_OF_JOBS, replay_obstacle
from mlsim.scenario.failures import DrainConfig, FailureConfig, RandomFailureConfig
from mlsim.scenario.jsonschema import json_schema
from mlsim.scenario.levels import TWO_LEVELS, wrong_levels
from mlsim.scenario.lists import node_ranges
from mlsim.scenario.loading import from_mapping, load, loads
from mlsim.scenario.network import EdgeConfig, NetworkConfig
from mlsim.scenario.output import OutputConfig
from mlsim.scenario.overrides import parse_override, parse_overrides
from mlsim.scenario.paths import PLUGIN_KEYS, check_code, located_plugin, located_technique, resolve_path
from mlsim.scenario.perturbation import PerturbationConfig
from mlsim.scenario.platform import NodeGroup, PlatformConfig
from mlsim.scenario.plugins import installed_names
from mlsim.scenario.power import PowerConfig
from mlsim.scenario.remarks import remarks
from mlsim.scenario.resources import CORES, MEMORY, RequestConfig, megabytes
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
    Compression,
    Contiguity,
    CostProfile,
    Dispatcher,
    EasyRule,
    Engine,
    EstimateSource,
    ExecutionModel,
    FailureRule,
    Growth,
    LockOrder,
    Mapping,
    MasterRole,
    MemorySource,
    OverrunRule,
    PlanGoal,
    Policy,
    Predictor,
    ReleasedNodes,
    RequestRule,
    ServiceOrder,
    ShareOwner,
    Statistics,
    Technique,
    TieOrder,
    Topology,
    TraceLevel,
    WeightSource,
    Word,
    WorkloadFormat,
)
from mlsim.scenario.workload import CleaningConfig, DatesConfig, SelectConfig, WindowConfig, WorkloadConfig

__all__ = [
    "CORES",
    "MEMORY",
    "PLUGIN_KEYS",
    "REPLAY_NEEDS",
    "REPLAY_NEEDS_OF_JOBS",
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
    "Compression",
    "Contiguity",
    "CoordinationConfig",
    "CostProfile",
    "CostsConfig",
    "CpConfig",
    "DatesConfig",
    "Dispatcher",
    "DrainConfig",
    "EasyRule",
    "EdgeConfig",
    "Engine",
    "EstimateSource",
    "ExecutionConfig",
    "ExecutionModel",
    "FailureConfig",
    "FailureRule",
    "FairshareConfig",
    "Growth",
    "ImageWindow",
    "IterationsConfig",
    "LockOrder",
    "Mapping",
    "MasterRole",
    "MemorySource",
    "NetworkConfig",
    "NodeGroup",
    "Option",
    "OutputConfig",
    "OverrunRule",
    "ParametersConfig",
    "PerturbationConfig",
    "PlanGoal",
    "PlatformConfig",
    "Policy",
    "PowerConfig",
    "Predictor",
    "Quantity",
    "RandomFailureConfig",
    "ReleasedNodes",
    "RequestConfig",
    "RequestRule",
    "Scenario",
    "SelectConfig",
    "ServiceOrder",
    "ShareOwner",
    "Statistics",
    "Technique",
    "TieOrder",
    "Topology",
    "TraceLevel",
    "WeightSource",
    "WeightsConfig",
    "WindowConfig",
    "Word",
    "WorkloadConfig",
    "WorkloadFormat",
    "check_code",
    "dotted_keys",
    "dump",
    "from_mapping",
    "installed_names",
    "json_schema",
    "lacking_parameters",
    "load",
    "loads",
    "located_plugin",
    "located_technique",
    "megabytes",
    "node_ranges",
    "options",
    "parse_override",
    "parse_overrides",
    "plain",
    "remarks",
    "replay_obstacle",
    "resolve_path",
    "split_technique",
    "user_function",
    "wrong_levels",
]
