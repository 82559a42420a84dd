"""User-defined readers of logs and models of workloads.

A reader is a function of a path, or a class with a method ``read``; a model is a function of processors and
random numbers, or a class with a method ``draw``.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError, user_code_error
from mlsim.plugins import Family, make_callable
from mlsim.scenario import field_types, section_base
from mlsim.scenario.words import WorkloadFormat, WorkloadModel
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_columns import log_of_table
from mlsim.workload.models.model_base import Drawing
from mlsim.workload.workload_jobs import IF_KNOWN, JobBlock

_GROUP, _PAGE = "mlsim.workloads", "docs/reference/workloads.md"
READERS: Final = Family(
    *("workload format", "workload.format", _GROUP, ("read",), tuple(WorkloadFormat), _PAGE), arguments=1
)
GENERATORS: Final = Family(
    *("workload model", "workload.generate.model", _GROUP, ("draw",)),
    *((*WorkloadModel, *WorkloadModel.aliases()), _PAGE),
    arguments=2,
)
_REQUIRED = ("submit_time", "run_time", "processors")
_KNOWN = (*_REQUIRED, "walltime", *IF_KNOWN)
_LARGEST = 2.0**53
_LEAST = {
    "submit_time": (0.0, "seconds from the start, 0 or more, below 2^53"),
    "run_time": (0.0, "seconds, 0 or more, below 2^53"),
    "walltime": (0.0, "seconds, more than 0, below 2^53"),
    "processors": (1.0, "a whole number, 1 or more"),
}


def read_by_user(name: str, path: str | Path, options: Reading) -> WholeLog:
    """Read a log with a user-defined reader, ``path/file.py:reader`` or the name of an entry point."""
    title = f"{READERS.name} {name}"
    read = make_callable(READERS, name)
    try:
        table = _table_of(read(Path(path)))
    except BaseException as error:  # whatever the user's code raises
        raise user_code_error(f"{title}: {path} cannot be read", error) from error
    return log_of_table(f"{path}, as {name} reads it", table, options)


def _table_of(found: Any) -> pl.DataFrame:
    if isinstance(found, pl.DataFrame):
        return found
    if isinstance(found, Mapping):
        return pl.DataFrame({str(name): column for name, column in found.items()})
    raise TypeError(
        f"it gives {type(found).__name__}; allowed: a polars.DataFrame, or a mapping of names to columns"
    )


class OwnModel:
    """A workload that user code draws, with walltimes from the code or, where it has none, the run times."""

    def __init__(self, name: str, options: Drawing) -> None:
        options.check_processors()
        self._title = f"{GENERATORS.name} {name}"
        self._draw = make_callable(GENERATORS, name)
        self._options = options
        values = "".join(f", {key} {value!r}" for key, value in section_base.parameters_of(name).items())
        words = f"seed {options.seed}" if options.factor is None else options.words
        self.header = options.header(" ".join(f"{name}{values}, {words}".split()))

    def stream(self) -> Iterator[JobBlock]:
        """Yield the jobs, checked; the code is called anew with the same random numbers."""
        drawn, walltimes = self._options.generators(4, 2)
        made, now, names = 0, 0.0, None
        tables = self._tables(drawn)
        while (table := self._next(tables, made)) is not None:
            place = f"{self._title}: jobs after the first {made:,}"
            names = self._checked_names(place, table, names)
            columns = {name: _numbers(place, name, table[name]) for name in names}
            self._check_values(place, columns, now)
            size = columns["submit_time"].size
            if size:
                made, now = made + size, float(columns["submit_time"][-1])
                yield self._block(columns, walltimes)

    def _tables(self, rng: np.random.Generator) -> Iterator[Any]:
        try:
            return iter(self._draw(self._options.processors, rng))
        except BaseException as error:  # whatever the user's code raises
            raise user_code_error(f"{self._title}: cannot draw jobs", error) from error

    def _next(self, tables: Iterator[Any], made: int) -> Any:
        """Return the next table; None at the end."""
        try:
            return next(tables, None)
        except BaseException as error:  # whatever the user's code raises
            raise user_code_error(f"{self._title}: failed after {made:,} jobs", error) from error

    def _checked_names(self, place: str, table: Any, before: list[str] | None) -> list[str]:
        if not (isinstance(table, Mapping) or hasattr(table, "columns")):
            raise InputError(
                f"{place}: a {type(table).__name__}; allowed: a mapping of names to columns, or a data frame"
            )
        names = [str(name) for name in (table if isinstance(table, Mapping) else table.columns)]
        for name in names:
            if name not in _KNOWN:
                raise InputError(
                    f"{place}: column {name!r} is unknown;{field_types.nearest(name, _KNOWN)} "
                    f"allowed: {', '.join(_KNOWN)}"
                )
        if missing := [name for name in _REQUIRED if name not in names]:
            raise InputError(f"{place}: no column {' and no '.join(missing)}; see {GENERATORS.page}")
        if before is not None and set(names) != set(before):
            raise InputError(
                f"{place}: columns {', '.join(names)}; allowed: those of the jobs before, {', '.join(before)}"
            )
        return names

    def _check_values(self, place: str, columns: Mapping[str, Floats], now: float) -> None:
        size = columns["submit_time"].size
        for name, values in columns.items():
            if values.size != size:
                raise InputError(f"{place}: {values.size} values of {name}, and {size} of submit_time")
            low, allowed = _LEAST.get(name, (-1.0, "a whole number, -1 (unknown) or more"))
            wrong = ~((values >= low) & (values <= _LARGEST))
            if name == "walltime":
                wrong |= values == 0
            elif name not in ("submit_time", "run_time"):
                wrong |= values != np.floor(values)
            if wrong.any():
                raise InputError(f"{place}: {name} {values[np.argmax(wrong)]:g}; allowed: {allowed}")
        if np.any(columns["processors"] > self._options.processors):
            raise InputError(
                f"{place}: a job asks for {columns['processors'].max():g} processors, and the machine has "
                f"{self._options.processors}"
            )
        times = np.append(now, columns["submit_time"])
        if np.any(np.diff(times) < 0):
            row = int(np.argmax(np.diff(times) < 0))
            raise InputError(
                f"{place}: submitted at {times[row + 1]:g} s, after a job submitted at {times[row]:g} s; "
                "allowed: jobs in arrival order"
            )

    def _block(self, columns: Mapping[str, Floats], walltimes: np.random.Generator) -> JobBlock:
        run_time = columns["run_time"]
        if self._options.factor is not None:
            walltime = np.maximum(self._options.walltimes(run_time, walltimes), 1.0)
        else:
            walltime = columns.get("walltime", np.where(run_time > 0, run_time, 1.0))
        codes: dict[str, Any] = {name: columns[name].astype(np.int64) for name in IF_KNOWN if name in columns}
        return JobBlock(
            job_id=np.full(run_time.size, -1, np.int64),
            submit_time=columns["submit_time"],
            run_time=run_time,
            walltime=walltime,
            processors=columns["processors"].astype(np.int64),
            **codes,
        )


def _numbers(place: str, name: str, column: Any) -> Floats:
    try:
        values = np.ascontiguousarray(column, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{place}: {name}: {str(error)[:100]}; allowed: numbers") from error
    if values.ndim != 1:
        raise InputError(f"{place}: {name} has {values.ndim} dimensions; allowed: 1")
    return values
