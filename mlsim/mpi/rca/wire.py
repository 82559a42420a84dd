"""Protocol of RCA messages: one line per message, ``rca2 SCHEME PROOF BODY``.

The body is a flat JSON object; the proof is over its bytes as they stand in the line, so that JSON
needs no canonical form. Scheme ``hmac``: HMAC-SHA256, in hexadecimal digits, with a secret that sender
and receiver know. Scheme ``munge``: a credential of munge whose payload is the body's SHA-256. The body
carries a random nonce and the wall-clock time of sending, so that a receiver that remembers nonces for a
while can refuse a message that is sent again.
"""

import ctypes
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from mlsim.errors import InputError

ADDRESS, SECRET, SECRET_FILE = "MLSIM_RCA_ADDRESS", "MLSIM_RCA_SECRET", "MLSIM_RCA_SECRET_FILE"
AUTH, ANSWER, MUNGE_SOCKET = "MLSIM_RCA_AUTH", "MLSIM_RCA_ANSWER", "MLSIM_RCA_MUNGE_SOCKET"
LONGEST = 4096  # bytes of the longest line that is read

BUSY, SENT_BEFORE = "busy", "sent a second time"
"""First words of refusals on which a sender acts: try again soon; the first sending was accepted."""

_FORM = "rca2"
_SHORTEST_SECRET = 16
_MUNGE_OPTION_SOCKET = 8  # MUNGE_OPT_SOCKET of munge.h
_LATEST = 1e12
# No name begins with a dash: it could be taken for an option of a hook.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,200}")
_NAMES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/,-]{0,500}")
_TEXT = re.compile(r'[^\x00-\x1f\x7f-\U0010ffff"\\]{0,500}')
_NONCE = re.compile(r"[0-9a-f]{32}")


class RefusedError(Exception):
    """The reason for which a line is refused."""


@dataclass(frozen=True)
class Message:
    """Base of all messages, with their keys in the order in which they are sent."""

    job: str  # identifier of the job at its batch system, such as Slurm's

    @property
    def kind(self) -> str:
        """The type of the message as it is sent."""
        return type(self).__name__


@dataclass(frozen=True)
class NodeIdle(Message):
    """Of a real run: all ranks of a node are notified that no chunk is left."""

    node: str  # name at the batch system, or host name; of a part of a node, ``host/part``
    node_number: int  # within the run, in order of lowest ranks
    ranks: int  # that the node has
    loop: str  # name of the loop
    time: float  # wall-clock time of sending, in s since 1970, as in all messages


@dataclass(frozen=True)
class Listening(Message):
    """The application reads requests on this connection from now on."""

    time: float


@dataclass(frozen=True)
class ReleaseRequest(Message):
    """The batch level requests nodes."""

    request: int  # number of the request, which its answer has too
    nodes: int  # number of nodes
    for_job: str  # the waiting job
    deadline: float  # when that job's nodes are expected anyway, in s since 1970; 0: unknown
    time: float


@dataclass(frozen=True)
class ReleaseAccepted(Message):
    """The application will release nodes: each is reported by ``NodeIdle`` when it is idle."""

    request: int
    nodes: str  # names with commas between
    time: float


@dataclass(frozen=True)
class ReleaseRejected(Message):
    """The application keeps its nodes."""

    request: int
    reason: str
    time: float


@dataclass(frozen=True)
class NodeReturned(Message):
    """The batch level gives a node back to its owner; Slurm cannot do so, and its plugin never sends this."""

    node: str
    time: float


@dataclass(frozen=True)
class JobCompleted(Message):
    """The application's last loop has ended on all ranks."""

    time: float


_KINDS = {made.__name__: made for made in Message.__subclasses__()}
_CHECKS = {"nodes": _NAMES, "reason": _TEXT}

Proof = Callable[[bytes], tuple[str, str]]  # returns scheme and proof of a body


def signed_by(secret: bytes) -> Proof:
    """Return the proof by a secret."""
    return lambda body: ("hmac", _mac(body, secret))


