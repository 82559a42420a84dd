"""Runs that were written: found, read back, named, and their scenarios compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlsim._files import expanded, is_directory, is_file, is_there, named, read_text, resolved
from mlsim.errors import InputError
from mlsim.experiment.manifest import check_read
from mlsim.experiment.stored_summary import read_summary
from mlsim.record import Records

__all__ = [
    "StoredRun",
    "differences_of",
    "find_runs",
    "name_runs",
    "read_run",
    "read_scenario",
    "scenario_differences",
]

_SUMMARY = "summary.json"
_MOST_BYTES = 64_000_000
_UNREAD = ("chunks", "pes")
"""Tables of loops, which are large, and which no metric of jobs needs."""


@dataclass(frozen=True)
class StoredRun:
    """What a run left in its directory."""

    label: str
    """A short name, unlike that of any other run it was read with."""
    directory: Path | None
    """Where it is; None for one that was not written."""
    summary: dict[str, Any]
    """Its ``summary.json``."""
    records: Records
    """Its tables, without the chunks and PEs of loops."""
    scenario: dict[str, Any]
    """Its resolved scenario as plain values."""
    note: str = ""
    """What the user should know about its files; empty if they were verified."""


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Return the directories of runs; a directory of runs (``--rca both`` leaves one) stands for those in it.

    Raises
    ------
    InputError
        If a path holds no run; the message says what it is instead, and what to try.
    """
    found: list[Path] = []
    for path in map(expanded, paths):
        for directory in _runs_at(path):
            if resolved(directory) in [resolved(other) for other in found]:
                raise InputError(f"{directory}: given twice; name each run once")
            found.append(directory)
    return found


def _runs_at(path: Path) -> list[Path]:
    if not is_there(path):
        raise InputError(f"{named(path)}: there is no such directory.{_known_runs(path)}")
    if not is_directory(path):
        raise InputError(f"{path}: a file; give the directory of a run, which `mlsim run --out` names")
    if is_file(path / _SUMMARY):
        return [path]
    inside = sorted(child.parent for child in path.glob(f"*/{_SUMMARY}"))
    if inside:
        return inside
    kept = sorted(child.parent for child in path.glob(f"store/??/*.run/{_SUMMARY}"))
    if kept:
        return kept
    if is_file(path / "study.yaml"):
        raise InputError(
            f"{path}: the results of a study that keeps no whole runs (keep: tables or all, in study.yaml, "
            "does); its numbers are in runs.csv or loops.csv, and table.md"
        )
    raise InputError(f"{path}: no run: there is no {_SUMMARY} in it, nor in a directory of it")


def _known_runs(path: Path) -> str:
    """Name some runs that are beside a path that is not there, or in ``runs``."""
    for parent in (path.parent, Path("runs")):
        near = sorted(child.parent for child in parent.glob(f"*/{_SUMMARY}"))
        if near:
            more = ", …" if len(near) > 5 else ""
            return f" There are {', '.join(map(str, near[:5]))}{more}"
    return " Runs of `mlsim run` are in runs/, or where --out put them"


def name_runs(directories: Sequence[Path]) -> list[str]:
    """Return names of directories: the shortest ends of their paths that are unique.

    Examples
    --------
    >>> name_runs([Path("/a/runs/easy"), Path("/b/runs/easy"), Path("/b/runs/saf")])
    ['a/runs/easy', 'b/runs/easy', 'saf']
    """
    parts = [path.resolve().parts[1:] or ("/",) for path in directories]
    most = max(map(len, parts), default=0)
    lengths = [1] * len(parts)
    for _ in range(most):
        names = ["/".join(part[-length:]) for part, length in zip(parts, lengths, strict=True)]
        lengths = [length + (names.count(name) > 1) for name, length in zip(names, lengths, strict=True)]
    return ["/".join(part[-length:]) for part, length in zip(parts, lengths, strict=True)]


def read_run(directory: str | Path, label: str | None = None) -> StoredRun:
    """Read a run back.

    Parameters
    ----------
    directory
        Where ``mlsim run --out`` wrote it.
    label
        Its name; by default the directory's.

    Raises
    ------
    InputError
        If the directory holds no run of jobs, or something of it cannot be read.
    """
    from mlsim._files.parquet import check_apart
    from mlsim.record.reading import read_tables

    directory = expanded(directory)
    note = check_read(directory, leaving=_UNREAD)
    if note:  # no checksum vouches for the tables
        tables = (path for path in sorted(directory.glob("*.parquet")) if path.stem not in _UNREAD)
        check_apart(directory, *tables)
    summary = _read_summary(directory)
    return StoredRun(
        label or name_runs([directory])[0],
        directory,
        summary,
        read_tables(directory, without=_UNREAD),
        _read_scenario(directory / "scenario.yaml"),
        note,
    )


def _read_summary(directory: Path) -> dict[str, Any]:
    summary = read_summary(directory / _SUMMARY)
    if "jobs" not in summary:
        raise InputError(
            f"{directory}: the results of loops alone (`mlsim loop`), which have no jobs; their metrics are "
            f"in {directory / _SUMMARY}"
        )
    return summary


def _read_scenario(path: Path) -> dict[str, Any]:
    from mlsim.scenario.files.source import parse_text

    document = parse_text(read_text(path, "scenario", _MOST_BYTES), str(path))
    for problem in document.problems:
        place = f"{path}:{problem.line}" if problem.line else str(path)
        raise InputError(f"{place}: {'.'.join(map(str, problem.key))}: {problem.message}")
    if not isinstance(document.value, dict):
        raise InputError(f"{path}: no scenario")
    return document.value


def scenario_differences(runs: Sequence[StoredRun]) -> dict[str, list[Any]]:
    """Return the keys in which scenarios of runs differ, with the value of each run; None: it has none.

    Names and descriptions are left out, and what is only about output.
    """
    return differences_of([run.scenario for run in runs])


def read_scenario(directory: Path, file: str = "scenario.yaml") -> dict[str, Any]:
    """Return the resolved scenario of a run as plain values; that of a loop alone is in ``loop.yaml``."""
    return _read_scenario(directory / file)


def differences_of(scenarios: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys in which scenarios differ; see :func:`scenario_differences`."""
    flat = [dict(_flat(scenario)) for scenario in scenarios]
    keys = dict.fromkeys(key for values in flat for key in values)
    table = {key: [values.get(key) for values in flat] for key in keys}
    return {
        key: values
        for key, values in table.items()
        if key not in ("name", "description")
        and not key.startswith("output.")
        and any(value != values[0] for value in values)
    }


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and plain values; places in lists are numbers from 0, as for ``--set``."""
    if isinstance(value, Mapping):
        children: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    else:
        yield key, value
        return
    for name, child in children:
        yield from _flat(child, f"{key}.{name}" if key else str(name))
