"""Records of a run that jobs and the controller have left in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlsim.analysis import summarize
from mlsim.mpi.loop_columns import read_loop, write_loop
from mlsim.record import Chunks, JobState, Loops, MessageKind, Messages, Nodes, Occupancy, PEs, Records, empty
from mlsim.record.derived_times import one_job
from mlsim.slurm.esp_plan import Job
from mlsim.slurm.esp_trial import Seen, launch_of, records_of

ORIGIN = 1_790_000_000.0


def loop(path: Path, began: float, nodes: list[str], ends: list[float]) -> Path:
    """Write a loop whose ranks execute one chunk of ten iterations each."""
    p = len(ends)
    zeros, last = np.zeros(p), np.array(ends)
    chunks = Chunks(
        np.zeros(p, np.int64),
        np.arange(p, dtype=np.int32),
        np.arange(p),
        10 * np.arange(p),
        np.full(p, 10),
        zeros,
        zeros.copy(),
        last,
    )
    one = np.array([float(last.max())])
    loops = Loops(
        np.zeros(1, np.int64),
        np.array([p]),
        np.array([10 * p]),
        np.array([p]),
        one,
        one,
        one,
        one,
        one,
        one,
        one,
    )
    pes = PEs(np.zeros(p, np.int64), np.arange(p, dtype=np.int32), last, last + 0.01, last)
    records = Records(
        Nodes(nodes, ["mpi"] * p, np.ones(p, np.int64), np.ones(p)),
        one_job(1, one[0], p, p),
        empty(Occupancy),
        loops,
        chunks,
        pes,
        empty(Messages),
    )
    write_loop(path, records, began)
    return path


@pytest.fixture
def seen(tmp_path: Path) -> list[Seen]:
    """Return two jobs on two nodes, and one that starts on a node of the second before its end."""

    def job(number: int, category: str, nodes: int) -> Job:
        return Job(number, category, 0.0, 3.0, 60.0, nodes)

    def one(job: Job, start: float, end: float, nodes: tuple[str, ...], lengths: list[float]) -> Seen:
        file = loop(tmp_path / f"{job.number}.npz", ORIGIN + start + 0.5, list(nodes), lengths)
        submitted = ORIGIN + 0.1 * (job.number - 1)
        return Seen(job, str(70 + job.number), submitted, ORIGIN + start, ORIGIN + end, nodes, file)

    return [
        one(job(1, "L", 2), 1.0, 5.0, ("node1", "node2"), [3.0, 2.9]),
        one(job(2, "C", 2), 5.2, 11.0, ("node1", "node2"), [5.0, 2.0]),
        one(job(3, "L", 1), 8.0, 11.5, ("node2",), [2.5]),
    ]


SAID = [
    {"event": "released", "job": 4, "node": "node1", "time": ORIGIN - 100.0, "sent": ORIGIN - 100.1},
    {"event": "refused", "answer": "no", "time": ORIGIN + 7.0},
    {"event": "released", "job": 72, "node": "node2", "time": ORIGIN + 7.75, "sent": ORIGIN + 7.74},
]


def test_all_that_was_seen_is_in_the_records(seen: list[Seen]) -> None:
    records = records_of(seen, SAID, 2)
    jobs = records.jobs
    assert jobs.job_id.tolist() == [1, 2, 3]
    assert jobs.submit_time.tolist() == pytest.approx([0.0, 0.1, 0.2])
    assert jobs.start_time.tolist() == pytest.approx([1.0, 5.2, 8.0])
    assert jobs.end_time.tolist() == pytest.approx([5.0, 11.0, 11.5])
    assert (jobs.state == JobState.COMPLETED).all()
    assert [records.names.of["executable"][code] for code in jobs.executable.tolist()] == ["L", "C", "L"]
    stays = records.occupancy
    rows = zip(stays.job.tolist(), stays.node.tolist(), stays.start.tolist(), stays.end.tolist(), strict=True)
    assert [(job, node, round(start, 3), round(end, 3)) for job, node, start, end in rows] == [
        (0, 0, 1.0, 5.0),
        (0, 1, 1.0, 5.0),
        (1, 0, 5.2, 11.0),
        (1, 1, 5.2, 7.75),
        (2, 1, 8.0, 11.5),
    ]
    assert stays.released.tolist() == [False, False, False, True, False]
    assert records.chunks.job.tolist() == [0, 0, 1, 1, 2]
    assert records.chunks.start.tolist() == pytest.approx([1.5, 1.5, 5.7, 5.7, 8.5])
    assert records.pes.finish.tolist() == pytest.approx([4.5, 4.4, 10.7, 7.7, 11.0])
    assert records.loops.job.tolist() == [0, 1, 2]
    messages = records.messages
    assert messages.kind.tolist() == [MessageKind.NODE_IDLE]
    assert (messages.job.tolist(), messages.node.tolist()) == ([1], [1])
    assert messages.sent.tolist() == pytest.approx([7.74])
    summary = summarize(records, scenario="x", seed=0, technique="STATIC")
    assert summary["makespan"] == pytest.approx(10.5)
    assert summary["coordination"]["releases"] == 1


def test_who_started_ahead_of_the_queue(seen: list[Seen]) -> None:
    first, second, third = seen
    assert not records_of(seen, [], 2).jobs.backfilled.any()
    assert records_of([third, second, first], [], 2).jobs.backfilled.tolist() == [False, True, True]


def test_what_jobs_take_besides_their_loops(seen: list[Seen]) -> None:
    launch = launch_of(seen, 2)
    assert launch.before == pytest.approx(0.5)
    # The ends of the loops are 4.51, 10.71 and 11.01.
    assert launch.after == pytest.approx(0.49)
    assert launch.between == 0.0, "the one node between two jobs was given back"
    alone = [seen[0], Seen(seen[2].job, "9", ORIGIN, ORIGIN + 5.3, ORIGIN + 9.0, ("node2",), seen[2].columns)]
    assert launch_of(alone, 2).between == pytest.approx(0.3)
    assert launch.seconds == pytest.approx(0.99)


def test_columns_of_a_loop_come_back(tmp_path: Path) -> None:
    path = loop(tmp_path / "x.npz", 12.5, ["a", "b"], [1.0, 2.0])
    found = read_loop(path)
    assert (found.began, found.nodes) == (12.5, ["a", "b"])
    assert found.chunks.end.tolist() == [1.0, 2.0]
    assert found.chunks.pe.dtype == np.int32
    assert list(tmp_path.iterdir()) == [path]
