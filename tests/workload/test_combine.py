"""``mlsim workload combine``: several workflows in one log, at given and at drawn times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.workload.arriving_workflows import drawn_arrivals
from tests.workload.test_wfformat import DIAMOND, instance

CHAIN = """job_id,submit_time,run_time,processors,dependencies
1,0,30,1,
2,10,50,2,afterok:1+20s
3,0,5,1,"afterok:1,afterany:2"
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "made.json").write_text(json.dumps(instance(DIAMOND)))
    (tmp_path / "chain.csv").write_text(CHAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def combine(*words: str) -> None:
    app(["workload", "combine", *words], standalone_mode=False)


def simulated(path: str, nodes: int = 64) -> mlsim.Result:
    return mlsim.run(
        {
            "workload": {"path": path, "dependencies": True},
            "platform": {"nodes": [{"name": "n", "count": nodes, "cores": 1}]},
            "batch": {"policy": "FCFS", "backfill": "easy"},
        }
    )


def test_files_arrive_in_turn_and_are_simulated_apart(sources: Path) -> None:
    combine("made.json", "chain.csv", "--at", "1 min", "--at", "0", "--at", "1h", "--out", "all.csv")
    alone = {name: simulated(name).summary for name in ("made.json", "chain.csv")}
    path = alone["made.json"]["workflows"]["makespan"]["mean"]
    result = simulated("all.csv")
    jobs = result.jobs.with_columns(workflow=pl.col("workflow").cast(pl.String))
    ends = jobs.group_by("workflow").agg(
        first=pl.col("submit_time").min(), last=pl.col("end_time").max(), jobs=pl.len()
    )
    found = {row["workflow"]: row for row in ends.iter_rows(named=True)}
    assert {name: row["first"] for name, row in found.items()} == {
        "1-made-up": 60.0,
        "2-chain": 0.0,
        "3-made-up": 3600.0,
    }
    assert found["1-made-up"]["last"] - 60.0 == found["3-made-up"]["last"] - 3600.0 == path
    assert found["2-chain"]["last"] == 30 + 20 + 50 + 5
    flows = result.summary["workflows"]
    assert (flows["count"], flows["unfinished"]) == (3, 0)
    assert flows["stretch"]["max"] == flows["stretch"]["mean"] == 1.0
    assert flows["makespan"]["max"] == max(path, 105.0)
    assert flows["critical_path"]["mean"] == pytest.approx((2 * path + 105.0) / 3)


def test_workflows_that_share_a_machine_wait_for_each_other(sources: Path) -> None:
    combine("chain.csv", "--at", "0", "--at", "0", "--out", "two.csv")
    flows = simulated("two.csv", nodes=2).summary["workflows"]
    # First jobs at once, second ones of two processors from 50 s and 100 s on, last ones at once at 150 s.
    assert flows["makespan"]["mean"] == flows["makespan"]["max"] == 155.0
    assert flows["critical_path"]["max"] == 105.0
    assert flows["stretch"]["mean"] == pytest.approx(155.0 / 105.0)


def test_drawn_arrivals_have_their_mean_and_seed(sources: Path) -> None:
    times = drawn_arrivals(4_000, 600.0, 7)
    assert times[0] == 0
    assert np.diff(times).mean() == pytest.approx(600, rel=0.05)
    assert (np.diff(times) > 1200).mean() == pytest.approx(np.exp(-2), abs=0.02)
    assert drawn_arrivals(4_000, 600.0, 8).tolist() != times.tolist()
    for name in ("a.csv", "b.csv"):
        combine("chain.csv", "made.json", "--every", "10min", "--count", "5", "--seed", "3", "--out", name)
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    frame = pl.read_csv("a.csv")
    first = frame.group_by("workflow", maintain_order=True).agg(pl.col("submit_time").min())
    assert first["workflow"].to_list() == ["1-chain", "2-made-up", "3-chain", "4-made-up", "5-chain"]
    assert first["submit_time"].to_list() == drawn_arrivals(5, 600.0, 3).tolist()


def test_preceding_jobs_of_swf_are_those_of_the_same_copy(sources: Path) -> None:
    rows = ["1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1", "2 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 1 30"]
    Path("pair.swf").write_text("\n".join(rows) + "\n")
    combine("pair.swf", "--at", "0", "--at", "100", "--out", "pairs.parquet")
    jobs = simulated("pairs.parquet").jobs.sort("job_id_name")
    assert jobs["job_id_name"].cast(pl.String).to_list() == ["1-1", "1-2", "2-1", "2-2"]
    assert jobs["start_time"].to_list() == [0.0, 40.0, 100.0, 140.0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("chain.csv",), "give the times of arrival by --at"),
        (("chain.csv", "--at", "0", "--every", "1h"), "give the times of arrival by --at"),
        (("chain.csv", "--at", "0", "--count", "2"), "give the times of arrival by --at"),
        (("chain.csv", "--at", "soon"), "--at: "),
        (("chain.csv", "--every", "0 s"), "--every: "),
        (("chain.csv", "--every", "1 s", "--count", "100001"), "allowed: 1, one per file, to 100,000"),
        (("chain.csv", "made.json", "--at", "0"), "1 workflows arrive; allowed: 2, one per file"),
        (("chain.csv", "nothing.json", "--at", "0", "--at", "1"), "nothing.json: there is no such file"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_written(
    sources: Path, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        combine(*words, "--out", "out.csv")
    assert not list(sources.glob("*out*"))


def test_a_log_without_room_for_the_name_is_refused(sources: Path) -> None:
    with pytest.raises(InputError, match="swf has no column for the workflow of a job"):
        combine("chain.csv", "--at", "0", "--out", "out.swf")
    assert not Path("out.swf").exists()


def test_every_copy_has_jobs_of_its_own(sources: Path) -> None:
    combine("made.json", "--every", "1 s", "--count", "30", "--out", "many.csv")
    frame = pl.read_csv("many.csv")
    assert frame["job_id"].is_unique().all()
    for job, cell in frame.select("job_id", "dependencies").rows():
        copies = {name.split(":")[-1].split("-")[0] for name in (cell or "").split(",") if name}
        assert copies <= {job.split("-")[0]}
    assert frame["workflow"].n_unique() == 30
