"""Dispatchers compared on saved instances."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import polars as pl

from mlsim._files import expanded, json_of, named, open_file, reason_of
from mlsim.batch.cp.cp_solve import Status
from mlsim.batch.cp.instance import Instance
from mlsim.batch.cp.plan import check_plan, reduce
from mlsim.batch.cp.planner import Solve
from mlsim.batch.cp.planning_dispatcher import make_planner
from mlsim.errors import InputError
from mlsim.scenario import CpConfig, Dispatcher

_SAME_OBJECTIVE = 1e-6
_LONGEST_LINE = 256_000_000  # relative difference up to which objectives count as the same
_SAME_TIME = 0.05  # relative difference up to which times count as the same


class Group(StrEnum):
    """Comparison of a dispatcher with another on an instance (thesis, Table 6.3).

    G1: no worse in objective and time. G2: better in one, worse in the other. G3: the rest, worse in one and
    no better in the other. UNSOLVED: one of the two has no solution.
    """

    G1 = "G1"
    G2 = "G2"
    G3 = "G3"
    UNSOLVED = "unsolved"


@dataclass(frozen=True, slots=True)
class Replayed:
    """One instance solved by one dispatcher."""

    instance: int  # its number, from 0
    dispatcher: Dispatcher
    solve: Solve
    wrong: tuple[str, ...]  # faults of the plan, found by the checker

    @property
    def seconds(self) -> float:
        """Wall-clock time of building and solving."""
        return self.solve.build_seconds + self.solve.solve_seconds

    @property
    def objective(self) -> float:
        """Sum of expected slowdowns: 0 where no job could start, NaN where there is no solution."""
        if self.solve.status is Status.EMPTY:
            return 0.0
        # A plan for fewer jobs than the others have, as more could not be built in time, costs less for that.
        return self.solve.objective if self.solve.considered == self.solve.queued else math.nan


@contextmanager
def writer_of(path: Path) -> Iterator[IO[str]]:
    """Open a file of instances, one JSON object per line; compressed if its name ends in .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        yield file


def instance_in(line: str, place: str) -> Instance:
    """Read the instance of a line; an InputError names the place."""
    data = json_of(line, place)
    if not isinstance(data, dict):
        raise InputError(f"{place}: not an instance; `mlsim cp dump` writes such files")
    return Instance.from_json(data, place)


def read_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the non-empty lines of a file, each with its place for messages."""
    path = expanded(path)
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            yield f"{path}, line {number}", line


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, decompressed if its name ends in .gz."""
    with open_file(path, "file of instances", stream=True) as raw:
        file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        try:
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise InputError(
                        f"{named(path)}: has a line of {_LONGEST_LINE / 1e6:.0f} MB; is it a dump?"
                    )
                yield line.decode("utf-8")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{named(path)}: the compressed data is corrupt: {error}") from error
        except OSError as error:
            raise InputError(f"{named(path)}: {reason_of(error)}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{named(path)}: not UTF-8 text; is it a dump?") from error


def solve_one(number: int, instance: Instance, name: Dispatcher, config: CpConfig, seed: int = 0) -> Replayed:
    """Solve an instance with a dispatcher.

    All dispatchers get the same jobs, those that the reduction by slowdown keeps. So ``cp`` and ``lists``
    plan only for jobs that can start now, without earlier experience.
    """
    part = instance.with_queued(reduce(instance, config.jobs).rows)
    plan, solve = make_planner(name, config, seed).plan(part)
    return Replayed(number, name, solve, tuple(check_plan(part, plan)))


def group_of(one: Replayed, other: Replayed) -> Group:
    """Return how ``one`` compares with ``other`` on the same instance."""
    a, b = one.objective, other.objective
    if not (math.isfinite(a) and math.isfinite(b)):
        return Group.UNSOLVED
    better, worse = a < b * (1 - _SAME_OBJECTIVE), a > b * (1 + _SAME_OBJECTIVE)
    quicker = one.seconds < other.seconds * (1 - _SAME_TIME)
    slower = one.seconds > other.seconds * (1 + _SAME_TIME)
    if (better and slower) or (worse and quicker):
        return Group.G2
    return Group.G3 if worse or slower else Group.G1


def compare(rows: Sequence[Replayed], names: Sequence[Dispatcher]) -> list[dict[str, Any]]:
    """Return means of each dispatcher, and its ratios and groups against the first."""
    of = {name: [row for row in rows if row.dispatcher == name] for name in names}
    table = []
    for name in names:
        mine, base = of[name], of[names[0]]
        groups = [group_of(one, other) for one, other in zip(mine, base, strict=True)]
        table.append(
            {
                "dispatcher": str(name),
                "instances": len(mine),
                "solved": sum(not math.isnan(row.objective) for row in mine),
                "empty": sum(row.solve.status == "empty" for row in mine),
                "optimal": sum(row.solve.status == "optimal" for row in mine),
                "variables": _mean([row.solve.variables for row in mine]),
                "constraints": _mean([row.solve.constraints for row in mine]),
                "branches": _mean([row.solve.branches for row in mine]),
                "time_ms": _mean([row.seconds * 1e3 for row in mine]),
                "variables_ratio": _median_ratio(
                    [(a.solve.variables, b.solve.variables) for a, b in zip(mine, base, strict=True)]
                ),
                "time_ratio": _median_ratio(
                    [(a.seconds, b.seconds) for a, b in zip(mine, base, strict=True)]
                ),
                "objective_ratio": _mean_ratio(
                    [(a.objective, b.objective) for a, b in zip(mine, base, strict=True)]
                ),
                "groups": {str(group): groups.count(group) for group in Group},
            }
        )
    return table


def write_csv(path: Path, rows: Sequence[Replayed]) -> None:
    """Write every solve as a row of a CSV file."""
    names = list(rows[0].solve.__slots__) if rows else []
    pl.DataFrame(
        [
            {"instance": row.instance, "dispatcher": str(row.dispatcher)}
            | {name: getattr(row.solve, name) for name in names}
            for row in rows
        ],
        infer_schema_length=None,
    ).write_csv(path)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratios(pairs: list[tuple[float, float]]) -> list[float]:
    return sorted(a / b for a, b in pairs if b > 0 and not math.isnan(a))


def _median_ratio(pairs: list[tuple[float, float]]) -> float | None:
    ratios = _ratios(pairs)
    return ratios[len(ratios) // 2] if ratios else None


def _mean_ratio(pairs: list[tuple[float, float]]) -> float | None:
    return _mean(_ratios(pairs))
