"""Execute the runs that the store of a study lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mlsim._shared import forget
from mlsim.errors import OutputError
from mlsim.experiment.study.executor_worker import Executor
from mlsim.experiment.study.local_executors import Serial
from mlsim.experiment.study.study_model import Done, Study, Task
from mlsim.experiment.study.study_plan import Digests, Plan, StudyRow, plan_of, row_of, rows_of
from mlsim.experiment.study.study_store import Entries, Store


class Watcher(Protocol):
    """Is told how far a study is."""

    def begin(self, total: int, there: int, store: Store | None) -> None:
        """Note how many runs are to be there in the end, and are there already.

        A search says it again for each generation, as more is known.
        """

    def started(self, task: Task) -> None:
        """Note that a run is begun."""

    def done(self, task: Task, done: Done) -> None:
        """Note that a run has ended."""

    def note(self, words: str) -> None:
        """Note what has been found so far."""

    def end(self) -> None:
        """Note that no run is going on any more."""


class Doing:
    """The runs of one study, which may come in parts: those of a search are known a generation at a time.

    Parameters
    ----------
    study
        Whose runs they are.
    entries
        What is kept of them.
    store
        The same, where it is in a directory.
    executor
        Who does them.
    progress
        Called with each row, when its run is done, and how many rows there will be.
    watch
        Is told how far the study is.
    force, retry_failed
        Whether runs that are there, or that have failed, are done once more.
    expected
        How many runs there are at most; None: those of the one part.
    """

    def __init__(
        self,
        study: Study,
        entries: Entries,
        store: Store | None,
        executor: Executor,
        *,
        progress: Callable[[StudyRow, int], None] | None = None,
        watch: Watcher | None = None,
        force: bool = False,
        retry_failed: bool = False,
        expected: int | None = None,
    ) -> None:
        self._entries, self._store, self._executor = entries, store, executor
        self._progress, self._watch = progress, watch
        self._force, self._retry_failed = force, retry_failed
        self._expected = expected
        self._digests = Digests(study.subject.kind, study.cases.base.directory)
        self._known: set[str] = set()
        """Keys of all runs so far."""
        self._there = 0
        """How many of them did not need to be done."""

    @property
    def keys(self) -> Sequence[str]:
        """Keys of all runs so far."""
        return list(self._known)

    def plan(self, study: Study) -> tuple[Plan, list[Task]]:
        """Return the runs of a study, or of a part of one, and what is to be done of them."""
        plan = plan_of(study, self._digests)
        directory = None if self._store is None else self._store.directory
        tasks = plan.missing(
            self._entries, directory, force=self._force, retry_failed=self._retry_failed, but=self._known
        )
        return plan, tasks

    def rows(self, study: Study, *, check: bool = True) -> list[StudyRow]:
        """Do what is missing of a study, or of a part of one, and return its rows.

        Parameters
        ----------
        study
            With the combinations that are wanted.
        check
            Whether a combination that cannot be simulated is an error before anything is done; otherwise its
            run fails.
        """
        plan, tasks = self.plan(study)
        if check:
            plan.check_files(tasks)
        new = set(plan.keys) - self._known
        self._known |= new
        self._there += len(new) - len(tasks)
        shown = self._do(plan, tasks)
        return rows_of(plan, self._entries, shown)

    def note(self, words: str) -> None:
        """Tell who watches what has been found so far."""
        if self._watch is not None:
            self._watch.note(words)

    def all_known(self) -> None:
        """Tell who watches that there are no more runs than those so far."""
        if self._watch is not None:
            self._watch.begin(len(self._known), self._there, self._store)

    def end(self) -> None:
        """Tell who watches that no run is going on any more."""
        if self._watch is not None:
            self._watch.end()

    def _do(self, plan: Plan, tasks: Sequence[Task]) -> dict[int, StudyRow]:
        """Do tasks, whose results are in the store then; return the rows that were shown, by place."""
        if not isinstance(self._executor, Serial):
            forget()  # what this process has read for the check; others do the runs
        by_key = {task.key: task for task in tasks}
        places: dict[str, list[int]] = {}
        for place, key in enumerate(plan.keys):
            if key in by_key:
                places.setdefault(key, []).append(place)
        watch = self._watch
        if watch is not None:
            watch.begin(max(self._expected or 0, len(self._known)), self._there, self._store)
        results = self._executor.results(tasks, _silent if watch is None else watch.started)
        total = self._expected or len(plan.keys)
        shown: dict[int, StudyRow] = {}
        try:
            for done in results:
                if done.stops:
                    raise OutputError(done.stops)
                if done.content is not None:
                    self._entries.put(done.key, done.content)
                if watch is not None:
                    watch.done(by_key[done.key], done)
                for place in places[done.key] if self._progress is not None else ():
                    assert self._progress is not None, "there are no places otherwise"
                    point = plan.study.points[place]
                    shown[place] = row_of(plan.study, point, done.key, self._entries)
                    self._progress(shown[place], total)
        finally:
            close: Any = getattr(results, "close", None)
            if close is not None:
                close()
        return shown


def _silent(_: Task) -> None:
    """Tell nobody."""
