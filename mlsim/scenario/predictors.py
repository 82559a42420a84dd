"""Predictors as a scenario names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mlsim.scenario.hints import nearest, shown
from mlsim.scenario.kinds import Kind, WordKind
from mlsim.scenario.techniques import user_function
from mlsim.scenario.words import Predictor

__all__ = ["PREDICTOR_ENTRY_POINTS", "PredictorKind", "PredictorName", "installed_predictors"]

PREDICTOR_ENTRY_POINTS = "mlsim.predictors"
"""The group of entry points under which installed packages offer predictors."""


def installed_predictors() -> tuple[str, ...]:
    """Name the predictors that installed packages offer."""
    from importlib.metadata import entry_points

    return tuple(sorted(point.name for point in entry_points(group=PREDICTOR_ENTRY_POINTS)))


@dataclass(frozen=True)
class PredictorKind(Kind[str]):
    """A predictor: of the catalogue, a class in a file, or of an installed package."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return f"{WordKind(Predictor).allowed}; ./file.py:Class; the name of an installed one"

    def parse(self, value: object) -> str:
        """Read the name; those of the catalogue in upper or lower case."""
        if not isinstance(value, str):
            raise ValueError(f"{shown(value)} is no predictor; allowed: {self.allowed}")
        name = value.strip()
        if user_function(name):
            return name
        try:
            return Predictor(name)
        except ValueError as error:
            installed = installed_predictors()
            if name in installed:
                return name
            meant = nearest(name, [*Predictor, *Predictor.aliases(), *installed])
            raise ValueError(f"{shown(name)} is not known;{meant} allowed: {self.allowed}") from error

    def show(self, value: str) -> object:
        """Give the name as a text."""
        return str(value)

    def json(self) -> dict[str, Any]:
        """Give the JSON schema: editors offer the words."""
        words = [*(word.value for word in Predictor), *Predictor.aliases()]
        return {"anyOf": [{"enum": words}, {"type": "string"}]}


PredictorName = Annotated[str, PredictorKind()]
