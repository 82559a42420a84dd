"""Stored runs: found, read back, measured in full."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mlsim._files import expanded, is_directory, is_file, is_there, named, read_json, read_text, resolved
from mlsim.analysis import SCHEMA_VERSION, run_summary, summarize
from mlsim.errors import InputError
from mlsim.experiment.manifest import check_read
from mlsim.record import Calendar, Records
from mlsim.record.derived_times import TAU
from mlsim.scenario.scenario_text import parse_text

if TYPE_CHECKING:
    import polars as pl


_MOST_BYTES = 64_000_000
_LEAST, _MOST = -1e18, 1 << 64
_ANYTHING = object()
_PASS_TIMES = ("self.pass_time.count", "self.pass_time.total", "self.pass_time.mean")
_OF_LOOPS = {"schema_version": 1, "scenario": "", "seed": 0, "loops": [{"technique": "", "model": ""}]}
_SAID = ("scenario", "seed")  # Keys that records do not have


def read_summary(path: Path, needed: Sequence[str] = ()) -> dict[str, Any]:
    """Read the summary of a run of jobs, or of single loops; dotted keys ``needed`` must be numbers."""
    summary = read_json(path, "summary", _MOST_BYTES)
    if not isinstance(summary, dict) or "schema_version" not in summary:
        raise InputError(f"{path}: no summary of mlsim; there is no schema_version in it")
    if summary["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"{path}: has schema_version {str(summary['schema_version'])[:40]}, and this mlsim reads "
            f"{SCHEMA_VERSION}"
        )
    _check(path, "", summary, _of_runs() if "jobs" in summary else _OF_LOOPS)
    for key in _SAID:
        if value_at(summary, key) is None:
            _refuse(path, key, None, "what the scenario says")
    passes = _PASS_TIMES if value_at(summary, _PASS_TIMES[0]) else ()
    for key in (*needed, *passes):
        if not isinstance(value_at(summary, key), int | float):
            _refuse(path, key, value_at(summary, key), "a number")
    return summary


@cache
def _of_runs() -> dict[str, Any]:
    times = {key.rpartition(".")[2]: 0 for key in _PASS_TIMES}
    return {**run_summary.summary_without_jobs(), "self": {"engine": "", "checksum": "", "pass_time": times}}


def value_at(values: Any, key: str) -> Any:
    """Return the value at a dotted key of nested mappings; None where there is none."""
    for name in key.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _check(path: Path, key: str, value: Any, known: Any) -> None:
    """Compare a value, and what is in it, with what stands at its place in the summary of a run."""
    unlike = known is _ANYTHING or known is None
    plain = not isinstance(value, int) or _LEAST <= value < _MOST
    if isinstance(value, float):
        plain = math.isfinite(value) and value >= _LEAST
    if isinstance(value, dict) and (unlike or isinstance(known, Mapping)):
        for name, child in value.items():
            below = known.get(name, _ANYTHING) if isinstance(known, Mapping) else _ANYTHING
            _check(path, f"{key}.{name}" if key else str(name), child, below)
    elif isinstance(value, list) and (unlike or isinstance(known, list)):
        for place, child in enumerate(value):
            _check(path, f"{key}.{place}", child, known[0] if isinstance(known, list) else _ANYTHING)
    elif isinstance(known, Mapping | list):
        _refuse(path, key, value, "a mapping or list of its parts")
    elif value is not None and known is not _ANYTHING and isinstance(value, str) != isinstance(known, str):
        _refuse(path, key, value, f"{'a text' if isinstance(known, str) else 'a number'}, or null")
    elif isinstance(value, bool | dict | list) and known is not _ANYTHING:
        _refuse(path, key, value, "a number, or null")
    elif not plain:
        _refuse(path, key, value, f"finite numbers, {_LEAST:.0e} at least, whole ones below 2^64")


def _refuse(path: Path, key: str, found: object, allowed: str) -> NoReturn:
    raise InputError(
        f"{path}: {key[:200]} holds what no run writes: {json.dumps(found)[:40]}; allowed: {allowed}. Run "
        "the scenario again."
    )


_SUMMARY = "summary.json"
_UNREAD = ("chunks", "pes")  # Tables of loops, which are large, and which no metric of jobs needs


@dataclass(frozen=True)
class StoredRun:
    """Stored results of a run."""

    label: str  # A short name, unique among the runs that were read together
    directory: Path | None
    summary: dict[str, Any]
    records: Records  # Its tables, without the chunks and PEs of loops
    scenario: dict[str, Any]  # Its resolved scenario as plain values
    note: str = ""  # A note for the user on its files; empty if they were verified


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Return the directories of runs; a directory of runs (as of ``--rca both``) means all runs in it."""
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


def read_run(directory: str | Path, label: str | None = None, *, loops: bool = False) -> StoredRun:
    """Read a run of jobs; ``loops``: also a single loop (``mlsim loop``), as a run of one job."""
    from mlsim._files.parquet import check_apart
    from mlsim.record.parquet_tables import read_tables

    directory = expanded(directory)
    single = loops and is_file(directory / "loop.yaml")
    scenario_file = "loop.yaml" if single else "scenario.yaml"
    note = check_read(directory, leaving=_UNREAD, scenario=scenario_file)
    if note:  # no checksum vouches for the tables
        tables = (path for path in sorted(directory.glob("*.parquet")) if path.stem not in _UNREAD)
        check_apart(directory, *tables)
    summary = read_summary(directory / _SUMMARY)
    single = single and "jobs" not in summary
    if "jobs" not in summary and not single:
        raise InputError(
            f"{directory}: the results of loops alone (`mlsim loop`), which have no jobs; their metrics are "
            f"in {directory / _SUMMARY}"
        )
    records, scenario = read_tables(directory, without=_UNREAD), read_scenario(directory / scenario_file)
    records = replace(records, calendar=_calendar(directory / _SUMMARY, summary))
    if single:
        facts: dict[str, Any] = next(iter(summary.get("loops") or ()), {})
        of = {"scenario": summary["scenario"], "seed": summary["seed"]}
        summary = summarize(records, **of, technique=facts.get("technique"))
    return StoredRun(label or name_runs([directory])[0], directory, summary, records, scenario, note)


