"""Saved instances: their JSON form, and dispatchers that solve them again, compared."""

import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from mlsim._files import expanded, json_of, named, open_file, reason_of
from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.batch.cp.cp_solve import Status
from mlsim.batch.cp.instance import MOST, Instance, PowerPart, Queued, Running, SharedPart
from mlsim.batch.cp.plan import check_plan, reduce
from mlsim.batch.cp.planner import Solve
from mlsim.batch.cp.planning_dispatcher import make_planner
from mlsim.errors import InputError
from mlsim.scenario import CpConfig
from mlsim.scenario.words import Dispatcher

_SAME_OBJECTIVE = 1e-6  # relative difference up to which objectives count as the same
_SAME_TIME = 0.05  # relative difference up to which times count as the same
_LONGEST_LINE = 256_000_000

_SECTIONS: dict[str, Any] = {"running": Running, "queued": Queued, "shared": SharedPart, "power": PowerPart}
_COMPUTED = ("least",)  # columns that follow from others
_NEEDED = ("now", "resources", "running", "queued", "capacity", "free")
_TABLES = ("capacity", "free", "running.request", "queued.request", "shared.asked", "shared.held")
_SECONDS = {"queued.arrival": -np.inf, "queued.ewt": 0.0}  # columns of times (s), and what these are above
_ANY = -(2**63)
# Lower bounds of columns other than 0. A cap may have fallen below what jobs hold.
_LEAST = {"running.job_id": _ANY, "queued.job_id": _ANY, "shared.free": -MOST, "power.free": -MOST}
_LEAST |= dict.fromkeys(("running.units", "running.remaining", "queued.units", "queued.duration"), 1)
_LEAST |= dict.fromkeys(("shared.remaining", "power.remaining"), 1)
_EXACT = 2.0**53  # whole numbers above this are not all doubles


def instance_as_json(instance: Instance) -> dict[str, Any]:
    """Return lists and numbers for :func:`instance_from_json`."""
    data = {"now": instance.now, "resources": list(instance.resources)}
    data |= {"capacity": instance.capacity.tolist(), "free": instance.free.tolist()}
    for section in _SECTIONS:
        part = getattr(instance, section)
        if section in _NEEDED or part:
            names = [name for name in part.__slots__ if name not in _COMPUTED]
            data[section] = {name: np.asarray(getattr(part, name)).tolist() for name in names}
    return data


def instance_from_json(data: Mapping[str, Any], place: str = "instance") -> Instance:
    """Read an instance; an InputError on what is missing or of another shape begins with ``place``."""
    try:
        if missing := [key for key in _NEEDED if key not in data]:
            raise KeyError(missing[0])
        names = _names(data, "resources")
        now, wide = float(_seconds([data["now"]], "now", -np.inf)[0]), len(names)
        capacity, free = _column(data, "capacity", wide), _column(data, "free", wide)
        running = Running(**_columns(data, "running", wide))
        queued = Queued(**_columns(data, "queued", wide))
        shared = _shared(data) if "shared" in data else SharedPart()
        instance = Instance(now, names, capacity, free, running, queued, shared)
        _check(instance)
        if "power" in data:
            instance = replace(instance, power=_power(data, instance))
    except KeyError as error:
        raise InputError(f"{place}: no {error.args[0]!r}; an instance needs it") from error
    except ValueError as error:
        raise InputError(f"{place}: not an instance: {error}") from error
    return instance


def _columns(data: Mapping[str, Any], section: str, wide: int, leave: Sequence[str] = ()) -> dict[str, Any]:
    """Read the columns of a section; tables have ``wide`` columns."""
    part = data[section]
    if not isinstance(part, Mapping):
        raise ValueError(f"{section}: allowed: columns by name")
    names = [name for name in _SECTIONS[section].__slots__ if name not in (*leave, *_COMPUTED)]
    return {name: _column(part, f"{section}.{name}", wide) for name in names}


def _shared(data: Mapping[str, Any]) -> SharedPart:
    section = data["shared"]
    names = _names(section, "shared.names") if isinstance(section, Mapping) else ()
    part = SharedPart(names, **_columns(data, "shared", len(names), ["names"]))
    if not len(part.free) == len(part.capacity) == len(names):
        raise ValueError(f"shared.free, shared.capacity: allowed: {len(names)} whole numbers, one a name")
    return part


def _power(data: Mapping[str, Any], instance: Instance) -> PowerPart:
    columns = _columns(data, "power", 0, ["free"])
    free = int(_column({"free": [data["power"]["free"]]}, "power.free", 0)[0])
    queued, of_node, counts, held = instance.queued, columns["of_node"], columns["counts"], columns["held"]
    same = len(of_node) == instance.n_nodes and len(counts) == len(queued)
    if not same or len(held) != len(columns["remaining"]):
        raise ValueError("power: not a number for each node, and each job")
    most = max(float(queued.units @ counts.astype(np.float64)) * of_node.max(initial=0), float(free))
    if most + held.sum(dtype=np.float64) > MOST:
        raise ValueError("power: allowed: numbers whose sums stay below 2^62")
    return PowerPart.of(
        **columns, free=free, units=queued.units, request=queued.request, capacity=instance.capacity
    )


