"""Names of policies, allocators, dispatchers, predictors: of a catalogue, in own files, installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mlsim.scenario.loop.techniques import user_function
from mlsim.scenario.values.field_types import ChoiceType, FieldType
from mlsim.scenario.values.hints import nearest, shown
from mlsim.scenario.words import Allocator, Choice, Dispatcher, Policy, Predictor

__all__ = ["AllocatorName", "DispatcherName", "PluginKind", "PolicyName", "PredictorName", "installed_names"]


def installed_names(group: str) -> tuple[str, ...]:
    """Name what installed packages offer in a group of entry points."""
    from importlib.metadata import entry_points

    return tuple(sorted({point.name for point in entry_points(group=group)}))


@dataclass(frozen=True)
class PluginKind(FieldType[str]):
    """A word of a catalogue, a class in a file, or an entry point of an installed package.

    Attributes
    ----------
    words
        The catalogue.
    group
        The group of entry points.
    """

    words: type[Choice]
    group: str

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return f"{ChoiceType(self.words).allowed}; ./file.py:Name; an entry point of {self.group}"

    def parse(self, value: object) -> str:
        """Read the name; those of the catalogue in upper or lower case."""
        name = value.strip() if isinstance(value, str) else ""
        if user_function(name):
            return name
        try:
            return self.words(name)
        except ValueError as error:
            installed = installed_names(self.group)
            if name in installed:
                return name
            meant = nearest(name, [*self.words, *self.words.aliases(), *installed])
            raise ValueError(f"{shown(value)} is not known;{meant} allowed: {self.allowed}") from error

    def show(self, value: str) -> object:
        """Return the name as a text."""
        return str(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema: editors offer the words, and what is installed."""
        words = ChoiceType(self.words).json()["anyOf"]
        installed = installed_names(self.group)
        others = [{"enum": list(installed)}] if installed else []
        return {"anyOf": [*words, *others, {"type": "string", "pattern": r"\.py:"}]}


PolicyName = Annotated[str, PluginKind(Policy, "mlsim.policies")]
AllocatorName = Annotated[str, PluginKind(Allocator, "mlsim.allocators")]
DispatcherName = Annotated[str, PluginKind(Dispatcher, "mlsim.dispatchers")]
PredictorName = Annotated[str, PluginKind(Predictor, "mlsim.predictors")]
