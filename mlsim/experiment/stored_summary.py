"""Summaries of stored runs: checked where they are read, as a checksum says nothing about who wrote one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from mlsim._files import read_json
from mlsim.errors import InputError

__all__ = ["read_summary"]

_MOST_BYTES = 64_000_000
_LEAST, _MOST = -1e18, 1 << 64
_ANYTHING = object()
_PASS_TIMES = ("self.pass_time.count", "self.pass_time.total", "self.pass_time.mean")
_OF_LOOPS = {"schema_version": 1, "scenario": "", "seed": 0, "loops": [{"technique": "", "model": ""}]}
_SAID = ("scenario", "seed")
"""What no record says."""


def read_summary(path: Path, needed: Sequence[str] = ()) -> dict[str, Any]:
    """Read the summary of a run of jobs, or of loops alone, which have no ``jobs``.

    Parameters
    ----------
    path
        Where it is.
    needed
        Dotted keys of numbers that must be there.

    Raises
    ------
    InputError
        If it cannot be read, is of another version, or holds what no run writes; the message names the key.
    """
    from mlsim.analysis import SCHEMA_VERSION

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
        if _at(summary, key) is None:
            _refuse(path, key, None, "what the scenario says")
    passes = _PASS_TIMES if _at(summary, _PASS_TIMES[0]) else ()
    for key in (*needed, *passes):
        if not isinstance(_at(summary, key), int | float):
            _refuse(path, key, _at(summary, key), "a number")
    return summary


@cache
def _of_runs() -> dict[str, Any]:
    from mlsim.analysis.summary import summary_without_jobs

    times = {key.rpartition(".")[2]: 0 for key in _PASS_TIMES}
    return {**summary_without_jobs(), "self": {"engine": "", "checksum": "", "pass_time": times}}


def _at(summary: Mapping[str, Any], key: str) -> Any:
    value: Any = summary
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _check(path: Path, key: str, value: Any, known: Any) -> None:
    """Compare a value, and what is in it, with what stands at its place in the summary of a run."""
    unlike = known is _ANYTHING or known is None
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
    elif not _is_plain(value):
        _refuse(path, key, value, f"finite numbers, {_LEAST:.0e} at least, whole ones below 2^64")


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value) and value >= _LEAST
    return not isinstance(value, int) or _LEAST <= value < _MOST


def _refuse(path: Path, key: str, found: object, allowed: str) -> NoReturn:
    raise InputError(
        f"{path}: {key[:200]} holds what no run writes: {json.dumps(found)[:40]}; allowed: {allowed}. Run "
        "the scenario again."
    )
