"""What the agent takes and what it refuses; no MPI is needed."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.mpi.rca.agent import Agent
from mlsim.mpi.rca.wire import LONGEST, NodeIdle, RefusedError, _mac, address_of, find_secret, pack, unpack

SECRET = b"a secret that is long enough"


def message(**changes: object) -> NodeIdle:
    values = {"job": "17", "node": "n1", "node_number": 1, "ranks": 4, "loop": "loop", "time": time.time()}
    return NodeIdle(**{**values, **changes})  # type: ignore[arg-type]


def signed(body: bytes) -> bytes:
    """Sign any bytes."""
    return b"rca2 hmac %s %s\n" % (_mac(body, SECRET).encode(), body)


def exchange(agent: Agent, *lines: bytes) -> list[bytes]:
    """Send each line on a connection of its own; give the answers."""

    async def all_of_them() -> list[bytes]:
        host, port = await agent.listen("127.0.0.1", 0)
        answers = []
        for line in lines:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(line)
            if not line.endswith(b"\n"):
                writer.write_eof()
            answers.append(await asyncio.wait_for(reader.read(), 20))
            writer.close()
        await agent.close()
        return answers

    return asyncio.run(all_of_them())


def test_a_message_goes_through() -> None:
    sent = message()
    got, nonce = unpack(pack(sent, SECRET), SECRET)
    assert got == sent
    assert len(nonce) == 32


def test_nonces_differ() -> None:
    assert unpack(pack(message(), SECRET), SECRET)[1] != unpack(pack(message(), SECRET), SECRET)[1]


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_changed_byte_is_refused(place: int, change: int) -> None:
    line = bytearray(pack(message(time=1.5), SECRET)[:-1])
    line[place % len(line)] ^= change
    with pytest.raises(RefusedError):
        unpack(bytes(line), SECRET)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(line: bytes) -> None:
    with pytest.raises(RefusedError):
        unpack(line, SECRET)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["type", "nonce", *NodeIdle.__dataclass_fields__, "other"]), _JSON)
def test_any_signed_value_is_taken_or_refused(key: str, value: object) -> None:
    good = json.loads(pack(message(time=1.5), SECRET).split(b" ", 3)[3])
    body = good | {key: value}
    line = signed(json.dumps(body).encode())
    try:
        got, nonce = unpack(line, SECRET)
    except RefusedError:
        return
    assert {"type": got.kind, "nonce": nonce, **vars(got)} == body


@pytest.mark.parametrize(
    "changes",
    [
        {"node": "-oProxyCommand=x"},
        {"node": "n1; rm -rf /"},
        {"node": "$(id)"},
        {"job": ""},
        {"job": "a\nb"},
        {"node_number": -1},
        {"ranks": 1.5},
        {"ranks": True},
        {"time": "now"},
        {"loop": 3},
    ],
)
def test_signed_values_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(RefusedError):
        unpack(pack(message(**changes), SECRET), SECRET)


def test_the_agent_takes_refuses_and_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = tmp_path / "idle.jsonl"
    agent = Agent(SECRET, records, max_age=100.0)
    good = pack(message(), SECRET)
    with caplog.at_level(logging.INFO, "mlsim.rca"):
        answers = exchange(
            agent,
            good,
            good,
            pack(message(), b"another secret, also long"),
            pack(message(time=time.time() - 1000), SECRET),
            pack(message(time=time.time() + 1000), SECRET),
            b"x" * (3 * LONGEST) + b"\n",
            b"{}\n",
            good[:40],
        )
    reasons = [
        b"ok",
        b"second time",
        b"wrong MAC",
        b"ago",
        b"ago",
        b"longer than",
        b"not of the form",
        b"did not end",
    ]
    for answer, reason in zip(answers, reasons, strict=True):
        assert reason in answer
    assert (agent.taken, agent.refused) == (1, 7)
    assert sum("refused" in text for text in caplog.messages) == 7
    told = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(row["job"], row["node"]) for row in told] == [("17", "n1")]


def test_the_hook_gets_words_and_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    script = tmp_path / "hook.sh"
    script.write_text(
        f'#!/bin/sh\nprintf "%s|" "$@" "$MLSIM_RCA_NODE" "${{MLSIM_RCA_SECRET:-none}}" > {out}\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("MLSIM_RCA_SECRET", SECRET.decode())
    agent = Agent(SECRET, hook=[str(script), "give back", "$HOME;id"])
    assert exchange(agent, pack(message(node="host/1"), SECRET)) == [b"ok: noted, the hook is called\n"]
    assert out.read_text() == "give back|$HOME;id|17|host/1|host/1|none|"


@pytest.mark.parametrize("hook", [["/no/such/command"], ["false"], ["sleep", "20"]])
def test_a_hook_that_fails_is_logged(hook: list[str], caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(SECRET, hook=hook, hook_timeout=0.3)
    assert exchange(agent, pack(message(job="1", node="1"), SECRET)) == [b"ok: noted, the hook is called\n"]
    assert any("hook" in text for text in caplog.messages)


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlsim.mpi.rca.agent._READ_SECONDS", 0.2)
    agent = Agent(SECRET)

    async def silent() -> bytes:
        host, port = await agent.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(host, port)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        await agent.close()
        return answer

    assert b"no line within" in asyncio.run(silent())


def test_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLSIM_RCA_SECRET", raising=False)
    monkeypatch.delenv("MLSIM_RCA_SECRET_FILE", raising=False)
    with pytest.raises(InputError, match="no shared secret"):
        find_secret()
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    file.chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        find_secret(file)
    file.chmod(0o600)
    assert find_secret(file) == SECRET
    monkeypatch.setenv("MLSIM_RCA_SECRET", "short")
    with pytest.raises(InputError, match="16 bytes"):
        find_secret()


@pytest.mark.parametrize("text", ["", "7410", ":7410", "host:", "host:99999", "host:x"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="no address"):
        address_of(text)


def test_the_command_refuses_addresses_that_others_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsim.cli.listen import ListenOptions, listen

    monkeypatch.setenv("MLSIM_RCA_SECRET", SECRET.decode())
    with pytest.raises(InputError, match="--any-host"):
        listen(ListenOptions(address="0.0.0.0:0"))
