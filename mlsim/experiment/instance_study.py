"""Solve recorded instances of CP dispatchers again, in several processes."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlsim._runtime.processes import Helper, HelperEndedError, wait
from mlsim.batch.cp import cp_solve, instance_replay, planner
from mlsim.errors import OutputError
from mlsim.experiment.study import study_executors, study_plan, study_store
from mlsim.scenario import CpConfig, words


@dataclass(frozen=True, slots=True)
class _Order:
    """One instance and the dispatcher that solves it; sent to worker processes."""

    key: str
    number: int
    line: str
    place: str
    dispatcher: words.Dispatcher
    config: CpConfig
    seed: int


def replay_instances(
    file: Path,
    dispatchers: Sequence[words.Dispatcher],
    config: CpConfig,
    *,
    seed: int = 0,
    jobs: int | None = None,
    store: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[instance_replay.Replayed]:
    """Solve each instance of a file from ``mlsim cp dump`` with each dispatcher; in this order.

    One job is this process, as solve times of concurrent processes disturb each other. ``store`` keeps every
    solve; ``progress`` receives the number of finished ones.
    """
    kept = None if store is None else study_store.Store.open(store, "cp replay", "instances")
    entries: study_store.Entries = study_store.Memory() if kept is None else kept
    rows: list[instance_replay.Replayed] = []
    with nullcontext() if kept is None else study_store.locked(kept):
        orders = _orders(file, dispatchers, config, seed)
        for order, content, new in _solves(orders, entries, jobs or study_executors.cores()):
            try:
                if new:
                    entries.put(order.key, content)
            except OSError as error:
                raise study_store.disk_error(store or Path(), error) from error
            solve = content["solve"] | {"status": cp_solve.Status(content["solve"]["status"])}
            wrong = tuple(content["wrong"])
            row = instance_replay.Replayed(order.number, order.dispatcher, planner.Solve(**solve), wrong)
            rows.append(row)
            if progress is not None:
                progress(len(rows))
    place = {name: k for k, name in enumerate(dispatchers)}
    return sorted(rows, key=lambda row: (row.instance, place[row.dispatcher]))


def _orders(
    file: Path, dispatchers: Sequence[words.Dispatcher], config: CpConfig, seed: int
) -> Iterator[_Order]:
    told = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    for number, (place, line) in enumerate(instance_replay.read_lines(file)):
        for name in dispatchers:
            known = json.dumps([*study_plan.tool(), str(name), told, seed, line])
            key = hashlib.sha256(known.encode()).hexdigest()
            yield _Order(key, number, line, place, name, config, seed)


def _solves(
    orders: Iterator[_Order], entries: study_store.Entries, jobs: int
) -> Iterator[tuple[_Order, dict[str, Any], bool]]:
    """Yield solves, and whether they are new, as they become available; by this process or several.

    Each process holds one order, so that the file is never held whole.
    """
    busy: dict[Helper, _Order] = {}
    idle: list[Helper] = []
    try:
        for order in orders:
            content = entries.get(order.key)
            if content is not None or jobs == 1:
                yield order, content or _solve(order), content is None
                continue
            if not idle and len(busy) == jobs:
                for helper in wait(list(busy)):
                    yield *_done(helper, busy, idle), True
            try:
                helper = idle.pop() if idle else Helper(f"{__name__}:_solve")
            except OSError as error:
                raise OutputError(
                    f"no process can be started to solve instances: {error}. Try --jobs 1."
                ) from error
            busy[helper] = order
            helper.send(order)
        while busy:
            for helper in wait(list(busy)):
                yield *_done(helper, busy, idle), True
    finally:
        for helper in (*busy, *idle):
            helper.kill()


def _done(helper: Helper, busy: dict[Helper, _Order], idle: list[Helper]) -> tuple[_Order, dict[str, Any]]:
    """Return the answer of a helper, which is idle then."""
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
    instance = instance_replay.instance_in(order.line, order.place)
    row = instance_replay.solve_one(order.number, instance, order.dispatcher, order.config, order.seed)
    return {"solve": asdict(row.solve), "wrong": list(row.wrong)}
