"""Instances of CP dispatchers solved again by processes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlsim._processes import Helper, HelperEndedError, wait
from mlsim.batch.cp.instance_replay import Replayed, instance_in, read_lines, solve_one
from mlsim.batch.cp.planners.planner import Solve
from mlsim.batch.cp.solver.cp_solve import Status
from mlsim.errors import OutputError
from mlsim.experiment.study.local_executors import cores
from mlsim.experiment.study.study_plan import tool
from mlsim.experiment.study.study_store import Entries, Memory, Store, disk_error, locked
from mlsim.scenario import CpConfig, Dispatcher


@dataclass(frozen=True, slots=True)
class _Order:
    """One instance to be solved by one dispatcher; can be sent to another process."""

    key: str
    number: int
    line: str
    place: str
    dispatcher: Dispatcher
    config: CpConfig
    seed: int


def replay_instances(
    file: Path,
    dispatchers: Sequence[Dispatcher],
    config: CpConfig,
    *,
    seed: int = 0,
    jobs: int | None = None,
    store: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Replayed]:
    """Solve the instances of a file with each of some dispatchers.

    Parameters
    ----------
    file
        What ``mlsim cp dump`` wrote.
    dispatchers, config, seed
        Who solves, with what options, and the seed of the solver.
    jobs
        How many processes; None: as many as there are cores. With one, all is done in this process: times
        of solves side by side are those of a machine that does other work.
    store
        A directory that keeps each solve. What it has is not done again.
    progress
        Called with how many solves there are, whenever one is done.

    Returns
    -------
    list of Replayed
        In order of instances, then dispatchers.

    Raises
    ------
    InputError
        If the file is no file of instances, or the store is another's.
    OutputError
        If a solve cannot be kept, or a process ends; what was kept stays.
    """
    kept = None if store is None else Store.open(store, "cp replay", "instances")
    with nullcontext() if kept is None else locked(kept):
        rows: list[Replayed] = []
        for row in _rows(_orders(file, dispatchers, config, seed), kept or Memory(), jobs or cores(), store):
            rows.append(row)
            if progress is not None:
                progress(len(rows))
    place = {name: k for k, name in enumerate(dispatchers)}
    return sorted(rows, key=lambda row: (row.instance, place[row.dispatcher]))


def _orders(file: Path, dispatchers: Sequence[Dispatcher], config: CpConfig, seed: int) -> Iterator[_Order]:
    told = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    for number, (place, line) in enumerate(read_lines(file)):
        for name in dispatchers:
            known = json.dumps([*tool(), str(name), told, seed, line])
            key = hashlib.sha256(known.encode()).hexdigest()
            yield _Order(key, number, line, place, name, config, seed)


def _rows(orders: Iterator[_Order], kept: Entries, jobs: int, store: Path | None) -> Iterator[Replayed]:
    """Yield all solves as they are there: those that were kept, and those that are done now."""

    def keep(order: _Order, content: dict[str, Any]) -> Replayed:
        try:
            kept.put(order.key, content)
        except OSError as error:
            raise disk_error(store or Path(), error) from error
        return _row(order, content)

    missing = _Missing(orders, kept)
    if jobs == 1:
        for order in missing:
            yield from missing.there()
            yield keep(order, _solve(order))
    else:
        for order, content in _side_by_side(iter(missing), jobs):
            yield from missing.there()
            yield keep(order, content)
    yield from missing.there()


class _Missing:
    """The orders of which nothing is kept; the others are put aside."""

    def __init__(self, orders: Iterator[_Order], kept: Entries) -> None:
        self._orders, self._kept = orders, kept
        self._there: list[Replayed] = []

    def __iter__(self) -> Iterator[_Order]:
        for order in self._orders:
            content = self._kept.get(order.key)
            if content is None:
                yield order
            else:
                self._there.append(_row(order, content))

    def there(self) -> list[Replayed]:
        """Return those that were kept and have been passed since the last call."""
        there, self._there = self._there, []
        return there


def _side_by_side(orders: Iterator[_Order], jobs: int) -> Iterator[tuple[_Order, dict[str, Any]]]:
    """Yield what is solved, as it is there; each process holds one order, so that no file is held whole."""
    busy: dict[Helper, _Order] = {}
    idle: list[Helper] = []
    try:
        for order in orders:
            if not idle and len(busy) == jobs:
                for helper in wait(list(busy)):
                    yield _done(helper, busy, idle)
            helper = idle.pop() if idle else _started()
            busy[helper] = order
            helper.send(order)
        while busy:
            for helper in wait(list(busy)):
                yield _done(helper, busy, idle)
    finally:
        for helper in (*busy, *idle):
            helper.kill()


def _started() -> Helper:
    try:
        return Helper(f"{__name__}:_solve")
    except OSError as error:
        raise OutputError(f"no process can be started to solve instances: {error}. Try --jobs 1.") from error


def _done(helper: Helper, busy: dict[Helper, _Order], idle: list[Helper]) -> tuple[_Order, dict[str, Any]]:
    """Return what a helper has done, which may do something else then."""
    try:
        content = helper.receive()
    except HelperEndedError as error:
        raise OutputError(
            f"{busy[helper].place}: a process that solved instances was killed, as the system does where "
            "memory is used up. What was kept stays; try fewer --jobs."
        ) from error
    idle.append(helper)
    return busy.pop(helper), content


def _solve(order: _Order) -> dict[str, Any]:
    """Solve one instance, and return what is kept of it."""
    instance = instance_in(order.line, order.place)
    row = solve_one(order.number, instance, order.dispatcher, order.config, order.seed)
    return {"solve": asdict(row.solve), "wrong": list(row.wrong)}


def _row(order: _Order, content: dict[str, Any]) -> Replayed:
    solve = dict(content["solve"])
    solve["status"] = Status(solve["status"])
    return Replayed(order.number, order.dispatcher, Solve(**solve), tuple(content["wrong"]))
