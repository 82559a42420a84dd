"""What to simulate: the scenario file, its sections as frozen models, and how it is read."""

from mlsim.scenario.files.dumping import dump, mapping_text, plain
from mlsim.scenario.files.loading import from_mapping, load, loads, overridden
from mlsim.scenario.files.overrides import parse_override, parse_overrides
from mlsim.scenario.files.paths import (
    PLUGIN_KEYS,
    check_code,
    located_format,
    located_model,
    located_plugin,
    located_technique,
    located_writers,
    resolve_path,
)
from mlsim.scenario.jobs.batch import BatchConfig, FairshareConfig, WeightsConfig
from mlsim.scenario.jobs.coordination import CoordinationConfig
from mlsim.scenario.jobs.cp import CpConfig
from mlsim.scenario.jobs.engine import REPLAY_NEEDS, REPLAY_NEEDS_OF_JOBS, replay_obstacle
from mlsim.scenario.jobs.workload import (
    CleaningConfig,
    DatesConfig,
    SelectConfig,
    WindowConfig,
    WorkloadConfig,
)
from mlsim.scenario.loop.application import ApplicationConfig, ExecutionConfig, IterationsConfig
from mlsim.scenario.loop.costs import CostsConfig, ImageWindow
from mlsim.scenario.loop.levels import RELEASING, TWO_LEVELS, properties_of, wrong_levels
from mlsim.scenario.loop.techniques import (
    ParametersConfig,
    lacking_parameters,
    split_technique,
)
from mlsim.scenario.machine.failures import DrainConfig, FailureConfig, RandomFailureConfig
from mlsim.scenario.machine.network import EdgeConfig, NetworkConfig
from mlsim.scenario.machine.perturbation import PerturbationConfig
from mlsim.scenario.machine.platform import NodeGroup, PlatformConfig
from mlsim.scenario.machine.power import PowerConfig
from mlsim.scenario.machine.request import RequestConfig
from mlsim.scenario.machine.resources import CORES, MEMORY, megabytes
from mlsim.scenario.values.amounts import Quantity
from mlsim.scenario.values.lists import node_ranges
from mlsim.scenario.values.plugins import (
    CodeName,
    installed_names,
    parameters_of,
    user_function,
    with_parameters,
)
from mlsim.scenario.whole.catalogue import Option, dotted_keys, options
from mlsim.scenario.whole.jsonschema import json_schema
from mlsim.scenario.whole.output import OutputConfig
from mlsim.scenario.whole.schema import Scenario
from mlsim.scenario.whole.warnings import warnings_of
from mlsim.scenario.words import (
    Allocator,
    AnswerRule,
    ApplicationModel,
    Backfill,
    Calibration,
    Choice,
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
    WorkloadFormat,
)
from mlsim.scenario.words.application import ModelProperties

__all__ = [
    "CORES",
    "MEMORY",
    "PLUGIN_KEYS",
    "RELEASING",
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
    "Choice",
    "CleaningConfig",
    "CleaningRule",
    "CodeName",
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
    "ModelProperties",
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
    "located_format",
    "located_model",
    "located_plugin",
    "located_technique",
    "located_writers",
    "mapping_text",
    "megabytes",
    "node_ranges",
    "options",
    "overridden",
    "parameters_of",
    "parse_override",
    "parse_overrides",
    "plain",
    "properties_of",
    "replay_obstacle",
    "resolve_path",
    "split_technique",
    "user_function",
    "warnings_of",
    "with_parameters",
    "wrong_levels",
]
