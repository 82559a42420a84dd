"""Iteration costs from files, and the cache of counts on disk."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mlsim._files import expanded, named, read_bytes
from mlsim._files.input_files import read_lines, read_npy
from mlsim._runtime.arrays import Floats, Ints
from mlsim._runtime.places import user_cache
from mlsim.errors import InputError

_MOST_SECONDS = 2.0**53
"""As for times of logs: larger sums of costs would be rounded by whole seconds."""

_COST_NAMES = ("cost", "costs", "iteration_cost", "seconds", "time", "duration", "s")


def read_costs(path: str | Path) -> Floats:
    """Read iteration costs in s from a ``.npy`` file (one column) or a ``.csv`` file.

    A ``.csv`` file holds numbers separated by commas or line ends; a first line of words is skipped. If that
    line names the columns of a table, the column ``cost`` is read (or ``seconds``, ``time`` ...).

    Raises
    ------
    InputError
        If the file cannot be read, is empty or has other content, or a cost is negative or not finite; the
        message names the file and the iteration, in a ``.csv`` file also the line.
    """
    path = expanded(path)
    readers = {".npy": _read_npy, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        found = f"costs in a file of type '{path.suffix[:20]}'"
        raise InputError(f"{named(path)}: {found}; allowed: {', '.join(readers)}")
    costs, lines = readers[path.suffix.lower()](path)
    if not len(costs):
        raise InputError(f"{path}: holds no costs; allowed: one cost per iteration, 1 or more")
    wrong = np.flatnonzero(~((costs >= 0.0) & (costs < _MOST_SECONDS)))
    if len(wrong):
        k = int(wrong[0])
        place = f"{path}:{lines[k]}" if lines else str(path)
        raise InputError(
            f"{place}: the cost of iteration {k} is {costs[k]} ({len(wrong)} of {len(costs)} costs are "
            "negative, not finite or too large); allowed: 0 s or more, below 2^53 s"
        )
    return costs


def _read_npy(path: Path) -> tuple[Floats, list[int]]:
    values = read_npy(path, "column of costs")
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        found = f"an array of shape {values.shape} and type {str(values.dtype)[:40]}"
        raise InputError(f"{path}: holds {found}; allowed: one column of real numbers")
    return values.astype(np.float64), []


def _read_csv(path: Path) -> tuple[Floats, list[int]]:
    """Read the numbers, and the line of each."""
    names: list[str] = []
    rows: list[list[float]] = []
    places: list[int] = []
    lines = read_lines(path, "column of costs")
    for number, line in enumerate(lines, start=1):
        fields = [field.strip() for field in line.split(",")]
        values = [_number(field) for field in fields if field]
        if None not in values:
            rows.append([value for value in values if value is not None])
            places.append(number)
        elif number > 1 or any(value is not None for value in values):
            word = next(field for field in fields if field and _number(field) is None)
            raise InputError(
                f"{path}:{number}: {word[:40]!r} is not a number; allowed: costs in s, 0 or more"
            )
        else:
            names = fields
    rows = _costs_alone(path, names, rows)
    costs = [value for row in rows for value in row]
    places = [number for row, number in zip(rows, places, strict=True) for _ in row]
    return np.array(costs, dtype=np.float64), places


def _costs_alone(path: Path, names: list[str], rows: list[list[float]]) -> list[list[float]]:
    """Return the rows without columns other than that of costs."""
    widths = {len(row) for row in rows if row}
    if len(names) > 1 and widths == {len(names)}:
        words = [name.strip("\"' ").lower().replace(" ", "_") for name in names]
        found = [k for k, word in enumerate(words) if word in _COST_NAMES]
        if len(found) != 1:
            raise InputError(
                f"{path}:1: columns {', '.join(names)[:200]}: which one holds costs? Allowed: one column; or "
                f"several with names, one of which is {', '.join(_COST_NAMES)}"
            )
        return [row[found[0] : found[0] + 1] for row in rows]
    counted = [row[0] for row in rows if row]
    if (
        widths == {2}
        and len(counted) > 1
        and counted in ([*range(len(counted))], [*range(1, len(counted) + 1)])
    ):
        raise InputError(
            f"{path}: the first of its two columns counts iterations; to skip it, add a first "
            "line of names: iteration,cost"
        )
    return rows


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


VARIABLE = "MLSIM_CACHE"
_DIGEST = 32


def cache_directory() -> Path | None:
    """Return the directory of cached counts: in $MLSIM_CACHE, else in the user's cache, if any."""
    place = os.environ.get(VARIABLE)
    found = expanded(place) if place else user_cache()
    return None if found is None else found / "profiles"


def recalled(name: str, version: int, parameters: Mapping[str, float], compute: Callable[[], Ints]) -> Ints:
    """Return counts from the cache, or compute and cache them.

    ``name`` and ``version`` (raise it when the counts change) and ``parameters``, all that the counts depend
    on, are the key.
    """
    key = json.dumps({"counts": name, "version": version, **parameters}, sort_keys=True).encode()
    directory = cache_directory()
    if directory is None:
        return compute()
    path = directory / f"{name}-{hashlib.blake2b(key, digest_size=16).hexdigest()}.counts"
    counts = _read(path, key)
    if counts is None:
        counts = compute()
        _write(path, key, counts)
    return counts


def _fingerprint(key: bytes, content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST, key=hashlib.blake2b(key).digest()).digest()


def _read(path: Path, key: bytes) -> Ints | None:
    """Return the counts of a cached file; None if it is missing, truncated, or has another key."""
    try:
        data = read_bytes(path, "count")
    except InputError:
        return None  # missing or unreadable: counted again
    content = memoryview(data)[_DIGEST:]
    if data[:_DIGEST] != _fingerprint(key, content):
        return None
    counts: Ints = np.load(io.BytesIO(content), allow_pickle=False).astype(np.int64)
    return counts


def _write(path: Path, key: bytes, counts: Ints) -> None:
    """Cache counts; a disk that is full or read-only is not an error."""
    buffer = io.BytesIO()
    np.save(buffer, counts.astype(np.min_scalar_type(counts.max(initial=0))))
    content = buffer.getbuffer()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not by tempfile: other users of a shared cache could not read its files.
        partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            with partial.open("xb") as file:
                file.write(_fingerprint(key, content))
                file.write(content)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
