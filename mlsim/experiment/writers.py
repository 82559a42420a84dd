"""Writers of the user's own: functions that get a run and a directory of their own in that of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from mlsim.errors import user_code_error
from mlsim.experiment.directories import Place
from mlsim.experiment.result import Result
from mlsim.plugins import Family, check_plugin, make_callable
from mlsim.scenario import Scenario, located_writers, user_function

__all__ = ["WRITERS", "check_writers", "write_by_user"]

WRITERS: Final = Family(
    "writer", "output.writers", "mlsim.writers", ("write",), (), "docs/reference/records.md", arguments=2
)


def check_writers(scenario: Scenario, execute: bool = True) -> None:
    """Check the writers that a scenario names.

    Parameters
    ----------
    scenario
        Which.
    execute
        Whether each is made; otherwise no code of theirs is executed.

    Raises
    ------
    InputError
        If one cannot be found, made or used.
    """
    for name in located_writers(scenario):
        check_plugin(WRITERS, name, execute, entry_points)


def write_by_user(place: Place, directory: Path, result: Result) -> None:
    """Have every writer of the scenario write; if one fails, all the rest is kept.

    Parameters
    ----------
    place
        Notes what could not be written.
    directory
        The run's; each writer gets one in it, which has its name.
    result
        The run.
    """
    for own, title, write in _writers(result.scenario):
        with place.extra(directory / own) as path:
            path.mkdir()
            try:
                write(result, path)
            except BaseException as error:  # whatever the user's code raises
                raise user_code_error(title, error) from error


def _writers(scenario: Scenario) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield each writer's directory, what messages call it, and what is to be called."""
    taken: dict[str, int] = {"trace": 1}
    for name in located_writers(scenario):
        file = user_function(name)
        own = file[1] if file else str(name)
        taken[own] = taken.get(own, 0) + 1
        number = f"-{taken[own]}" if taken[own] > 1 else ""
        yield f"{own}{number}", f"{WRITERS.name} {name}", make_callable(WRITERS, name, entry_points)
