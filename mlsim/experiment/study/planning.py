"""What is to be done of a study: the digest of every run, and a task for each that the store lacks."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlsim._shared import sharing
from mlsim.errors import InputError
from mlsim.experiment.study.digests import Digests
from mlsim.experiment.study.model import Study
from mlsim.experiment.study.own_pictures import own_pictures
from mlsim.experiment.study.points import words_of
from mlsim.experiment.study.store import KEEP, Entries, covers
from mlsim.experiment.study.tasks import Task

__all__ = ["Plan", "plan_of"]


@dataclass(frozen=True)
class Plan:
    """The runs of a study."""

    study: Study
    keys: Sequence[str]
    """Digest of each combination's run; combinations that are the same run have the same."""
    outputs: Sequence[str]
    """Digest of what each says about output."""
    logs: Sequence[int]
    """Number of the log and costs that each reads, whatever it selects; those of one are done together."""
    reads: Sequence[int]
    """Number of all that each reads and that is checked before the first run."""

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
        groups: dict[int, int] = {}
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
            order[key] = groups.setdefault(self.logs[place], len(groups))
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

    def check_files(self, tasks: Sequence[Task]) -> None:
        """Check everything that the scenarios of some tasks name, such as files; the same only once.

        Raises
        ------
        InputError
            The first that is wrong, with the combination.
        """
        from mlsim.experiment.rundir import check_needs

        subject = self.study.subject
        numbers = dict(zip(self.keys, self.reads, strict=True))
        seen: set[int] = set()
        for task in tasks:
            number = numbers[task.key]
            if number in seen:
                continue
            seen.add(number)
            try:
                scenario = subject.scenario(task.base, task.overrides)
                with sharing():
                    subject.check(scenario)
                if task.keep == "all":
                    check_needs(scenario)
            except InputError as error:
                raise InputError(f"{error} (combination {words_of(task.labels)})") from error


def plan_of(study: Study, digests: Digests) -> Plan:
    """Make the digests of all runs of a study; every file that they name is read for it."""
    logs, reads = _Numbers(), _Numbers()
    keys, outputs = [], []
    for point in study.points:
        given = study.subject.given(study.cases.base, point.overrides)
        keys.append(digests.of(given))
        outputs.append(digests.output(given))
        logs.add([_whole_log(given), _value_at(given, "application.costs")])
        reads.add([_value_at(given, key) for key in (*study.subject.reads, *_ALSO_READ[study.keep])])
    return Plan(study, keys, [sys.intern(output) for output in outputs], logs.found, reads.found)


_ALSO_READ = {keep: () if keep == "summary" else ("output",) for keep in KEEP}


class _Numbers:
    """Numbers values, the same ones alike."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self._known: dict[str, int] = {}

    def add(self, value: object) -> None:
        """Add one."""
        text = json.dumps(value, sort_keys=True, default=str)
        self.found.append(self._known.setdefault(text, len(self._known)))


def _whole_log(given: dict[str, Any]) -> Any:
    """Return what a scenario says about its log, whatever it selects of it."""
    log = given.get("workload")
    return {key: value for key, value in log.items() if key != "select"} if isinstance(log, dict) else log


def _value_at(values: Any, key: str) -> Any:
    """Return the value of a dotted key; None if it is not there."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values
