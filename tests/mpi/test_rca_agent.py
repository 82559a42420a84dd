"""The agent as users run it: a process on loopback, under load, among silent peers, with hooks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.mpi.rca import rank_reports
from mlsim.mpi.rca.agent import Connection, Connections, LimitedLog, most_connections
from mlsim.mpi.rca.wire import LONGEST, NodeIdle, RefusedError, _json, _mac, pack

SECRET = "a secret that is long enough"
MANY = most_connections() // 2 + 50
"""Connections, more than one address may have."""

LIMIT = 60.0
"""Seconds after which a test fails, however slow the machine is."""


class Listening:
    """A process of ``mlsim rca listen``."""

    def __init__(self, directory: Path, *words: str) -> None:
        self._log = directory / "log.txt"
        command = [sys.executable, "-c", "from mlsim.cli.main import main; main()", "rca", "listen"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--address", "127.0.0.1:0", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "MLSIM_RCA_SECRET": SECRET},
            )
        assert self.process.stdout is not None
        told = self.process.stdout.readline().decode()
        assert told.startswith("listening on 127.0.0.1:"), told + self.log()
        self.address = ("127.0.0.1", int(told.rpartition(":")[2]))

    def log(self) -> str:
        return self._log.read_text()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, LIMIT)

    def answer(self, line: bytes) -> bytes:
        with self.connect() as connection:
            connection.sendall(line)
            with connection.makefile("rb") as stream:
                return stream.readline()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LIMIT)


Start = Callable[..., Listening]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start agents; none is left behind. The environment is that of a sender to the last one."""
    agents: list[Listening] = []

    def started(*words: str) -> Listening:
        agent = Listening(tmp_path, *words)
        agents.append(agent)
        monkeypatch.setenv("MLSIM_RCA_SECRET", SECRET)
        monkeypatch.setenv("MLSIM_RCA_ADDRESS", f"127.0.0.1:{agent.address[1]}")
        return agent

    yield started
    for agent in agents:
        agent.process.kill()
        agent.process.wait(LIMIT)
        assert agent.process.stdout is not None
        agent.process.stdout.close()


def line_of(**changes: object) -> bytes:
    values = {"job": "17", "node": "n1", "node_number": 1, "ranks": 4, "loop": "loop", "time": time.time()}
    return pack(NodeIdle(**{**values, **changes}), SECRET.encode())  # type: ignore[arg-type]


class Load:
    """Threads that keep an agent busy with good lines, bad lines and silence, until it is gone."""

    def __init__(self, agent: Listening, threads: int = 4) -> None:
        self._agent, self._silent = agent, []  # type: ignore[var-annotated]
        self.flows = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._press) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _press(self) -> None:
        lines = (line_of, lambda: b"junk\n", lambda: b"x" * (2 * LONGEST) + b"\n")
        while self._agent.process.poll() is None:
            try:
                for line in lines:
                    self._agent.answer(line())
                self._silent.append(self._agent.connect())
                self.flows.release()
            except OSError:
                continue  # one connection was dropped

    def wait(self, rounds: int) -> None:
        for _ in range(rounds):
            assert self.flows.acquire(timeout=LIMIT)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive()
        for connection in self._silent:
            connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_under_load(start: Start, number: int) -> None:
    agent = start("--hook", "sh -c 'sleep 1000'")
    load = Load(agent)
    load.wait(40)
    code = agent.end(number)
    load.join()
    assert code == 128 + number
    assert "Traceback" not in agent.log()
    assert " taken, " in agent.log().splitlines()[-1]


def test_silent_connections_do_not_lock_reports_out(start: Start) -> None:
    agent = start()
    silent = [agent.connect() for _ in range(MANY)]
    try:
        assert rank_reports.send_idle("n1", 0, 4, "loop")
        # The oldest ones were told to go, and why.
        assert silent[0].recv(100).startswith(b"refused: busy")
    finally:
        for connection in silent:
            connection.close()
    assert agent.end() == 143
    assert agent.log().splitlines()[-1].endswith(f" 1 taken, {MANY} refused")


