"""What is to be done of a study: the digest of every run, and a task for each that the store lacks."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlsim._shared import sharing
from mlsim.errors import InputError
from mlsim.experiment.study.digests import Digests
from mlsim.experiment.study.model import Study
from mlsim.experiment.study.own_pictures import own_pictures
from mlsim.experiment.study.points import Point, words_of
from mlsim.experiment.study.store import Entries, covers
from mlsim.experiment.study.tasks import Task

__all__ = ["Plan", "check_files", "plan_of"]


@dataclass(frozen=True)
class Plan:
    """The runs of a study."""

    study: Study
    keys: Sequence[str]
    """Digest of each combination's run; combinations that are the same run have the same."""
    outputs: Sequence[str]
    """Digest of what each says about output."""

    def missing(
        self,
        entries: Entries,
        store: Path | None,
        *,
        force: bool,
        retry_failed: bool,
        but: Collection[str] = (),
    ) -> list[Task]:
        """Return the tasks that are to be done, those of one log together, in the order they are done.

        Parameters
        ----------
        entries
            What is there already.
        store
            Where what is done is kept; None: it comes back.
        force, retry_failed
            Whether what is there, or has failed, is done once more.
        but
            Runs that have been done by now.
        """
        tasks: dict[str, Task] = {}
        groups: dict[str, int] = {}
        order: dict[str, int] = {}
        for place, key in enumerate(self.keys):
            if key in tasks or key in but:
                continue
            task = self._task(place, store)
            found = None if force else entries.get(key)
            failed = found is not None and found["status"] == "failed"
            if covers(found, task.keep, task.output, task.shows) and not (failed and retry_failed):
                continue
            tasks[key] = task
            order[key] = groups.setdefault(self._log(self.study.points[place]), len(groups))
        return sorted(tasks.values(), key=lambda task: order[task.key])

    def _task(self, place: int, store: Path | None) -> Task:
        study, point = self.study, self.study.points[place]
        shown = [picture.kind for picture in study.pictures if picture.shows(point.labels)]
        return Task(
            self.keys[place],
            point.labels,
            study.subject,
            study.cases.base,
            point.overrides,
            study.keep if store is not None else "summary",
            self.outputs[place],
            curve="utilization" in shown,
            balance="balance" in shown,
            pictures=own_pictures(study, point) if store is not None else {},
            store=store,
            timeout=study.timeout,
        )

    def _log(self, point: Point) -> str:
        """Return what tells runs apart that read different logs or costs."""
        given = self.study.subject.given(self.study.cases.base, point.overrides)
        application = given.get("application")
        costs = application.get("costs") if isinstance(application, dict) else None
        return json.dumps([given.get("workload"), costs, given.get("seed")], sort_keys=True, default=str)


def plan_of(study: Study, digests: Digests) -> Plan:
    """Make the digests of all runs of a study; every file that they name is read for it."""
    given = [study.subject.given(study.cases.base, point.overrides) for point in study.points]
    return Plan(study, [digests.of(keys) for keys in given], [digests.output(keys) for keys in given])


def check_files(study: Study, tasks: Sequence[Task]) -> None:
    """Check everything that the scenarios of some tasks name, such as files; the same only once.

    Raises
    ------
    InputError
        The first that is wrong, with the combination.
    """
    from mlsim.experiment.rundir import check_needs

    seen: set[str] = set()
    for task in tasks:
        given = study.subject.given(task.base, task.overrides)
        reads = [_value_at(given, key) for key in study.subject.reads]
        reads += [given.get("output")] if task.keep != "summary" else []
        key = json.dumps(reads, sort_keys=True, default=str)
        if key in seen:
            continue
        seen.add(key)
        try:
            scenario = study.subject.scenario(task.base, task.overrides)
            with sharing():
                study.subject.check(scenario)
            if task.keep == "all":
                check_needs(scenario)
        except InputError as error:
            raise InputError(f"{error} (combination {words_of(task.labels)})") from error


def _value_at(values: Any, key: str) -> Any:
    """Return the value of a dotted key; None if it is not there."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values
