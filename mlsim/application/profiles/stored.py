"""Counts that took long to compute, kept on disk in the user's cache.

A file is found by everything the counts depend on, a version number included, and begins with a
fingerprint of that and of what follows; one that does not fit is computed again. Files are written
under a name of their own and then renamed, so that runs side by side do not disturb each other. Where
nothing can be kept, counts are computed each time.
"""

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

from mlsim._arrays import Ints
from mlsim._files import expanded, read_bytes
from mlsim._user_cache import user_cache
from mlsim.errors import InputError

__all__ = ["cache_directory", "recalled"]


VARIABLE = "MLSIM_CACHE"
_DIGEST = 32


def cache_directory() -> Path | None:
    """Return the directory of cached counts: in $MLSIM_CACHE, else in the user's cache; None: there is none.

    Raises
    ------
    InputError
        If the variable names the home directory of nobody.
    """
    place = os.environ.get(VARIABLE)
    found = expanded(place) if place else user_cache()
    return None if found is None else found / "profiles"


def recalled(name: str, version: int, parameters: Mapping[str, float], compute: Callable[[], Ints]) -> Ints:
    """Return counts from the cache, or compute and cache them.

    Parameters
    ----------
    name
        What is counted; the file's name begins with it.
    version
        To be raised when the same parameters give other counts.
    parameters
        Everything else that the counts depend on.
    compute
        Computes them.
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
    """Return the counts of a cached file; None if it is missing, truncated, or holds something else."""
    try:
        data = read_bytes(path, "count")
    except InputError:
        return None  # not there, or not to be read: counted again
    content = memoryview(data)[_DIGEST:]
    if data[:_DIGEST] != _fingerprint(key, content):
        return None
    counts: Ints = np.load(io.BytesIO(content), allow_pickle=False).astype(np.int64)
    return counts


def _write(path: Path, key: bytes, counts: Ints) -> None:
    """Keep counts; a disk that is full or must not be written to is no reason to fail."""
    buffer = io.BytesIO()
    np.save(buffer, counts.astype(np.min_scalar_type(counts.max(initial=0))))
    content = buffer.getbuffer()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not a temporary file of the library's, which other users of a shared cache could not read.
        partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            with partial.open("xb") as file:
                file.write(_fingerprint(key, content))
                file.write(content)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
