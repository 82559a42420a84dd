"""Goes from generation to generation: what a method asks for is done, and told to it in order of asking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlsim.errors import InputError
from mlsim.experiment.study.doing import Doing
from mlsim.experiment.study.executors.base import Started
from mlsim.experiment.study.model import Study
from mlsim.experiment.study.points import words_of
from mlsim.experiment.study.rows import StudyRow
from mlsim.experiment.study.search.candidates import (
    FITTED,
    HELD_OUT,
    baseline_points,
    candidate_points,
    part_of,
)
from mlsim.experiment.study.search.methods import check_installed, method_of
from mlsim.experiment.study.search.model import Search
from mlsim.experiment.study.search.outcome import Tried, best_of, tried_of
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["Rehearsal", "rehearsed", "search_rows"]


def search_rows(study: Study, doing: Doing) -> list[StudyRow]:
    """Search; return a row for every run, in the order they were asked for.

    Parameters
    ----------
    study
        One with a search.
    doing
        Does its runs.

    Raises
    ------
    InputError
        If a file cannot be used, or no candidate can be judged.
    """
    search = study.search
    assert search is not None, "called for searches only"
    check_installed(search.method, f"{study.source}: search: method")
    plan, tasks = doing.plan(study)
    plan.check_files(tasks)
    rows = _baselines(study, search, doing, FITTED)
    below = _below(study, search, rows)
    candidates = _candidates(study, search, doing, rows, below)
    best = best_of(search, candidates)
    assert best is not None, "otherwise the first generation has ended the search"
    if search.held_out:
        values = tuple(one.value(best.labels[one.name]) for one in search.parameters)
        points = candidate_points(
            search, values, int(best.name), int(best.generation), search.held_out, HELD_OUT
        )
        rows += doing.rows(part_of(study, points), check=False)
        rows += _baselines(study, search, doing, HELD_OUT)
    return rows


def _baselines(study: Study, search: Search, doing: Doing, part: str) -> list[StudyRow]:
    repetitions = search.repetitions if part == FITTED else search.held_out
    points = [
        point for name in search.baselines for point in baseline_points(search, name, repetitions, part)
    ]
    return doing.rows(part_of(study, points)) if points else []


def _below(study: Study, search: Search, rows: Sequence[StudyRow]) -> dict[str, float] | None:
    """Return what values are divided by, by repetition."""
    if not search.relative:
        return None
    (one,) = (one for one in tried_of(search, rows) if one.name == search.relative)
    for name, value in one.values.items():
        if not value > 0.0:
            why = f"; {one.failed[0]}" if one.failed else ""
            raise InputError(
                f"{study.source}: search: relative: {search.relative} has {search.title} {value:g} "
                f"({name or 'its one run'}), by which nothing can be divided{why}"
            )
    return dict(one.values)


def _candidates(
    study: Study,
    search: Search,
    doing: Doing,
    rows: list[StudyRow],
    below: dict[str, float] | None,
) -> list[Tried]:
    """Try candidates until there are no more, or as many as wanted; their rows are added."""
    method = method_of(search)
    candidates: list[Tried] = []
    worst: float | None = None
    generation = 0
    while len(candidates) < search.options.evaluations:
        asked = method.ask()
        if not asked:
            break
        generation += 1
        tried = asked[: search.options.evaluations - len(candidates)]
        points = [
            point
            for number, values in enumerate(tried, start=len(candidates) + 1)
            for point in candidate_points(search, values, number, generation, search.repetitions, FITTED)
        ]
        found = doing.rows(part_of(study, points), check=False)
        rows += found
        new = tried_of(search, found, below)
        candidates += new
        losses = [search.loss(one.objective) for one in new if one.works]
        worst = max([*losses, *([] if worst is None else [worst])], default=None)
        if worst is None:
            raise InputError(_none_works(study, search, candidates))
        doing.note(_words(search, generation, candidates))
        if len(tried) == len(asked):
            method.tell([search.loss(one.objective) if one.works else worst for one in new])
    return candidates


def _words(search: Search, generation: int, candidates: Sequence[Tried]) -> str:
    best = best_of(search, candidates)
    assert best is not None, "otherwise the search has ended"
    return (
        f"generation {generation}, {len(candidates)} of {search.options.evaluations} candidates: best "
        f"{search.objective} {best.objective:.6g}, of candidate {best.name} "
        f"({words_of(best.labels)})"
    )


def _none_works(study: Study, search: Search, candidates: Sequence[Tried]) -> str:
    why = next((one.failed[0] for one in candidates if one.failed), f"none has a value of {search.metric}")
    return (
        f"{study.source}: search: none of the {len(candidates)} candidates of the first generation can be "
        f"judged: {why}"
    )


class Rehearsal:
    """Does no task, and stops at the first ones: what comes after them depends on what they give."""

    def results(self, tasks: Sequence[Task], _started: Started, /) -> Iterator[Done]:
        """Stop if there are tasks."""
        if tasks:
            raise _StopError(tasks)
        return iter(())


class _StopError(Exception):
    """What would be done next is known."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self.tasks = list(tasks)


def rehearsed(study: Study, doing: Doing) -> list[Task]:
    """Return the tasks that a search would do next; none if all is there.

    Parameters
    ----------
    study
        One with a search.
    doing
        With a :class:`Rehearsal`.
    """
    try:
        search_rows(study, doing)
    except _StopError as stop:
        return stop.tasks
    return []
