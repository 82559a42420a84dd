"""The manifest of a directory of results: a checksum of every file, by which damage is found.

``manifest.json`` names every file with its SHA-256, and holds one of itself. A directory inside that has a
manifest of its own stands in it by that. Of ``summary.json`` the checksum is without ``self``, which is
what differs between runs of the same scenario, so that the manifest does not; ``self`` has its own.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mlsim._files import open_file, read_bytes
from mlsim.errors import InputError

__all__ = [
    "MANIFEST",
    "DamagedError",
    "Findings",
    "check_read",
    "expects_manifest",
    "json_text",
    "verify",
    "write_manifest",
    "write_summary",
]

MANIFEST = "manifest.json"
_SUMMARY = "summary.json"
_STORE = "store.json"
_VERSION = 1
_ALGORITHM = "sha256"
_MOST_BYTES = 64_000_000
"""Of a manifest or a summary; those of 100,000 files have 10 MB."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with a directory of results.

    Attributes
    ----------
    whole
        How many files are as they were written.
    damaged, missing, foreign
        Paths in the directory; foreign: not of the run.
    """

    whole: int
    damaged: tuple[str, ...]
    missing: tuple[str, ...]
    foreign: tuple[str, ...]


class DamagedError(Exception):
    """A file is not what was written."""


def json_text(content: Mapping[str, Any]) -> str:
    """Return plain values as JSON, as files hold it; there must be no NaN in it."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary; its section on the tool (``self``) gets the checksum of all of it."""
    if isinstance(summary.get("self"), dict):
        summary["self"].pop("checksum", None)
        summary["self"]["checksum"] = _digest(json_text(summary))
    path.write_text(json_text(summary), encoding="utf-8")


def write_manifest(directory: Path) -> None:
    """Write the manifest of all that is in a directory; anew if there is one.

    Raises
    ------
    DamagedError
        If there is a ``summary.json`` that is none.
    """
    files = {name: _checksum(directory / name) for name in _files(directory) if name != MANIFEST}
    content: dict[str, Any] = {"schema_version": _VERSION, "algorithm": _ALGORITHM, "files": files}
    content["checksum"] = _digest(json_text(content))
    (directory / MANIFEST).unlink(missing_ok=True)
    (directory / MANIFEST).write_text(json_text(content), encoding="utf-8")


def verify(directory: Path) -> Findings:
    """Compare every file of a directory with its manifest.

    Raises
    ------
    InputError
        If there is no manifest, or it is damaged itself.
    """
    recorded = _recorded(directory)
    if recorded is None:
        raise InputError(f"{directory / MANIFEST}: is missing, so its files cannot be verified")
    present = set(_files(directory)) - {MANIFEST}
    damaged = [
        name for name, digest in recorded.items() if name in present and not _is(directory, name, digest)
    ]
    missing = [name for name in recorded if name not in present]
    foreign = sorted(present - recorded.keys())
    whole = len(recorded) - len(damaged) - len(missing)
    for name in recorded:
        inside = PurePosixPath(name)
        if inside.name == MANIFEST and name in present and name not in damaged:
            found = verify(directory / inside.parent)
            whole += found.whole
            damaged += [str(inside.parent / each) for each in found.damaged]
            missing += [str(inside.parent / each) for each in found.missing]
            foreign += [str(inside.parent / each) for each in found.foreign]
    return Findings(whole, tuple(damaged), tuple(missing), tuple(foreign))


