"""The closed sets of words a scenario file may use; an enum's value is the word in the file.

Uses nothing of the scenario's other rooms.
"""

from mlsim.scenario.words.application import (
    ApplicationModel,
    Calibration,
    CostProfile,
    ExecutionModel,
    Growth,
    LockOrder,
    MasterRole,
    ServiceOrder,
    Statistics,
    Technique,
    WeightSource,
)
from mlsim.scenario.words.batch import (
    Allocator,
    Backfill,
    Compression,
    Contiguity,
    Dispatcher,
    EasyRule,
    Engine,
    OverrunRule,
    PlanGoal,
    Policy,
    Predictor,
    ShareOwner,
    TieOrder,
)
from mlsim.scenario.words.choice import Choice
from mlsim.scenario.words.coordination import AnswerRule, ReleasedNodes, RequestRule
from mlsim.scenario.words.machine import FailureRule, Topology
from mlsim.scenario.words.output import TraceLevel
from mlsim.scenario.words.workload import (
    CleaningRule,
    EstimateModel,
    EstimateSource,
    JobKinds,
    Mapping,
    MemorySource,
    WorkloadFormat,
    WorkloadModel,
)

__all__ = [
    "Allocator",
    "AnswerRule",
    "ApplicationModel",
    "Backfill",
    "Calibration",
    "Choice",
    "CleaningRule",
    "Compression",
    "Contiguity",
    "CostProfile",
    "Dispatcher",
    "EasyRule",
    "Engine",
    "EstimateModel",
    "EstimateSource",
    "ExecutionModel",
    "FailureRule",
    "Growth",
    "JobKinds",
    "LockOrder",
    "Mapping",
    "MasterRole",
    "MemorySource",
    "OverrunRule",
    "PlanGoal",
    "Policy",
    "Predictor",
    "ReleasedNodes",
    "RequestRule",
    "ServiceOrder",
    "ShareOwner",
    "Statistics",
    "Technique",
    "TieOrder",
    "Topology",
    "TraceLevel",
    "WeightSource",
    "WorkloadFormat",
    "WorkloadModel",
]
