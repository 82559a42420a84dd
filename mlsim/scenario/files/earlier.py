"""Where the scenario of an earlier run was read: its relative paths still count from there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mlsim._files import is_file, read_text
from mlsim.errors import InputError
from mlsim.scenario.whole.schema import Scenario

__all__ = ["earlier_directories", "read_in"]

_KEY = "read_in"
_BESIDE = "versions.json"
_SCENARIOS = ("scenario.yaml", "loop.yaml")
"""Names under which a run keeps its scenario."""
_MOST_BYTES = 100_000
_MOST = 10
"""Runs of runs of which directories are kept."""


def read_in(scenario: Scenario, directory: Path) -> dict[str, Any]:
    """Return what a run in a directory notes of where its scenario was read, for its file of versions.

    Places count from that directory, so that the same run gives the same bytes wherever it lies.
    """
    places = [
        os.path.relpath(path.absolute(), directory.absolute())
        for path in (scenario.directory, *scenario.earlier)
    ]
    return {_KEY: list(dict.fromkeys(places))[:_MOST]}


def earlier_directories(file: Path) -> tuple[Path, ...]:
    """Return where the scenario of a run was read, the latest first; nothing if the file is of no run."""
    notes = file.parent / _BESIDE
    if file.name not in _SCENARIOS or not is_file(notes):
        return ()
    try:
        places = json.loads(read_text(notes, "file of versions", _MOST_BYTES)).get(_KEY, ())
    except (InputError, ValueError, AttributeError):  # it is not of a run, or damaged: `mlsim check` says so
        return ()
    known = isinstance(places, list) and all(isinstance(place, str) and place for place in places)
    home = file.parent.absolute()
    return tuple(Path(os.path.normpath(home / place)) for place in places[:_MOST]) if known else ()
