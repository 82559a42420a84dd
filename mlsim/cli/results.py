"""``mlsim check`` for directories of results: whether their files are as they were written."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["check_results", "directories_of", "hold_results"]

_MARKS = ("manifest.json", "summary.json")


def hold_results(path: Path) -> bool:
    """Whether a path is a directory of results, or a directory of such directories."""
    return os.path.isdir(path) and bool(directories_of(path))


def directories_of(path: Path) -> list[Path]:
    """Return the directories of results at a path: itself, or those in it."""
    for pattern in ("{}", "*/{}"):
        found = {file.parent for mark in _MARKS for file in path.glob(pattern.format(mark))}
        if found:
            return sorted(found)
    return []


def check_results(path: Path, *, options: bool) -> None:
    """Compare the files of results with their manifests, and print what is wrong.

    Parameters
    ----------
    path
        A directory of results, or one of such directories.
    options
        Whether options were given that are only for scenario files.

    Raises
    ------
    InputError
        If a file is damaged or missing.
    """
    from mlsim.errors import InputError

    if options:
        raise InputError(f"{path}: is a directory of results; --set and --resolved are for scenario files")
    wrong = sum(_wrong_in(directory) for directory in directories_of(path))
    if wrong:
        files = "1 file is" if wrong == 1 else f"{wrong} files are"
        raise InputError(f"{path}: {files} damaged or missing. Run the scenario again.")


def _wrong_in(directory: Path) -> int:
    """Check one directory; count what is damaged or missing."""
    from mlsim.experiment.manifest import MANIFEST, expects_manifest, verify

    if not os.path.lexists(directory / MANIFEST) and not expects_manifest(directory):
        print(f"{directory}: there is no {MANIFEST}; it was written by mlsim 0.1.0, and cannot be verified")
        return 0
    found = verify(directory)
    words = {"damaged": found.damaged, "missing": found.missing, "not of the run": found.foreign}
    for word, names in words.items():
        for name in names:
            print(f"{directory / name}: {word}")
    wrong = len(found.damaged) + len(found.missing)
    state = "damaged" if wrong else "ok"
    print(f"{directory}: {state}; {found.whole} files are as they were written")
    return wrong
