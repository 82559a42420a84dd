"""The subjects of studies: single loops, whole runs, weeks of a log. All else of a study is common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlsim._files import expanded
from mlsim.scenario import Scenario, loads, overridden

if TYPE_CHECKING:
    from mlsim.experiment.result_directories import Place
    from mlsim.record import Records


_PLUGINS = ("batch.dispatcher", "batch.policy", "batch.allocator", "batch.predictor")
"""Keys of the batch level that may name user-defined code."""


@dataclass(frozen=True)
class Base:
    """The scenario file that a study varies, as read: later changes of it do not matter."""

    text: str
    source: str
    directory: Path

    @classmethod
    def of(cls, file: Path, text: str) -> Base:
        """Return the base of a file with this text."""
        return cls(text, str(file), expanded(file).parent)


@dataclass(frozen=True)
class Simulated:
    """One simulated run or loop of a study."""

    scenario: Scenario
    summary: dict[str, Any]
    records: Records
    write_files: Callable[[Place, Scenario], None]
    """Writes the directory that the command of its kind writes, as the output of a scenario asks for."""

    def write(self, place: Place, whole: bool) -> None:
        """Write its directory: all files of its command, or only tables and metrics."""
        self.write_files(place, self.scenario if whole else _no_pictures(self.scenario))


class Subject(ABC):
    """A kind of study."""

    kind: ClassVar[str]
    """The word of the key ``of``, and the name of the table of all metrics."""
    metrics: ClassVar[Mapping[str, str]]
    """Title to key of the summary: the default of a study."""
    reads: ClassVar[tuple[str, ...]]
    """Keys of a scenario that :meth:`check` examines."""

    @abstractmethod
    def scenario(self, base: Base, overrides: Mapping[str, object]) -> Scenario:
        """Make the scenario of a combination; raise InputError if it cannot be simulated."""

    def given(self, base: Base, overrides: Mapping[str, object]) -> dict[str, Any]:
        """Return the given keys of a combination's scenario, without defaults."""
        return overridden(base.text, base.source, overrides)

    @abstractmethod
    def check(self, scenario: Scenario) -> None:
        """Read the files of a scenario, without simulating; raise InputError if one cannot be used."""

    @abstractmethod
    def empty(self) -> Mapping[str, Any]:
        """Return an empty summary, for its keys and types of values."""

    @abstractmethod
    def simulate(self, scenario: Scenario, chunks: bool, /) -> Simulated:
        """Simulate a scenario; ``chunks``: whether to keep the chunks of a single loop."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _subject, (self.kind,)


class _Runs(Subject):
    kind = "runs"
    metrics: ClassVar = {"makespan (s)": "makespan", "utilization": "utilization.busy"}
    reads = ("platform", "workload", "application", *_PLUGINS)

    def scenario(self, base: Base, overrides: Mapping[str, object]) -> Scenario:
        return loads(base.text, base.source, overrides, base.directory)

    def check(self, scenario: Scenario) -> None:
        from mlsim.cosim import survey

        survey(scenario)

    def empty(self) -> Mapping[str, Any]:
        from mlsim.analysis.run_summary import summary_without_jobs

        return summary_without_jobs()

    def simulate(self, scenario: Scenario, _chunks: bool, /) -> Simulated:
        from mlsim.experiment.run_directory import write_files
        from mlsim.experiment.runner import run

        result = run(scenario)

        def write(place: Place, shown: Scenario) -> None:
            write_files(place, place.partial, replace(result, scenario=shown))

        return Simulated(scenario, result.summary, result.records, write)


class _Loops(Subject):
    kind = "loops"
    metrics: ClassVar = {"T_loop (s)": "t_loop"}
    reads = ("platform", "application")

    def scenario(self, base: Base, overrides: Mapping[str, object]) -> Scenario:
        from mlsim.experiment.loops import loop_from_text

        return loop_from_text(base.text, base.source, overrides, base.directory)

    def given(self, base: Base, overrides: Mapping[str, object]) -> dict[str, Any]:
        from mlsim.experiment.loops import LEFT_ASIDE

        given = super().given(base, overrides)
        return {key: value for key, value in given.items() if key not in LEFT_ASIDE}

    def check(self, scenario: Scenario) -> None:
        from mlsim.cosim import check_loop

        check_loop(scenario)

    def empty(self) -> Mapping[str, Any]:
        return {"technique": "", "model": ""} | dict.fromkeys(_LOOP_METRICS)

    def simulate(self, scenario: Scenario, chunks: bool, /) -> Simulated:
        from mlsim.experiment.loops import run_loop, write_loop

        result = run_loop(scenario, chunks=chunks or scenario.output.trace.shows_chunks)

        def write(place: Place, shown: Scenario) -> None:
            write_loop(place, place.partial, replace(result, scenario=shown))

        return Simulated(scenario, result.facts, result.records, write)


_LOOP_METRICS = (
    *("nodes", "pes", "iterations", "steps", "t_loop", "mean_finish", "cov", "imbalance", "max_over_mean"),
    *("busy", "overhead", "idle", "efficiency"),
)


class _Weeks(_Runs):
    kind = "weeks"
    metrics: ClassVar = {"sum of weekly mean bounded slowdowns": "bounded_slowdown.sum"}

    def check(self, scenario: Scenario) -> None:
        from mlsim.experiment.weekly_runs import weeks_of

        weeks_of(scenario)

    def empty(self) -> Mapping[str, Any]:
        from mlsim.experiment.weekly_runs import empty_weekly

        return empty_weekly()

    def simulate(self, scenario: Scenario, _chunks: bool, /) -> Simulated:
        from mlsim.experiment.weekly_runs import NO_RECORDS, run_weekly

        def write(_place: Place, _shown: Scenario) -> None:
            raise AssertionError("studies of weeks have no key keep")

        return Simulated(scenario, run_weekly(scenario), NO_RECORDS, write)


def _no_pictures(scenario: Scenario) -> Scenario:
    """Return a scenario that writes only tables and metrics."""
    from mlsim.scenario import TraceLevel

    output = scenario.output.model_copy(
        update={"pictures": False, "trace": TraceLevel.NONE, "writers": None, "csv": False}
    )
    return scenario.model_copy(update={"output": output})


SUBJECTS: Mapping[str, Subject] = {subject.kind: subject for subject in (_Loops(), _Runs(), _Weeks())}


@cache
def _subject(kind: str) -> Subject:
    return SUBJECTS[kind]