def check_read(directory: Path, leaving: Collection[str] = (), scenario: str = "scenario.yaml") -> str:
    """Verify the files of a run that are about to be read, and no others: summary, scenario and tables.

    Parameters
    ----------
    directory
        Of the run.
    leaving
        Tables that are not read.
    scenario
        The file of the scenario; a loop alone has ``loop.yaml``.

    Returns
    -------
    str
        A note for the user if nothing could be verified; empty otherwise.

    Raises
    ------
    InputError
        If one is not what the run wrote, is missing, or is not of the run.
    """
    recorded = _recorded(directory)
    if recorded is None:
        if expects_manifest(directory):
            raise InputError(
                f"{directory / MANIFEST}: is missing, so its files cannot be verified. "
                "Run the scenario again."
            )
        return f"{directory}: there is no {MANIFEST}, so its files were not verified"
    unread = {f"{table}.parquet" for table in leaving}
    present = {path.name for path in directory.glob("*.parquet")}
    tables = {name for name in recorded if "/" not in name and name.endswith(".parquet")}
    for name in sorted((tables | present | {_SUMMARY, scenario}) - unread):
        path = directory / name
        if name not in recorded:
            raise InputError(f"{path}: is not of this run, whose files {MANIFEST} lists. Move it away.")
        if not os.path.lexists(path):
            raise InputError(f"{path}: is missing; the run wrote it. Run the scenario again.")
        if not _is(directory, name, recorded[name]):
            raise InputError(
                f"{path}: is damaged: it is not what the run wrote. Run the scenario again; "
                f"`mlsim check {directory}` lists all files that are."
            )
    return ""


def expects_manifest(directory: Path) -> bool:
    """Whether a summary was written together with a manifest."""
    try:
        return "checksum" in _object(directory / _SUMMARY).get("self", {})
    except (DamagedError, TypeError):
        return False


def _recorded(directory: Path) -> dict[str, str] | None:
    """Read a manifest; None if there is none."""
    path = directory / MANIFEST
    if not os.path.lexists(path):
        return None
    try:
        content = _object(path)
        own = content.pop("checksum", None)
        files = content.get("files")
        if content.get("schema_version") != _VERSION and own == _digest(json_text(content)):
            raise InputError(
                f"{path}: has schema_version {content.get('schema_version')!r:.20}, and this mlsim reads "
                f"{_VERSION}"
            )
        if own != _digest(json_text(content)) or not isinstance(files, dict):
            raise DamagedError
        for name, digest in files.items():
            if (
                not isinstance(digest, str)
                or PurePosixPath(name).is_absolute()
                or ".." in PurePosixPath(name).parts
            ):
                raise DamagedError
    except DamagedError as error:
        raise InputError(
            f"{path}: is damaged, so its files cannot be verified. Run the scenario again."
        ) from error
    return files


def _object(path: Path) -> dict[str, Any]:
    """Read a JSON file as mlsim writes it: character by character."""
    try:
        data = read_bytes(path, most=_MOST_BYTES, stream=False)
        content = json.loads(data.decode("utf-8"))
        if not isinstance(content, dict) or json_text(content).encode() != data:
            raise DamagedError
    except (InputError, OSError, ValueError, RecursionError) as error:
        raise DamagedError from error
    return content


def _files(directory: Path) -> list[str]:
    """List all files, in order; of a directory with a manifest of its own only that."""
    return sorted(_walk(directory, PurePosixPath()))


def _walk(directory: Path, place: PurePosixPath) -> Iterator[str]:
    for entry in os.scandir(directory):
        inside = place / entry.name
        if not entry.is_dir(follow_symlinks=False):
            yield str(inside)
        elif os.path.lexists(os.path.join(entry.path, MANIFEST)):
            yield str(inside / MANIFEST)
        elif os.path.lexists(os.path.join(entry.path, _STORE)):
            continue  # of a study, whose entries have a checksum each
        else:
            yield from _walk(Path(entry.path), inside)


def _is(directory: Path, name: str, digest: str) -> bool:
    try:
        return _checksum(directory / name) == digest
    except (OSError, DamagedError):
        return False


def _checksum(path: Path) -> str:
    if path.name == _SUMMARY:
        return _summary_checksum(path)
    try:
        file = open_file(path)
    except InputError as error:
        raise DamagedError from error  # a pipe or a device, reading of which may not end
    with file:
        return hashlib.file_digest(file, _ALGORITHM).hexdigest()


def _summary_checksum(path: Path) -> str:
    """Return the checksum of a summary without ``self``, once its own has been compared."""
    content = _object(path)
    if isinstance(content.get("self"), dict):
        own = content["self"].pop("checksum", None)
        if own != _digest(json_text(content)):
            raise DamagedError
        del content["self"]
    return _digest(json_text(content))


def _digest(text: str) -> str:
    return hashlib.new(_ALGORITHM, text.encode()).hexdigest()
