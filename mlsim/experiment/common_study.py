"""What studies of loops and of whole runs have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlsim.experiment.grid import Axis, Point, axes_of
from mlsim.experiment.study_checks import check_name
from mlsim.experiment.study_file import entries, file_of, file_text, mapping, one_of
from mlsim.scenario import Scenario

__all__ = ["CommonStudy", "StudyFile", "open_study"]


@dataclass(frozen=True)
class CommonStudy:
    """What is compared with what."""

    name: str
    """From the file."""
    description: str
    """From the file."""
    source: Path
    """The file."""
    text: str
    """Text of the file."""
    axes: Sequence[Axis]
    """What varies."""
    cases: Sequence[tuple[Point, Scenario]]
    """Every combination, with what it simulates; all of them have been checked."""
    columns: str
    """Name of the axis that stands side by side."""


@dataclass(frozen=True)
class StudyFile:
    """A file as it was read, with what varies and what is left out."""

    path: Path
    text: str
    content: Mapping[str, Any]
    axes: Sequence[Axis]
    without: Sequence[Mapping[str, Any]]

    def place(self, key: str) -> str:
        """Return how messages name a key."""
        return f"{self.path}: {key}"

    def head(self) -> dict[str, Any]:
        """Return name, description, source, text and axes of the study.

        Raises
        ------
        InputError
            If the name cannot be that of a directory.
        """
        named = self.content.get("name", self.path.parent.resolve().name or "study")
        return {
            "name": check_name(named, self.place("name")),
            "description": str(self.content.get("description", "")),
            "source": self.path,
            "text": self.text,
            "axes": self.axes,
        }


def open_study(path: str | Path, keys: Sequence[str], kind: str, default: str | None) -> StudyFile:
    """Read a study of a kind.

    Parameters
    ----------
    path
        A study file, or a directory with ``study.yaml`` in it.
    keys
        What the file may have.
    kind, default
        What ``of`` must say, and what it says where it is not there.

    Raises
    ------
    InputError
        If the file cannot be read or is no such study.
    """
    file = file_of(path)
    text = file_text(file)
    content = mapping(text, file, keys)
    one_of(content.get("of", default), [kind], f"{file}: of")
    axes = axes_of(content["vary"], f"{file}: vary")
    return StudyFile(file, text, content, axes, entries(content.get("without", []), axes, f"{file}: without"))
