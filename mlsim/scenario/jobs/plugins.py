"""Names of policies, allocators, dispatchers, predictors: of a catalogue, in own files, installed."""

from __future__ import annotations

from typing import Annotated

from mlsim.scenario.values.plugins import PluginKind
from mlsim.scenario.words import Allocator, Dispatcher, Policy, Predictor

__all__ = ["AllocatorName", "DispatcherName", "PolicyName", "PredictorName"]

PolicyName = Annotated[str, PluginKind(Policy, "mlsim.policies")]
AllocatorName = Annotated[str, PluginKind(Allocator, "mlsim.allocators")]
DispatcherName = Annotated[str, PluginKind(Dispatcher, "mlsim.dispatchers")]
PredictorName = Annotated[str, PluginKind(Predictor, "mlsim.predictors")]