def signed_by_munge(body: bytes) -> tuple[str, str]:
    """Prove by munge that the sender is the user of this process; InputError without munge."""
    library = _munge()
    credential, context = ctypes.c_char_p(), ctypes.c_void_p(None)
    if place := os.environ.get(MUNGE_SOCKET):
        context = ctypes.c_void_p(library.munge_ctx_create())
        library.munge_ctx_set(context, _MUNGE_OPTION_SOCKET, place.encode())
    digest = hashlib.sha256(body).hexdigest().encode()
    code = library.munge_encode(ctypes.byref(credential), context, digest, len(digest))
    if context:
        library.munge_ctx_destroy(context)
    if code or credential.value is None:
        raise InputError(f"munge: no credential: {library.munge_strerror(code).decode()}")
    return "munge", credential.value.decode()


@cache
def _munge() -> Any:
    try:
        library = ctypes.CDLL("libmunge.so.2")
    except OSError as error:
        raise InputError(
            f"{AUTH}=munge, but libmunge.so.2 cannot be loaded; allowed: secret, munge"
        ) from error
    library.munge_strerror.restype = ctypes.c_char_p
    library.munge_ctx_create.restype = ctypes.c_void_p
    return library


def find_proof() -> Proof:
    """Return this process' proof of identity from the environment; raise InputError if it is unusable."""
    word = os.environ.get(AUTH, "secret")
    if word == "munge":
        return signed_by_munge
    if word == "secret":
        return signed_by(find_secret())
    raise InputError(f"{AUTH}={word}; allowed: secret, munge")


def pack(message: Message, proof: bytes | Proof) -> bytes:
    """Return a message's line, with its end; ``proof`` is a secret, or another kind of proof."""
    body = _json({"type": message.kind, **asdict(message), "nonce": secrets.token_hex(16)})
    scheme, proven = (signed_by(proof) if isinstance(proof, bytes) else proof)(body)
    return b" ".join((_FORM.encode(), scheme.encode(), proven.encode(), body)) + b"\n"


def unpack(line: bytes, secret: bytes) -> tuple[Message, str]:
    """Check a line, its MAC first; return the message and its nonce (empty: of a batch system)."""
    if len(line) > LONGEST:
        raise RefusedError(f"longer than {LONGEST} bytes")
    parts = line.removesuffix(b"\n").split(b" ", 3)
    if len(parts) != 4 or parts[0] != _FORM.encode():
        raise RefusedError(f"not of the form: {_FORM} SCHEME PROOF BODY")
    _, scheme, mac, raw = parts
    if scheme != b"hmac":
        raise RefusedError("MACs by a secret alone are taken here")
    if not hmac.compare_digest(_mac(raw, secret).encode(), mac):
        raise RefusedError("wrong MAC: forged, or another secret")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RefusedError("the body is not JSON") from error
    if not isinstance(body, dict):
        raise RefusedError("the body is no object")
    return _message(body)


def _message(body: dict[str, Any]) -> tuple[Message, str]:
    kind, nonce = body.pop("type", None), body.pop("nonce", "")
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise RefusedError("type is none that is known")
    if not isinstance(nonce, str) or (not _NONCE.fullmatch(nonce) and (nonce or made is not ReleaseRequest)):
        raise RefusedError("nonce is not 32 hexadecimal digits")
    types = {field.name: field.type for field in fields(made)}
    if set(body) != set(types):
        raise RefusedError(f"keys are not {', '.join(types)}")
    for key, type_ in types.items():
        _check(key, type_, body[key])
    return made(**body), nonce


def _check(key: str, kind: object, value: object) -> None:
    if kind is str:
        if not isinstance(value, str) or not _CHECKS.get(key, _NAME).fullmatch(value):
            raise RefusedError(f"{key} is no name" if key not in _CHECKS else f"{key} is no text of its kind")
    elif kind is int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
            raise RefusedError(f"{key} is no number from 0 to 2^31")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedError(f"{key} is no number")
    elif not 0.0 <= value < _LATEST:  # an integer may be too large for a float
        raise RefusedError(f"{key} is no number of seconds since 1970")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _mac(body: bytes, secret: bytes) -> str:
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


def find_secret(file: Path | None = None) -> bytes:
    """Read the shared secret from a file or the environment; InputError if none is there, or safe."""
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
    """Parse ``HOST:PORT``; InputError for anything else.

    Examples
    --------
    >>> address_of("127.0.0.1:7410"), address_of("[::1]:7410")
    (('127.0.0.1', 7410), ('::1', 7410))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise InputError(f"{text!r} is no address; allowed: HOST:PORT, e.g. 127.0.0.1:7410")
    return host, int(port)