def _names(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Read a list of names."""
    names = data[key.rpartition(".")[2]]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key}: allowed: a list of names, one at least")
    return tuple(names)


def _column(data: Mapping[str, Any], key: str, wide: int) -> Any:
    """Read a column, or a table of ``wide`` columns, whose last part of the key is its name in the data."""
    values, least = data[key.rpartition(".")[2]], _LEAST.get(key, 0)
    if key in _SECONDS:
        return _seconds(values, key, _SECONDS[key])
    if key in _TABLES:
        each = "name" if key.startswith("shared") else "resource"
        allowed = f"{key}: allowed: rows of {wide} whole numbers, 0 and more, one a {each}"
        table = _whole(values, 2, allowed, least)
        if table.size and table.shape[1] != wide:
            raise ValueError(allowed)
        return table if table.size else np.zeros((0, wide), np.int64)
    allowed = f"{key}: allowed: a list of whole numbers" + (f", {least} and more" if least >= 0 else "")
    return _whole(values, 1, allowed, least)


def _seconds(values: Any, key: str, above: float) -> Floats:
    """Read a column of times (s), all above a limit."""
    column = _numbers(values)
    if column is None or column.ndim != 1:
        raise ValueError(f"{key}: allowed: a list of numbers")
    column = column.astype(np.float64)
    if not ((column > above) & (column < np.inf)).all():
        raise ValueError(f"{key}: allowed: numbers above {above:g}, not infinite")
    return column


def _whole(values: Any, dimensions: int, allowed: str, least: int) -> Ints:
    table = _numbers(values)
    if table is not None and not table.size and isinstance(values, list):
        return np.zeros((0,) * dimensions, np.int64)
    if table is None or table.ndim != dimensions:
        raise ValueError(allowed)
    if table.dtype.kind == "f" and not ((table == np.floor(table)) & (np.abs(table) < _EXACT)).all():
        raise ValueError(allowed)
    whole = table.astype(np.int64)
    if (whole < least).any():
        raise ValueError(f"{allowed}; there is {whole.min()}")
    return whole


def _numbers(values: Any) -> NDArray[Any] | None:
    """Return an array of numbers, all below 2^63 in size; None if there are others."""
    try:
        table = np.asarray(values)
    except (ValueError, OverflowError):  # rows of unequal length
        return None
    return table if table.dtype.kind in "if" else None


def _check(instance: Instance) -> None:
    """Raise ValueError where columns do not belong together, or more is held than exists."""
    running, queued, shared = instance.running, instance.queued, instance.shared
    lengths = {
        "running": {len(getattr(running, name)) for name in Running.__slots__},
        "queued": {len(getattr(queued, name)) for name in Queued.__slots__},
        "nodes": {len(instance.capacity), len(instance.free)},
    }
    for name, found in lengths.items():
        if len(found) > 1:
            raise ValueError(f"columns of {name} have different lengths: {sorted(found)}")
    if len(running) and running.node.max() >= instance.n_nodes:
        raise ValueError(f"running.node: allowed: 0 to {instance.n_nodes - 1}")
    for name, table, units in (
        ("capacity", instance.capacity, np.ones(instance.n_nodes)),
        ("running.request", running.request, running.units),
        ("queued.request", queued.request, queued.units),
        ("shared.capacity", shared.capacity[:, None], np.ones(1)),
        ("shared.asked", shared.asked, np.ones(1)),
        ("shared.held", shared.held, np.ones(1)),
    ):
        if (table * np.asarray(units, np.float64)[:, None]).sum() > MOST:
            raise ValueError(f"{name}: allowed: numbers whose sum, with units, stays below 2^62")
    if float(queued.duration.sum(dtype=np.float64)) + running.remaining.max(initial=0) > MOST:
        raise ValueError("queued.duration: allowed: times whose sum stays below 2^62")
    held = np.zeros_like(instance.capacity)
    np.add.at(held, running.node, running.request * running.units[:, None])
    for node, r in np.argwhere(instance.free > instance.capacity - held)[:1].tolist():
        raise ValueError(
            f"free: node {node}, {instance.resources[r]}: {instance.free[node, r]} free "
            f"and {held[node, r]} held of {instance.capacity[node, r]}"
        )
    if shared.names and len(shared.asked) != len(queued):
        raise ValueError("shared.asked: allowed: a row for each queued job")
    if shared.names and len(shared.held) != len(shared.remaining):
        raise ValueError("shared.held: allowed: a row for each number of shared.remaining")


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
    return instance_from_json(data, place)


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
        times = [row.seconds for row in mine]
        variables = [row.solve.variables for row in mine]
        table.append(
            {
                "dispatcher": str(name),
                "instances": len(mine),
                "solved": sum(not math.isnan(row.objective) for row in mine),
                "empty": sum(row.solve.status == "empty" for row in mine),
                "optimal": sum(row.solve.status == "optimal" for row in mine),
                "variables": _mean(variables),
                "constraints": _mean([row.solve.constraints for row in mine]),
                "branches": _mean([row.solve.branches for row in mine]),
                "time_ms": _mean([seconds * 1e3 for seconds in times]),
                "variables_ratio": _median(_ratios(variables, [row.solve.variables for row in base])),
                "time_ratio": _median(_ratios(times, [row.seconds for row in base])),
                "objective_ratio": _mean(
                    _ratios([row.objective for row in mine], [row.objective for row in base])
                ),
                "groups": {str(group): groups.count(group) for group in Group},
            }
        )
    return table


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _median(ordered: list[float]) -> float | None:
    return ordered[len(ordered) // 2] if ordered else None


def _ratios(mine: Sequence[float], base: Sequence[float]) -> list[float]:
    pairs = zip(mine, base, strict=True)
    return sorted(a / b for a, b in pairs if b > 0 and not math.isnan(a))


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