def test_senders_at_once_are_all_heard_among_silent_connections(start: Start, tmp_path: Path) -> None:
    agent = start("--records", str(tmp_path / "idle.jsonl"))
    silent = [agent.connect() for _ in range(MANY)]
    taken: list[bool] = []
    senders = [
        threading.Thread(
            target=lambda row=row: taken.append(rank_reports.send_idle(f"n{row}", row, 4, "loop"))
        )
        for row in range(40)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(LIMIT)
    for connection in silent:
        connection.close()
    assert taken == [True] * 40
    rows = [json.loads(line) for line in (tmp_path / "idle.jsonl").read_text().splitlines()]
    assert sorted(row["node_number"] for row in rows) == list(range(40))


class Peer:
    """What a connection writes to: an address, and what it was told."""

    def __init__(self, address: str) -> None:
        self._address, self.told = address, b""

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return self._address, 1

    def write(self, answer: bytes) -> None:
        self.told = answer

    def close(self) -> None:
        pass


def test_the_address_with_most_connections_gives_way() -> None:
    """A machine that opens all it can neither locks others out, nor drops theirs."""
    connections, peers = Connections(6, 4), [Peer(name) for name in "abbbbacdd"]
    opened = [Connection(peer) for peer in peers]  # type: ignore[arg-type]
    for connection in opened[:7]:
        connections.add(connection)
    assert [peer.told[:13] for peer in peers].count(b"refused: busy") == 1
    assert opened[1].dropped
    for connection in opened[2:5]:
        connection.silent = False
    connections.add(opened[7])  # a has two, both silent
    assert opened[0].dropped
    for connection in opened:
        connection.silent = False
    with pytest.raises(RefusedError, match="busy"):
        connections.add(opened[8])


def signed(body: object) -> bytes:
    """Sign what no sender of ours would send."""
    raw = _json(body)
    return b"rca2 hmac %s %s\n" % (_mac(raw, SECRET.encode()).encode(), raw)


def body_with(**changes: object) -> dict[str, object]:
    values = {"job": "17", "node": "n1", "node_number": 1, "ranks": 4, "loop": "loop", "time": time.time()}
    return {"type": "NodeIdle", "nonce": "0" * 32, **values, **changes}


def test_signed_lines_that_make_no_sense_are_refused(start: Start) -> None:
    agent = start()
    nested: object = 0
    for _ in range(900):
        nested = [nested]
    wrong = [
        *({"time": value} for value in (10**400, -(10**400), 1e308, -1.0, True, None, [], {}, "1", nested)),
        *({"ranks": value} for value in (10**400, 2**31, -1, 1.0, None, nested)),
        *({"node_number": value} for value in (10**400, [], {})),
        *(
            {key: value}
            for key in ("job", "node", "loop")
            for value in (10**400, None, [], "", "é", "a" * 300)
        ),
        *({"nonce": value} for value in (0, None, [], "g" * 32, "0" * 31)),
        *({"type": value} for value in (None, [], {}, 10**400)),
        {"more": 1},
    ]
    for changes in wrong:
        assert agent.answer(signed(body_with(**changes))).startswith(b"refused: "), changes
    for raw in (b"[" * 4000 + b"\n", b'{"body":' * 400 + b"\n", b"9" * 4000 + b"\n", b"\xff\xfe\n", b"\n"):
        assert agent.answer(raw).startswith(b"refused: "), raw[:20]
    assert agent.answer(line_of()) == b"ok: noted\n"
    assert agent.end() == 143
    assert "Traceback" not in agent.log()
    assert agent.log().splitlines()[-1].endswith(f" 1 taken, {len(wrong) + 5} refused")


def test_the_log_cannot_be_flooded(start: Start) -> None:
    agent = start()
    for _ in range(1500):
        assert agent.answer(b"junk\n").startswith(b"refused: not of the form")
    assert agent.end() == 143
    lines = agent.log().splitlines()
    assert lines[-1].endswith(" 0 taken, 1500 refused")
    told = [line for line in lines if "not of the form" in line]
    more = [int(line.split("refused: ")[1].split()[0]) for line in lines if "not listed" in line]
    assert len(told) + sum(more) == 1500
    # 20 lines and a sum in 10 s; how long the sending takes is the machine's affair.
    assert 20 <= len(told) <= 20 * len(more)


def test_a_limited_log_counts_what_it_leaves_out(caplog: pytest.LogCaptureFixture) -> None:
    import logging

    now = [0.0]
    log = LimitedLog(logging.getLogger("test"), most=3, seconds=10.0, clock=lambda: now[0])
    with caplog.at_level(logging.INFO):
        for row in range(10):
            log.add(logging.INFO, "refused", str(row))
        log.add(logging.INFO, "taken", "a")
        now[0] = 10.0
        log.add(logging.INFO, "refused", "10")
        log.close()
    assert caplog.messages == [
        *("refused: 0", "refused: 1", "refused: 2", "taken: a"),
        *("refused: 7 more, not listed", "refused: 10"),
    ]


HOOK = """\
import os, socket, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, b"begin\\n")
with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as connection:
    connection.recv(1)
os.write(log, b"end\\n")
"""


def test_some_hooks_run_at_once_and_the_agent_goes_on(start: Start, tmp_path: Path) -> None:
    """Each hook lasts until the test lets it go; six reports are taken meanwhile."""
    (tmp_path / "hook.py").write_text(HOOK)
    with socket.create_server(("127.0.0.1", 0)) as gate:
        gate.settimeout(LIMIT)
        log = tmp_path / "hooks.txt"
        words = f"{sys.executable} -S {tmp_path / 'hook.py'} {log} {gate.getsockname()[1]}"
        agent = start("--hook", words, "--hooks-at-once", "2", "--count", "6")
        for _ in range(6):
            assert agent.answer(line_of()) == b"ok: noted, the hook is called\n"
        waiting = [gate.accept()[0], gate.accept()[0]]
        for _ in range(4):
            waiting.pop(0).close()
            waiting.append(gate.accept()[0])
        for connection in waiting:
            connection.close()
    assert agent.process.wait(LIMIT) == 0
    events = log.read_text().split()
    running = [events[: row + 1].count("begin") - events[: row + 1].count("end") for row in range(12)]
    assert events.count("end") == 6
    assert max(running) == 2


def test_a_signal_ends_hooks_and_what_they_started(start: Start, tmp_path: Path) -> None:
    """Even those that ignore SIGTERM, and while the agent waits for them at its own end."""
    with socket.create_server(("127.0.0.1", 0)) as gate:
        gate.settimeout(LIMIT)
        hook = tmp_path / "hook.sh"
        program = (
            "import signal, socket, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            f"socket.create_connection(('127.0.0.1', {gate.getsockname()[1]})).recv(1)"
        )
        hook.write_text(f'#!/bin/sh\ntrap "" TERM\n{sys.executable} -S -c "{program}" &\nwait\n')
        hook.chmod(0o700)
        agent = start("--hook", str(hook), "--count", "1")
        assert agent.answer(line_of()) == b"ok: noted, the hook is called\n"
        started, _ = gate.accept()
        started.settimeout(LIMIT)
        assert agent.end() == 143
        assert started.recv(1) == b""  # its process is gone
        started.close()


def test_a_hook_that_takes_too_long_is_ended(start: Start, tmp_path: Path) -> None:
    agent = start("--hook", "sh -c 'sleep 1000'", "--hook-timeout", "0.2", "--count", "1")
    assert agent.answer(line_of()) == b"ok: noted, the hook is called\n"
    assert agent.process.wait(LIMIT) == 0
    assert "hook: for node n1: not done after 0.2 s, and ended" in agent.log()


@pytest.mark.parametrize("kind", ["directory", "pipe", "nowhere"])
def test_records_that_cannot_be_written_are_refused_at_once(tmp_path: Path, kind: str) -> None:
    import asyncio

    from mlsim.mpi.rca.agent import Agent

    file = {"directory": tmp_path, "pipe": tmp_path / "pipe", "nowhere": tmp_path / "no" / "file"}[kind]
    if kind == "pipe":
        os.mkfifo(file)
    with pytest.raises(InputError, match=str(file)):
        asyncio.run(Agent(SECRET.encode(), file).listen("127.0.0.1", 0))


class Server:
    """A stand-in for an agent: treats one connection after the other as told."""

    def __init__(self, *answers: bytes | None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(LIMIT)
        self.port, self._answers = self._socket.getsockname()[1], answers
        self.lines: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._socket.accept()
            with connection, connection.makefile("rb") as stream:
                if answer is None:  # dropped before anything is read
                    continue
                self.lines.append(stream.readline())
                connection.sendall(answer)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(LIMIT)
        self._socket.close()


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], bool]:
    """Send to a port."""
    monkeypatch.setenv("MLSIM_RCA_SECRET", SECRET)

    def send(port: int) -> bool:
        monkeypatch.setenv("MLSIM_RCA_ADDRESS", f"127.0.0.1:{port}")
        return rank_reports.send_idle("n1", 0, 4, "loop")

    return send


