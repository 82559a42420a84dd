"""Published figures of machines and models: the files in ``data/``, whose comments name their sources."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from mlsim._files import read_text
from mlsim.errors import InputError
from mlsim.scenario.scenario_text import yaml_class

_PLACE = Path(__file__).parent / "data"


def read_rows(name: str, columns: tuple[str, ...] | None = None) -> list[dict[str, str]]:
    """Read a CSV table of ``data/``; every cell is filled, and the columns are the expected ones."""
    path = _PLACE / name
    lines = (line for line in read_text(path).splitlines() if not line.startswith("#"))
    rows = list(csv.DictReader(lines))
    for row in rows:
        if (columns is not None and tuple(row) != columns) or not all(row.values()):
            raise InputError(f"{path}: row {row}; expected the columns {', '.join(columns or row)}")
    return rows


def read_mapping(name: str) -> dict[str, Any]:
    """Read a YAML file of ``data/``."""
    found = yaml_class()(typ="safe", pure=True).load(read_text(_PLACE / name))
    if not isinstance(found, dict):
        raise InputError(f"{_PLACE / name}: holds no mapping")
    return found
