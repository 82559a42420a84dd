"""The plugin's own reading of lines, compiled alone, beside Python's: needs a C compiler, but no Slurm."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim.mpi.rca import wire

CODE = Path(wire.__file__).parent.parent.parent / "slurm" / "plugin"
HEX = 65


class Message(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("job_id", ctypes.c_uint32),
        ("node", ctypes.c_char * 256),
        ("nodes", ctypes.c_char * 512),
        ("reason", ctypes.c_char * 512),
        ("request", ctypes.c_uint32),
        ("time", ctypes.c_double),
        ("nonce", ctypes.c_char * 33),
    ]


class Line(ctypes.Structure):
    _fields_ = [
        ("scheme", ctypes.c_char_p),
        ("proof", ctypes.c_char_p),
        ("body", ctypes.c_char_p),
        ("body_size", ctypes.c_size_t),
    ]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc)")
    library = tmp_path_factory.mktemp("wire") / "wire.so"
    files = [str(CODE / name) for name in ("message.c", "sha256.c")]
    flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-D_GNU_SOURCE"]
    subprocess.run([compiler, *flags, *files, "-lm", "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.rca_cut_line.restype = loaded.rca_read_message.restype = ctypes.c_char_p
    loaded.rca_same_digest.restype = ctypes.c_bool
    return loaded


def cut(code: Any, line: bytes) -> tuple[bytes | None, Line]:
    buffer = ctypes.create_string_buffer(line, len(line) + 1)
    parts = Line()
    reason = code.rca_cut_line(buffer, ctypes.c_size_t(len(line)), ctypes.byref(parts))
    parts.buffer = buffer  # it points into it
    return reason, parts


def read(code: Any, body: bytes) -> tuple[bytes | None, Message]:
    message = Message()
    return code.rca_read_message(body, ctypes.c_size_t(len(body)), ctypes.byref(message)), message


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.binary(max_size=200), data=st.binary(max_size=300))
def test_digests_are_those_of_the_library(code: Any, key: bytes, data: bytes) -> None:
    found = ctypes.create_string_buffer(HEX)
    code.rca_sha256_hex(data, ctypes.c_size_t(len(data)), found)
    assert found.value.decode() == hashlib.sha256(data).hexdigest()
    code.rca_hmac_hex(key, ctypes.c_size_t(len(key)), data, ctypes.c_size_t(len(data)), found)
    assert found.value.decode() == hmac.new(key, data, hashlib.sha256).hexdigest()
    assert code.rca_same_digest(found, found.value)
    assert not code.rca_same_digest(found, b"0" + found.value[1:] if found.value[:1] != b"0" else b"1" * 64)
    assert not code.rca_same_digest(found, found.value[:-1])


MESSAGES = [
    wire.NodeIdle("17", "node2", 1, 4, "loop", 5.25),
    wire.Listening("17", time.time()),
    wire.ReleaseAccepted("17", 3, "node2,node3", 5.25),
    wire.ReleaseRejected("17", 4, "the loop would take too long without it", 5.25),
    wire.JobCompleted("4294967295", 5.25),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.kind)
def test_what_applications_send_is_read(code: Any, message: wire.Message) -> None:
    reason, parts = cut(code, wire.pack(message, b"a secret that is long enough"))
    assert reason is None
    assert parts.scheme == b"hmac"
    assert (
        parts.proof.decode()
        == hmac.new(b"a secret that is long enough", parts.body, hashlib.sha256).hexdigest()
    )
    reason, got = read(code, parts.body)
    assert reason is None
    assert got.kind == MESSAGES.index(message)
    for key, value in vars(message).items():
        if key == "job":
            assert got.job_id == int(value)
        elif key in ("node", "nodes", "reason"):
            assert getattr(got, key).decode() == value
        elif key in ("request", "time"):
            assert getattr(got, key) == value


GOOD = {"type": "NodeIdle", "job": "17", "node": "n1", "time": 5.0, "nonce": "0" * 32}


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "ReleaseRequest"},
        {"type": 1},
        {"job": "0"},
        {"job": "17; rm"},
        {"job": "4294967296"},
        {"job": 17},
        {"node": "-n1"},
        {"node": ""},
        {"node": "a" * 300},
        {"node": "é"},
        {"node": 'a"b'},
        {"node": "a\\b"},
        {"node": "a b"},
        {"nonce": "0" * 31},
        {"nonce": "G" * 32},
        {"time": -1},
        {"time": 1e308},
        {"time": "5"},
        {"time": None},
        {"time": [5]},
        {"more": {}},
        {"k" * 40: 1},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(code: Any, changes: dict[str, object]) -> None:
    assert read(code, json.dumps(GOOD, ensure_ascii=False).encode())[0] is None
    assert read(code, json.dumps(GOOD | changes, ensure_ascii=False).encode())[0] is not None


@pytest.mark.parametrize("key", sorted(GOOD))
def test_every_key_is_needed_and_stands_once(code: Any, key: str) -> None:
    fewer = {name: value for name, value in GOOD.items() if name != key}
    assert read(code, json.dumps(fewer).encode())[0] is not None
    twice = json.dumps(GOOD)[:-1] + f", {json.dumps(key)}: {json.dumps(GOOD[key])}}}"
    assert read(code, twice.encode())[0] == b"a key stands twice"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 120), cut_at=st.integers(0, 120), junk=st.binary(max_size=8))
def test_damaged_lines_are_taken_or_refused(code: Any, place: int, cut_at: int, junk: bytes) -> None:
    body = json.dumps(GOOD).encode()
    damaged = body[:place] + junk + body[place:][: cut_at or None]
    reason, parts = cut(code, b"rca2 hmac 00 " + damaged + b"\n")
    if reason is None:
        read(code, parts.body)


def test_lines_of_another_form(code: Any) -> None:
    for line in (
        b"",
        b"\n",
        b"rca2",
        b"rca2 hmac",
        b"rca2 hmac 00\n",
        b"rca1 hmac 00 {}\n",
        b"{}\n",
        b"a\0b c d e\n",
    ):
        assert cut(code, line)[0] is not None, line
