"""RCA on a real Slurm of four nodes: what is given back, what is refused, what ends cleanly."""

from __future__ import annotations

import re
import socket
import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest

import mlsim
from mlsim.cli.cluster import jobs
from mlsim.errors import InputError
from mlsim.mpi.rca.wire import Listening, pack, signed_by
from mlsim.scenario import from_mapping
from mlsim.slurm.slurm_programs import give_back
from tests.slurm.conftest import LIMIT, SECRET, Trial, until

pytestmark = pytest.mark.slurm

_NOW = "date +%s.%N"


def rss(pid: int) -> int:
    """Resident memory in kB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found.group(1))


@pytest.mark.slow
def test_nodes_without_work_serve_waiting_jobs_while_the_job_runs(
    trial: Trial, ranks: None, record_property: pytest.RecordProperty
) -> None:
    owner = trial.submit(trial.ranks("sleeps.py", "1", "1", "6", "3", "6"), "-N4")
    trial.wait(owner, "RUNNING")
    first, second = (trial.submit(f"{_NOW}; sleep 30", "-N1", "--begin=now") for _ in range(2))
    trial.wait(first, "RUNNING")
    trial.wait(second, "RUNNING")
    assert trial.state(owner)["JobState"] == "RUNNING"
    kept = trial.wait(owner)
    assert kept["ExitCode"] == "0:0"
    ends = {
        int(rank): (float(ended), float(idle), float(used))
        for rank, ended, idle, used in re.findall(
            r"rank (\d) ended (\S+) idle (\S+) used (\S+)", trial.out(owner)
        )
    }
    assert set(ends) == {0, 1, 2, 3}, "all ranks finalize"
    released = trial.records("released", owner)
    assert [row["node"] for row in released[:2]] == ["node1", "node3"]
    assert {trial.state(first)["NodeList"], trial.state(second)["NodeList"]} == {"node1", "node3"}
    assert trial.state(first)["JobState"] == trial.state(second)["JobState"] == "RUNNING"
    starts = sorted(float(trial.out(job).split()[0]) for job in (first, second))
    latencies = [start - ends[rank][0] for start, rank in zip(starts, (0, 2), strict=True)]
    shares = [used / idle for _, idle, used in (ends[0], ends[2])]
    record_property("latency_ms", [round(1e3 * value, 1) for value in latencies])
    record_property("idle_share", shares)
    print(f"release to start {latencies} s, idle ranks {shares} of a core")
    assert max(latencies) < 10.0, "started by the release, not by the job's end"
    assert max(shares) < 0.1


@pytest.mark.slow
def test_a_time_stepping_application_keeps_its_nodes_until_its_last_loop(trial: Trial, ranks: None) -> None:
    owner = trial.submit(trial.ranks("sleeps.py", "3", "0", "0.8", "0.8", "0.8"), "-N4")
    assert trial.wait(owner)["ExitCode"] == "0:0"
    released = trial.records("released", owner)
    ends = {int(rank): float(ended) for rank, ended in re.findall(r"rank (\d) ended (\S+)", trial.out(owner))}
    assert released[0]["node"] == "node1"
    assert len(released) <= 3, "the last node stays"
    # Two loops of 0.8 s were before; its first two ends were no reason. A rank prints its time after it has
    # told that it is idle, on a busy machine some hundredths of a second later.
    assert float(str(released[0]["time"])) >= ends[0] - 0.4


def test_what_is_refused(trial: Trial) -> None:
    owner = trial.submit("sleep 300", "-N3")
    trial.wait(owner, "RUNNING")
    other = trial.submit("sleep 300", "-N1", secret="the secret of the second user")
    trial.wait(other, "RUNNING")
    line = trial.idle(owner, "node2")
    cases = [
        (trial.idle(owner, "node9"), "no node has that name"),
        (trial.idle(owner, "node4"), "does not hold that node"),
        (trial.idle("4711", "node1"), "no such job is running"),
        (trial.idle(owner, "node1", secret="the secret of the second user"), "wrong MAC"),
        (trial.idle(other, "node4"), "wrong MAC"),
        (trial.idle(owner, "node1", time=time.time() - 1000), "too far"),
        (line.replace(b"node2", b"node1"), "wrong MAC"),
        (line.replace(b"hmac", b"munge"), "by the job's secret alone"),
        (b"junk\n", "not of the form"),
        (b"rca2 hmac 00 {}\n", "the body"),
        (b"rca2 hmac 00 " + b"{" * 3000 + b"\n", "the body"),
        (b"x" * 5000 + b"\n", "longer than"),
        (b"\0" * 10 + b"\n", "zero byte"),
        (trial.idle(other, "node4", secret="the secret of the second user"), "the job's last node"),
    ]
    for sent, reason in cases:
        answer = trial.answer(sent)
        assert answer.startswith("refused: "), (sent, answer)
        assert reason in answer, (sent, answer)
    assert trial.answer(line) == f"ok: node node2 is free for other jobs, job {owner} keeps 2"
    assert "second time" in trial.answer(line)
    assert "does not hold" in trial.answer(trial.idle(owner, "node2"))
    assert trial.answer(trial.idle(owner, "node1")).startswith("ok")
    assert "last node" in trial.answer(trial.idle(owner, "node3"))
    bare = trial.submit("sleep 300", "-N1", secret=None)
    trial.wait(bare, "RUNNING")
    assert "without a MLSIM_RCA_SECRET" in trial.answer(trial.idle(bare, "node1"))
    assert trial.controller() in trial.cluster.running


def test_a_thousand_hostile_connections(trial: Trial) -> None:
    owner = trial.submit("sleep 300", "-N4")
    trial.wait(owner, "RUNNING")
    host, port = trial.cluster.address.split(":")
    held: list[socket.socket] = []
    try:
        for number in range(1000):
            connection = socket.create_connection((host, int(port)), LIMIT)
            held.append(connection)
            try:
                connection.sendall(
                    (b"", b"rca2 hm", b"x" * 4000, b"\xff" * 9000 + b"\n", b"{}\n")[number % 5]
                )
            except OSError:
                continue  # dropped already, for those that came later
            if number % 250 == 249:  # among them, one that has something to say
                assert trial.answer(trial.idle(owner, f"node{1 + number // 250}")).startswith(
                    "ok" if number < 750 else "refused"
                )
    finally:
        for connection in held:
            connection.close()
    assert trial.controller() in trial.cluster.running
    assert trial.state(owner)["NumNodes"] == "1"


def test_cancelling_a_job_ends_its_ranks_on_lent_nodes_and_not_the_borrower(trial: Trial) -> None:
    # Ends by nothing but SIGKILL of a step's own daemon; what it writes tells that it lives.
    mark = trial.place / "alive"
    trial.place.joinpath("live.sh").write_text(
        f"while :; do date > {mark}.$SLURMD_NODENAME; sleep 0.1; done\n"
    )
    owner = trial.submit(f"srun sh {trial.place}/live.sh", "-N4")
    until(lambda: len(list(trial.place.glob("alive.*"))) == 4, "all ranks run")
    assert trial.answer(trial.idle(owner, "node3")).startswith("ok")
    borrower = trial.submit("sleep 4; echo done", "-N1", "-w", "node3")
    trial.wait(borrower, "RUNNING")
    trial.cluster.call("scancel", owner)
    until(lambda: trial.records("cleaned", owner), "the lent node is cleaned")
    until(lambda: not _lives(trial), "no rank is left")
    assert trial.wait(borrower)["ExitCode"] == "0:0"
    assert trial.out(borrower).split() == ["done"]


def _lives(trial: Trial) -> bool:
    for file in trial.place.glob("alive.*"):
        file.unlink()
    time.sleep(0.5)
    return bool(list(trial.place.glob("alive.*")))


def test_a_hundred_releases_leave_nothing_in_the_controller(trial: Trial) -> None:
    latencies = []
    sizes = []
    for round_number in range(34):
        owner = trial.submit("sleep 300", "-N4")
        trial.wait(owner, "RUNNING")
        for node in ("node4", "node2", "node3"):
            begin = time.monotonic()
            assert trial.answer(trial.idle(owner, node)).startswith("ok")
            latencies.append(time.monotonic() - begin)
        trial.cluster.call("scancel", owner)
        until(lambda: trial.cluster.idle_nodes() == 4, "all nodes idle")
        sizes.append(rss(trial.controller()))
        assert len(latencies) == 3 * (round_number + 1)
    print(f"median of 102 answers {1e3 * statistics.median(latencies):.1f} ms, controller {sizes} kB")
    lent = trial.cluster.place / "state" / "rca_lent"
    until(lambda: lent.read_text() == "", "no node is lent")
    # Records of ended jobs stay in the controller for an hour: some kB each. Its allocator takes a megabyte
    # at once when threads of the controller meet in it, now and then; a leak grows in every round.
    steps = [later - before for before, later in pairwise(sizes[10:])]
    assert sum(steps) - max(steps) < 23 * 64


def test_the_controller_asks_and_the_application_answers(trial: Trial) -> None:
    owner = trial.submit("sleep 300", "-N4")
    trial.wait(owner, "RUNNING")
    host, port = trial.cluster.address.split(":")
    with (
        socket.create_connection((host, int(port)), LIMIT) as connection,
        connection.makefile("rwb") as stream,
    ):
        stream.write(pack(Listening(owner, time.time()), signed_by(SECRET.encode())))
        stream.flush()
        assert stream.readline().startswith(b"ok: requests will come here")
        waiting = trial.submit("sleep 1", "-N2")
        line = stream.readline()
        assert line.startswith(b"rca2 hmac "), line
    until(lambda: trial.records("asked", owner), "the request is recorded")
    (asked,) = trial.records("asked", owner)
    assert (asked["nodes"], str(asked["for_job"])) == (2, waiting)


@pytest.mark.slow
def test_an_application_that_is_asked_gives_a_node_up_and_does_all_its_work(
    trial: Trial, ranks: None
) -> None:
    command = trial.ranks("yields.py", "0.04")
    owner = trial.submit(f"MLSIM_RCA_ANSWER=always {command}", "-N4")
    trial.wait(owner, "RUNNING")
    waiting = trial.submit("true", "-N1")
    trial.wait(waiting)
    assert trial.state(owner)["JobState"] == "RUNNING", "it started before the other ended"
    assert trial.wait(owner)["ExitCode"] == "0:0"
    (accepted,) = trial.records("accepted", owner)
    assert accepted["nodes"] == "node4"
    assert trial.records("released", owner)[0]["node"] == "node4"
    did = [int(number) for number in re.findall(r"did (\d+) of 400", trial.out(owner))]
    assert len(did) == 4
    assert sum(did) == 400


@pytest.mark.slow
def test_an_application_may_refuse(trial: Trial, ranks: None) -> None:
    command = trial.ranks("yields.py", "0.02")
    owner = trial.submit(f"MLSIM_RCA_ANSWER=tolerance:0.01 {command}", "-N4")
    trial.wait(owner, "RUNNING")
    waiting = trial.submit("true", "-N3")
    assert trial.wait(owner)["ExitCode"] == "0:0"
    trial.wait(waiting)
    rejected = trial.records("rejected", owner)
    assert [row["reason"] for row in rejected] == ["the loop would take too long without it"]
    assert not trial.records("accepted", owner)


def test_scontrol_gives_a_node_back_without_the_plugin(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(trial.cluster.conf))
    owner = trial.submit("sleep 300", "-N3")
    trial.wait(owner, "RUNNING")
    assert give_back(owner, "node3") == f"node node3 is free for other jobs, job {owner} keeps 2"
    borrower = trial.submit("true", "-N1", "-w", "node3")
    trial.wait(borrower)
    assert trial.state(owner)["JobState"] == "RUNNING"
    with pytest.raises(InputError, match="does not run on node3"):
        give_back(owner, "node3")
    with pytest.raises(InputError, match="batch script runs on node1"):
        give_back(owner, "node1")


def test_the_log_of_the_cluster_is_simulated(
    trial: Trial, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two of two nodes, then one of all four, which waits for both.
    mine = [
        trial.submit(f"sleep {seconds}", f"-N{nodes}", "-t1") for nodes, seconds in ((2, 3), (2, 1), (4, 1))
    ]
    trial.wait(mine[0], "RUNNING")
    assert trial.answer(trial.idle(mine[0], trial.nodes(mine[0])[1])).startswith("ok")
    for job in mine:
        trial.wait(job)
    jobs(trial.cluster.place)
    head, *lines = capsys.readouterr().out.splitlines()
    kept = [line for line in lines if line.partition("|")[0] in mine]
    assert len(kept) == 3
    log = tmp_path / "cluster.txt"
    log.write_text("\n".join([head, *kept]) + "\n")
    platform = {"nodes": [{"name": "node", "count": 4, "cores": 1}]}
    scenario = {
        "platform": platform,
        "workload": {"path": str(log), "mapping": "core"},
        "output": {"pictures": False},
    }
    result = mlsim.run(from_mapping(scenario, "cluster"))
    assert result.jobs["job_id"].cast(str).to_list() == sorted(mine, key=int)
    assert result.summary["jobs"]["completed"] == 3
    assert result.jobs.sort("job_id")["processors"].to_list() == [2, 2, 4], "as they were submitted"
    started = result.jobs.sort("job_id")["start_time"].to_list()
    ended = result.jobs.sort("job_id")["end_time"].to_list()
    assert started[2] >= max(ended[:2]), "the third needs all nodes"
