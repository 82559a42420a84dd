"""Files that a command writes: all of them whole, or none, and never over another."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlsim.errors import InputError, OutputError

__all__ = ["new_files"]


@contextmanager
def new_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Give names to write files under, which take their own names when the block has ended well.

    Parameters
    ----------
    paths
        The files' own names.

    Yields
    ------
    list of Path
        A name for each, in the same directory and with the same suffix.

    Raises
    ------
    InputError
        If there is a file of that name before the block begins, or no directory to write it in.
    OutputError
        If a file cannot be written, or has appeared meanwhile; none is left then.
    """
    for path in paths:
        _check(path)
    token = f"{os.getpid()}-{secrets.token_hex(4)}"
    partial = [path.with_name(f".{path.stem}.{token}.partial{path.suffix}") for path in paths]
    done: list[Path] = []
    try:
        yield partial
        for path in paths:
            if path.exists():
                raise OutputError(f"{path}: appeared meanwhile; nothing was written")
        for source, path in zip(partial, paths, strict=True):
            source.rename(path)
            done.append(path)
        done.clear()
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"{paths[0]}: cannot be written: {reason}. Nothing was kept.") from error
    finally:
        for left in [*partial, *done]:
            left.unlink(missing_ok=True)


def _check(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise InputError(
            f"{path}: already exists; nothing is overwritten. Give another name, or move it away."
        )
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no directory {path.parent}; make it, or give another name")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: no permission to write in {path.parent}; give another name")