@pytest.mark.parametrize(
    "answers",
    [
        (None, None, b"ok\n"),
        (b"", b"ok\n"),
        (b"refused: busy: too many connections in all\n", b"ok\n"),
        (b"", b"refused: sent a second time\n"),  # the answer to the first was lost
    ],
)
def test_a_sender_tries_again(answers: tuple[bytes | None, ...], sender: Callable[[int], bool]) -> None:
    with Server(*answers) as server:
        assert sender(server.port)
    assert len(set(server.lines)) == 1


def test_a_sender_waits_for_an_agent_that_begins(
    sender: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                bound.listen()
                thread.start()

        def serve() -> None:
            connection, _ = bound.accept()
            with connection, connection.makefile("rb") as stream:
                stream.readline()
                connection.sendall(b"ok\n")

        thread = threading.Thread(target=serve)
        monkeypatch.setattr("mlsim.mpi.rca.rank_reports.time.sleep", pause)
        assert sender(bound.getsockname()[1])
        thread.join(LIMIT)
        assert len(pauses) == 3


@pytest.mark.parametrize("answer", [b"refused: wrong MAC\n", b"refused: sent a second time\n"])
def test_a_refusal_that_stands_is_not_tried_again(answer: bytes, sender: Callable[[int], bool]) -> None:
    with Server(answer) as server, pytest.warns(RuntimeWarning, match="refused: "):
        assert not sender(server.port)
    assert len(server.lines) == 1


def test_a_sender_gives_up_in_time(sender: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands but for the pauses, which together stay within two seconds."""
    now = [0.0]
    monkeypatch.setattr("mlsim.mpi.rca.rank_reports.time.monotonic", lambda: now[0])
    monkeypatch.setattr("mlsim.mpi.rca.rank_reports.time.sleep", lambda s: now.__setitem__(0, now[0] + s))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.warns(RuntimeWarning, match="could not be reported"):
            assert not sender(bound.getsockname()[1])
    assert 1.0 < now[0] < 2.0
