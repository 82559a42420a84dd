"""The manifest of a directory of results, and the owner of unfinished ones."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from mlsim._files import open_file, read_bytes
from mlsim.errors import InputError

MANIFEST = "manifest.json"
_SUMMARY = "summary.json"
_STORE = "store.json"
_VERSION = 1
_ALGORITHM = "sha256"
_MOST_BYTES = 64_000_000  # Of a manifest or a summary; those of 100,000 files have 10 MB


@dataclass(frozen=True, slots=True)
class Findings:
    """The files of a directory of results, checked against their checksums; foreign: not of the run."""

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
    """Write the checksums of all files of a directory; raise DamagedError if its ``summary.json`` is none."""
    files = {name: _checksum(directory / name) for name in _files(directory) if name != MANIFEST}
    content: dict[str, Any] = {"schema_version": _VERSION, "algorithm": _ALGORITHM, "files": files}
    content["checksum"] = _digest(json_text(content))
    (directory / MANIFEST).unlink(missing_ok=True)
    (directory / MANIFEST).write_text(json_text(content), encoding="utf-8")


def verify(directory: Path) -> Findings:
    """Compare every file of a directory with its manifest."""
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
    """Verify the files of a run to be read, without tables of ``leaving``; else return a note, or ""."""
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
            place = PurePosixPath(name)
            if not isinstance(digest, str) or place.is_absolute() or ".." in place.parts:
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
    """Return the checksum of a file; of a summary, that without ``self``, once its own has been compared."""
    if path.name == _SUMMARY:
        content = _object(path)
        if isinstance(content.get("self"), dict):
            own = content["self"].pop("checksum", None)
            if own != _digest(json_text(content)):
                raise DamagedError
            del content["self"]
        return _digest(json_text(content))
    try:
        file = open_file(path)
    except InputError as error:
        raise DamagedError from error  # a pipe or a device, reading of which may not end
    with file:
        return hashlib.file_digest(file, _ALGORITHM).hexdigest()


def _digest(text: str) -> str:
    return hashlib.new(_ALGORITHM, text.encode()).hexdigest()


_PATTERN = re.compile(
    r"([\w-]{1,32})-([0-9a-f]{8})([0-9a-f]{8})([0-9a-f]{8})-(\d{1,10})-(\d{1,20})", re.ASCII
)
_ENDED = ("Z", "X")  # States of processes that have ended, and wait to be reaped


class Owner(NamedTuple):
    """A process that may still run."""

    host: str  # for messages
    machine: str  # fingerprint, as those below
    boot: str
    space: str  # PID namespace: containers have their own
    pid: int
    start: int  # in ticks since the machine's boot; 0 if unknown

    @classmethod
    def this_process(cls) -> Owner:
        """Return the process that asks."""
        host = socket.gethostname()
        return cls(
            re.sub(r"[^\w-]", "_", host, flags=re.ASCII)[:32] or "unknown",
            _fingerprint(host + _text("/etc/machine-id")),
            _fingerprint(_text("/proc/sys/kernel/random/boot_id")),
            _fingerprint(_text("/proc/self/ns/pid", link=True)),
            os.getpid(),
            _start_of(os.getpid()) or 0,
        )

    @classmethod
    def of_token(cls, text: str) -> Owner | None:
        """Return the process of a token; None if the text is no token."""
        found = _PATTERN.fullmatch(text)
        if found is None:
            return None
        host, machine, boot, space, pid, start = found.groups()
        return cls(host, machine, boot, space, int(pid), int(start))

    @property
    def token(self) -> str:
        """A text that is part of file names."""
        return f"{self.host}-{self.machine}{self.boot}{self.space}-{self.pid}-{self.start}"

    def lives(self) -> bool | None:
        """Whether the process is still there; None if that is unknown here."""
        here = Owner.this_process()
        if self.machine != here.machine:
            return None
        if self.boot != here.boot:
            return False
        if self.space != here.space:
            return None
        if not self.start:
            return _answers(self.pid)
        return _start_of(self.pid) == self.start


def _fingerprint(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()


def _text(path: str, *, link: bool = False) -> str:
    try:
        return os.readlink(path) if link else Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""  # another system, which has no such file


def _start_of(pid: int) -> int | None:
    """Return when a process began, in ticks; None if it has ended, or it is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0].decode() in _ENDED else int(fields[19])


def _answers(pid: int) -> bool:
    """Whether there is a process of that number, where the time of its start is unknown."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is there, and another user's
    return True
