"""What goes over the wire: one JSON object a line, signed with a shared secret.

``{"body": {...}, "mac": "<hex>"}``; the MAC is HMAC-SHA256 over the body as canonical JSON (sorted keys, no
blanks). The body carries a random nonce and the wall-clock time of sending, so that an agent that remembers
nonces for a while can refuse a message that is sent again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlsim.errors import InputError

__all__ = [
    "ADDRESS",
    "BUSY",
    "LONGEST",
    "SECRET",
    "SECRET_FILE",
    "SENT_BEFORE",
    "IdleNode",
    "RefusedError",
    "address_of",
    "find_secret",
    "pack",
    "unpack",
]

ADDRESS, SECRET, SECRET_FILE = "MLSIM_RCA_ADDRESS", "MLSIM_RCA_SECRET", "MLSIM_RCA_SECRET_FILE"
LONGEST = 4096
"""Bytes of the longest line that is read."""

BUSY, SENT_BEFORE = "busy", "sent a second time"
"""How reasons of refusals begin that a sender acts on: try again soon, and the first sending was taken."""

_SHORTEST_SECRET = 16
_LATEST = 1e12
# No name begins with a dash: it could be taken for an option of a hook.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,200}")
_NONCE = re.compile(r"[0-9a-f]{32}")


class RefusedError(Exception):
    """A line that is not to be trusted, and why."""


@dataclass(frozen=True)
class IdleNode:
    """``NodeIdle`` of a real run: all ranks of a node are notified that no chunk is left."""

    job: str
    """Identifier of the job at its batch system, such as Slurm's."""
    node: str
    """Host name; of a part of a node, ``host/part``."""
    node_number: int
    """Number of the node within the run, in order of lowest ranks."""
    ranks: int
    """Ranks that the node has."""
    loop: str
    """Name of the loop."""
    time: float
    """Wall-clock time of sending, in s since 1970."""


def pack(message: IdleNode, secret: bytes) -> bytes:
    """Sign a message; one line with its end."""
    body = {"type": "NodeIdle", **asdict(message), "nonce": secrets.token_hex(16)}
    return _json({"body": body, "mac": _mac(body, secret)}) + b"\n"


def unpack(line: bytes, secret: bytes) -> tuple[IdleNode, str]:
    """Check a line; return the message and its nonce.

    Raises
    ------
    RefusedError
        If it is malformed, or its MAC is wrong; the MAC is checked before anything in the body is looked at.
    """
    if len(line) > LONGEST:
        raise RefusedError(f"longer than {LONGEST} bytes")
    try:
        outer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RefusedError("not JSON") from error
    if not isinstance(outer, dict) or set(outer) != {"body", "mac"}:
        raise RefusedError("not an object with body and mac")
    body, mac = outer["body"], outer["mac"]
    if not isinstance(body, dict) or not isinstance(mac, str):
        raise RefusedError("body is no object, or mac no text")
    try:
        expected = _mac(body, secret)
    except (ValueError, RecursionError) as error:
        raise RefusedError("the body cannot be signed") from error
    if not hmac.compare_digest(expected.encode(), mac.encode("utf-8", "replace")):
        raise RefusedError("wrong MAC: forged, or another secret")
    return _message(body)


def _message(body: dict[str, Any]) -> tuple[IdleNode, str]:
    kind, nonce = body.pop("type", None), body.pop("nonce", None)
    if kind != "NodeIdle":
        raise RefusedError("type is not NodeIdle")
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise RefusedError("nonce is not 32 hexadecimal digits")
    if set(body) != set(IdleNode.__dataclass_fields__):
        raise RefusedError(f"keys are not {', '.join(IdleNode.__dataclass_fields__)}")
    for key in ("job", "node", "loop"):
        if not isinstance(body[key], str) or not _NAME.fullmatch(body[key]):
            raise RefusedError(f"{key} is no name")
    for key in ("node_number", "ranks"):
        if isinstance(body[key], bool) or not isinstance(body[key], int) or not 0 <= body[key] < 1 << 31:
            raise RefusedError(f"{key} is no number from 0 to 2^31")
    if isinstance(body["time"], bool) or not isinstance(body["time"], int | float):
        raise RefusedError("time is no number")
    if not 0.0 <= body["time"] < _LATEST:  # an integer may be too large for a float
        raise RefusedError("time is no number of seconds since 1970")
    return IdleNode(**body), nonce


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _mac(body: dict[str, Any], secret: bytes) -> str:
    return hmac.new(secret, _json(body), hashlib.sha256).hexdigest()


def find_secret(file: Path | None = None) -> bytes:
    """Read the shared secret: of a file, or of the file or the text in the environment.

    Raises
    ------
    InputError
        If there is none, it is too short, or others may read its file.
    """
    named = os.environ.get(SECRET_FILE)
    file = file or (Path(named) if named else None)
    if file is not None:
        try:
            if file.stat().st_mode & 0o077:
                raise InputError(f"{file}: others may read the secret; allowed: chmod 600 {file}")
            secret = file.read_bytes().strip()
        except OSError as error:
            raise InputError(f"{file}: the secret cannot be read: {error.strerror}") from error
    else:
        secret = os.environ.get(SECRET, "").encode()
    if len(secret) < _SHORTEST_SECRET:
        where = str(file or f"{SECRET} or {SECRET_FILE}")
        raise InputError(
            f"{where}: no shared secret of {_SHORTEST_SECRET} bytes or more; make one with "
            "python -c 'import secrets; print(secrets.token_hex(32))'"
        )
    return secret


def address_of(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``.

    Examples
    --------
    >>> address_of("127.0.0.1:7410"), address_of("[::1]:7410")
    (('127.0.0.1', 7410), ('::1', 7410))

    Raises
    ------
    InputError
        If it is none.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise InputError(f"{text!r} is no address; allowed: HOST:PORT, e.g. 127.0.0.1:7410")
    return host, int(port)


def now() -> float:
    """Return the wall-clock time, in s since 1970."""
    return time.time()