def _calendar(path: Path, summary: Mapping[str, Any]) -> Calendar | None:
    workload = summary.get("workload")
    try:
        return Calendar.from_summary(workload) if isinstance(workload, Mapping) else None
    except (ValueError, OverflowError):
        _refuse(path, "workload.start", summary["workload"]["start"], "a date")


def read_scenario(path: Path) -> dict[str, Any]:
    """Return the resolved scenario of a run, or of a loop alone (``loop.yaml``), as plain values."""
    document = parse_text(read_text(path, "scenario", _MOST_BYTES), str(path))
    for problem in document.problems:
        place = f"{path}:{problem.line}" if problem.line else str(path)
        raise InputError(f"{place}: {'.'.join(map(str, problem.key))}: {problem.message}")
    if not isinstance(document.value, dict):
        raise InputError(f"{path}: no scenario")
    return document.value


def differences_of(scenarios: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys in which scenarios differ, with each value or None; without names, texts and output."""
    flat = [dict(dotted_items(scenario)) for scenario in scenarios]
    keys = dict.fromkeys(key for values in flat for key in values)
    table = {key: [values.get(key) for values in flat] for key in keys}
    return {
        key: values
        for key, values in table.items()
        if key not in ("name", "description")
        and not key.startswith("output.")
        and any(value != values[0] for value in values)
    }


def dotted_items(value: Any, key: str = "", *, lists: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and plain values; positions in lists are numbers from 0, as for ``--set``."""
    if isinstance(value, Mapping):
        children: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        children = enumerate(value) if lists else ()
    else:
        yield key, value
        return
    for name, child in children:
        yield from dotted_items(child, f"{key}.{name}" if key else str(name), lists=lists)


@dataclass(frozen=True)
class RunMetrics:
    """The metrics of a run's records; ``summary`` is computed anew, in the shape of ``summary.json``."""

    run: StoredRun
    summary: dict[str, Any]
    by_class: pl.DataFrame
    pass_times: pl.DataFrame
    by: str | None
    groups: pl.DataFrame | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; keys are those of the summary and of the breakdowns."""
        groups = {} if self.groups is None else {f"by_{self.by}": _nested_rows(self.groups)}
        plain: dict[str, Any] = run_summary.json_safe(
            {
                "run": self.run.label,
                "directory": str(self.run.directory),
                **self.summary,
                "by_class": _nested_rows(self.by_class),
                **groups,
                "pass_time_by_queue_length": self.pass_times.to_dicts(),
            }
        )
        return plain

    def rows(self) -> pl.DataFrame:
        """Return one row for the run, or one a group, with the run's name first and dotted columns."""
        import polars as pl

        if self.groups is not None:
            return self.groups.select(pl.lit(self.run.label).alias("run"), pl.all())
        # Lists do not fit in a row.
        measures = dict(dotted_items(self.summary, lists=False))
        return pl.DataFrame([{"run": self.run.label, **measures}], infer_schema_length=None)


def summary_of(run: StoredRun, tau: float = TAU) -> dict[str, Any]:
    """Compute the summary of a run anew from its records; ``self`` and ``workload`` are as stored."""
    stored = run.summary
    computed = summarize(
        run.records,
        scenario=stored.get("scenario", ""),
        seed=stored.get("seed", 0),
        technique=stored.get("technique"),
        predictor=stored.get("estimates", {}).get("predictor"),
        tau=tau,
        measured=stored.get("self", {}),
    )
    return {**stored, **computed}


def measure_run(run: StoredRun, by: str | None = None, tau: float = TAU) -> RunMetrics:
    """Compute all metrics of a run, with jobs also grouped ``by`` one of ``GROUPINGS``; τ is in s."""
    from mlsim.analysis.breakdowns import breakdown, pass_time_by_queue_length

    jobs, names = run.records.jobs, run.records.names.of
    by_class = breakdown(jobs, "class", tau)
    groups = by_class if by == "class" else None if by is None else breakdown(jobs, by, tau, names)
    passes = pass_time_by_queue_length(run.records.passes)
    return RunMetrics(run, summary_of(run, tau), by_class, passes, by, groups)


def _nested_rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows in which ``wait_time.mean`` is ``mean`` in ``wait_time``."""
    rows = []
    for flat in table.iter_rows(named=True):
        row: dict[str, Any] = {}
        for key, value in flat.items():
            name, _, part = key.partition(".")
            if part:
                row.setdefault(name, {})[part] = value
            else:
                row[name] = value
        rows.append(row)
    return rows


def check_labels(labels: Sequence[str], runs: int) -> list[str]:
    """Return names given to runs, each different and not empty."""
    if len(labels) != runs or len(set(labels)) < len(labels) or not all(labels):
        raise InputError(f"labels: {runs} runs need as many different names; found {list(labels)}")
    return list(labels)
