"""Columns ``units`` and ``request_<resource>`` of workload files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints, Mask
from mlsim.errors import InputError
from mlsim.scenario import MEMORY
from mlsim.workload.resource_requests import MB, NODE_COUNT, ResourceRequests, sized

Complain = Callable[[str, Mask, str], None]
"""Is told a column, which of its cells make sense, and what would; may raise."""

_REQUEST = "request_"
_MEMORY = f"{_REQUEST}{MEMORY}"
_EXPECTED = "a whole number, or nothing if unknown"
_EXPECTED_MEMORY = f"{_EXPECTED} (MB of 10^6 B), or a size with its unit, such as 3174 MiB"
_WHOLE = r"^[+-]?[0-9]{1,15}$"
_LARGEST = 1e15
_LARGEST_MEMORY = 1e12  # MB


def is_request(name: str) -> bool:
    """Whether a column of this name is a request for units or a resource."""
    return name == "units" or (name.startswith(_REQUEST) and name != _REQUEST)


def asking_columns(names: Collection[str]) -> list[str]:
    """Return the columns that say what a job asks for beside processors, or on how many nodes."""
    return [name for name in names if is_request(name) or name == NODE_COUNT]


def read_asked(
    place: str,
    columns: Mapping[str, pl.Series],
    processors: Floats,
    complain: Complain,
    shared: Collection[str] = (),
) -> tuple[ResourceRequests | None, Mask]:
    """Read requests for units and resources.

    Parameters
    ----------
    place
        What a message begins with: the file.
    columns
        Those of the file for which :func:`is_request` holds, in its order: numbers, or texts without blanks
        around them; null, NaN and empty texts are unknown.
    processors
        What each job asks for; -1 unknown.
    complain
        Called for each column.
    shared
        Names of what the machine has as a whole: a job's amount is not divided among its units.

    Returns
    -------
    asked, fits
        What jobs ask for, None where there are no such columns; and which jobs make sense.

    Raises
    ------
    InputError
        There is a column of cores.
    """
    n = len(processors)
    sound = np.ones(n, np.bool_)
    if not columns:
        return None, sound
    if f"{_REQUEST}cores" in columns:
        raise InputError(f"{place}: column request_cores: write the cores of a job as its processors")
    values: dict[str, Ints] = {}
    exact = None
    for name, cells in columns.items():
        if name == _MEMORY:
            values[name], exact, fits = _memory(cells)
            fits &= values[name] <= _LARGEST_MEMORY
        else:
            values[name], fits = _whole(cells, 1 if name == "units" else 0)
        complain(name, fits, _EXPECTED_MEMORY if name == _MEMORY else _EXPECTED)
        sound &= fits
    units: Ints = values.pop("units", np.full(n, -1, np.int64))
    totals_of: dict[str, NDArray[Any]] = {"processors": processors, **values}
    for name, amounts in totals_of.items():
        if name.removeprefix(_REQUEST) in shared:
            continue
        fits = (units < 1) | (amounts < 0) | (amounts % np.maximum(units, 1) == 0)
        if name == _MEMORY and exact is not None:
            fits |= exact >= 0  # counted in bytes
        complain(name, fits, "a multiple of the job's units")
        sound &= fits
    totals = np.empty((n, len(values)), np.int64)
    for column, known in enumerate(values.values()):
        totals[:, column] = known
    names = tuple(name.removeprefix(_REQUEST) for name in values)
    return ResourceRequests(names, units, totals, exact), sound


def _memory(cells: pl.Series) -> tuple[Ints, Ints | None, Mask]:
    """Read memory: whole MB, and the exact bytes of those with a unit (None where there are none)."""
    if cells.dtype.is_numeric() or not cells.cast(pl.String).str.contains("[A-Za-z]").any():
        values, fits = _whole(cells, 0)
        return values, None, fits
    texts = cells.cast(pl.String).str.strip_chars().fill_null("")
    with_unit = texts.str.contains("[A-Za-z]")
    values, fits = _whole(texts.set(with_unit, ""), 0)
    sizes = {text: sized(text) for text in texts.filter(with_unit).unique().to_list()}
    exact = np.array([sizes.get(text, -1) for text in texts.to_list()], np.int64)
    written = with_unit.to_numpy()
    values[written] = -(-exact[written] // MB)
    return values, exact, fits & (~written | (exact >= 0))


def _whole(cells: pl.Series, least: int) -> tuple[Ints, Mask]:
    """Read whole numbers from ``least`` up; -1 for unknown ones and -1 itself."""
    if cells.dtype.is_numeric():
        numbers = cells.cast(pl.Float64).fill_null(np.nan).to_numpy()
        empty = np.isnan(numbers)
        whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < _LARGEST)
        values = np.where(whole, numbers, -1.0).astype(np.int64)
    else:
        texts = cells.cast(pl.String).str.strip_chars()
        empty = (texts.is_null() | (texts == "").fill_null(True)).to_numpy()
        whole = texts.str.contains(_WHOLE).fill_null(False).to_numpy()
        values = texts.cast(pl.Int64, strict=False).fill_null(-1).to_numpy().astype(np.int64)
    fits: Mask = empty | (whole & ((values >= least) | (values == -1)))
    return values, fits
