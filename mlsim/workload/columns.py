"""Columns of workload files by name: those of CSV and Parquet, and fields of Batsim's jobs."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl

from mlsim._arrays import Floats, Mask
from mlsim.errors import InputError
from mlsim.workload.fields import ClassField, Field, LeaveField, LoopField, NodeField
from mlsim.workload.header import Header

__all__ = ["KNOWN", "check_names", "text_column", "typed_column"]


_ALIASES = {"walltime": Field.REQUESTED_TIME, "estimate": Field.REQUESTED_TIME}
_REQUIRED = {
    "job_id": Field.JOB_ID,
    "submit_time": Field.SUBMIT_TIME,
    "run_time": Field.RUN_TIME,
    "processors": Field.REQUESTED_PROCESSORS,
}
_OPTIONAL: dict[str, Field | LeaveField] = {
    "status": Field.STATUS,
    "preceding_job": Field.PRECEDING_JOB,
    "think_time": Field.THINK_TIME,
    "withdraw_time": LeaveField.WITHDRAW_TIME,
}
_NAMED: dict[str, Field | ClassField] = {
    "user": Field.USER,
    "group": Field.GROUP,
    "executable": Field.EXECUTABLE,
    "queue": Field.QUEUE,
    "partition": Field.PARTITION,
    "qos": ClassField.QOS,
}
_LOOP = {field.name.lower(): field for field in LoopField}
_NODES = {"node_count": NodeField.NODE_COUNT}
KNOWN: dict[str, Field | LoopField | ClassField | NodeField | LeaveField] = (
    _REQUIRED | _ALIASES | _OPTIONAL | _NAMED | _LOOP | _NODES
)
"""Column of the log for each name that is understood."""

_SHOWN_NAMES, _SHOWN_LETTERS = 40, 60
_NEVER_EMPTY = (Field.JOB_ID, Field.SUBMIT_TIME)
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]{1,15}$"


def check_names(place: str, names: Sequence[str]) -> None:
    """Check that every column is there once that must be there.

    Parameters
    ----------
    place
        What a message begins with: the file, and the line if there is one.
    names
        The columns of the file.

    Raises
    ------
    InputError
        A column is missing, or there twice.
    """
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{place}: column {_some(twice)} is there twice")
    missing = [name for name in _REQUIRED if name not in names]
    estimates = [name for name in _ALIASES if name in names]
    if len(estimates) != 1:
        missing.append("walltime")
    if len(estimates) > 1:
        raise InputError(f"{place}: columns walltime and estimate mean the same; keep one of them")
    if missing:
        hints = [
            near for name in missing for near in difflib.get_close_matches(name, names[:_SHOWN_NAMES], 1)
        ]
        hint = f"\n  is {', '.join(hints)} meant?" if hints else ""
        raise InputError(
            f"{place}: column {', '.join(missing)} is missing\n"
            f"  found: {_some(names)}\n"
            f"  required: {', '.join(_REQUIRED)}, walltime; "
            f"optional: {', '.join(_OPTIONAL | _NAMED | _LOOP | _NODES)}, dependencies, units, "
            f"request_<resource>{hint}"
        )


def _some(names: Sequence[str]) -> str:
    """Return the first few names, shortened, for a message."""
    shown = [name if len(name) <= _SHOWN_LETTERS else name[:_SHOWN_LETTERS] + "..." for name in names]
    more = f" and {len(names) - _SHOWN_NAMES:,} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(shown[:_SHOWN_NAMES]) + more


def text_column(name: str, cells: pl.Series, header: Header) -> tuple[Floats, Mask]:
    """Read a column of texts.

    Parameters
    ----------
    name
        Of the column; one of :data:`KNOWN`.
    cells
        Texts without blanks around them; null or empty is unknown.
    header
        Takes up the names behind the codes of a column of names, as ``<name>_names``.

    Returns
    -------
    values, fits
        Float64, -1 where unknown; and where the value makes sense in this column.
    """
    field = KNOWN[name]
    empty = (cells.is_null() | (cells == "").fill_null(True)).to_numpy()
    if name in _NAMED and not (cells.str.contains(_WHOLE).fill_null(True).to_numpy() | empty).all():
        return _codes(name, cells, header), np.ones(cells.len(), np.bool_)
    numeric = cells.str.contains(_NUMBER).fill_null(False).to_numpy()
    values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    values[~numeric] = np.nan
    if field not in _NEVER_EMPTY:
        values[empty] = -1.0
    return values, field.allows(values)


def typed_column(name: str, cells: pl.Series, header: Header) -> tuple[Floats, Mask]:
    """Read a column of numbers or texts, as :func:`text_column` does; null or NaN is unknown."""
    if cells.dtype.is_numeric():
        field = KNOWN[name]
        values = cells.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
        if field not in _NEVER_EMPTY:
            values[np.isnan(values)] = -1.0
        return values, field.allows(values)
    return text_column(name, cells.cast(pl.String).str.strip_chars(), header)


def _codes(name: str, cells: pl.Series, header: Header) -> Floats:
    """Encode a text column: numbers from 1 in the order in which names first appear, -1 for unknown."""
    named = cells.set(cells == "", None)
    names = named.drop_nulls().unique(maintain_order=True)
    header[f"{name}_names"] = names.to_list()
    numbers = pl.Series(range(1, names.len() + 1), dtype=pl.Float64)
    return named.replace_strict(names, numbers, default=-1.0, return_dtype=pl.Float64).to_numpy().copy()
