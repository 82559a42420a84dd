"""Who writes what is not finished yet: a token in its name, by which others see whether that process lives.

A process is known by its machine, its number and when it began, as numbers are used again. Of a process
on another machine, which shares the file system, nothing is known.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path
from typing import NamedTuple

__all__ = ["Owner"]

_PATTERN = re.compile(
    r"(?P<host>[\w-]{1,32})-(?P<machine>[0-9a-f]{8})(?P<boot>[0-9a-f]{8})(?P<space>[0-9a-f]{8})"
    r"-(?P<pid>\d{1,10})-(?P<start>\d{1,20})",
    re.ASCII,
)
_ENDED = ("Z", "X")
"""States of processes that have ended, and wait to be reaped."""


class Owner(NamedTuple):
    """A process.

    Attributes
    ----------
    host
        Name of its machine, for messages.
    machine, boot, space
        Fingerprints of the machine, of its last start, and of the name space of process numbers (containers
        have their own).
    pid, start
        Its number, and when it began, in ticks since the machine's start; 0 where that is unknown.
    """

    host: str
    machine: str
    boot: str
    space: str
    pid: int
    start: int

    @classmethod
    def this_process(cls) -> Owner:
        """Return the process that asks."""
        host = socket.gethostname()
        return cls(
            re.sub(r"[^\w-]", "_", host, flags=re.ASCII)[:32] or "unknown",
            _fingerprint(host + _text("/etc/machine-id")),
            _fingerprint(_text("/proc/sys/kernel/random/boot_id")),
            _fingerprint(_name_space()),
            os.getpid(),
            _start_of(os.getpid()) or 0,
        )

    @classmethod
    def of_token(cls, text: str) -> Owner | None:
        """Return the process that a token stands for; None if the text is no token."""
        found = _PATTERN.fullmatch(text)
        if found is None:
            return None
        parts = found.groupdict()
        return cls(
            parts["host"],
            parts["machine"],
            parts["boot"],
            parts["space"],
            int(parts["pid"]),
            int(parts["start"]),
        )

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


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""  # another system, which has no such file


def _name_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


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
