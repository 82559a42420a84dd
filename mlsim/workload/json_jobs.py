"""Jobs in JSON: content of a file, lists of objects in it, and columns of their values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from mlsim._files import decode, json_of, named
from mlsim.errors import InputError
from mlsim.workload.format_record import read_whole
from mlsim.workload.workload_dependencies import DEPENDENCIES
from mlsim.workload.workload_jobs import is_request

if TYPE_CHECKING:
    import polars as pl


def content_of(path: Path, what: str = "workload") -> tuple[Any, str]:
    """Return the content of a JSON file, compressed or not, and its text."""
    text = decode(read_whole(path, what=what), path, what)
    return json_of(text, named(path)), text


def objects_of(path: Path, section: object, key: str, place: str = "") -> list[dict[str, Any]]:
    """Return a list of objects that a section of a file has under a key; ``place``: of the section."""
    found = section.get(key) if isinstance(section, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        state = "missing" if found is None else "wrong"
        raise InputError(f"{path}: {place}{key} is {state}; expected a list of objects")
    return found


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_amount(value: object) -> TypeGuard[int | float]:
    """Whether a value of JSON is a finite number from 0 up."""
    return is_number(value) and 0 <= value <= sys.float_info.max


def series_of(values: Iterable[Any]) -> pl.Series:
    """Return numbers as they are, or all values as texts if one is not a number."""
    import polars as pl

    found = list(values)
    if all(value is None or is_number(value) for value in found):
        return pl.Series(found, dtype=pl.Float64, strict=False)
    return pl.Series([None if value is None else str(value) for value in found], dtype=pl.String)


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    return json.dumps(value)[:60]


def add_optional(columns: dict[str, pl.Series], jobs: Sequence[Any], apart: Sequence[str]) -> list[str]:
    """Add the columns of CSV that objects have, and the others, whose names are returned; none ``apart``."""
    import polars as pl

    from mlsim.workload.log_columns import KNOWN

    found = [job if isinstance(job, dict) else {} for job in jobs]
    taken = {*columns, "run_time", "estimate", *apart}
    further = []
    for key in dict.fromkeys(key for job in found for key in job if key not in taken):
        values = [job.get(key) for job in found]
        if key == DEPENDENCIES:  # a list of jobs that must have completed, or a text
            values = [",".join(f"afterok:{n}" for n in v) if isinstance(v, list) else v for v in values]
        if key in ("preceding_job", DEPENDENCIES):
            columns[key] = pl.Series(map(_text, values), dtype=pl.String)
        else:
            if not (key in KNOWN or is_request(key)):
                further.append(key)
                values = [_text(value) if isinstance(value, dict | list) else value for value in values]
            columns[key] = series_of(values)
    return further


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
