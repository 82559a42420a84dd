"""The study of waits under RCA: its files check, and a small log in place of KTH-SP2 gives its table."""

from __future__ import annotations

import gzip
import json
import runpy
import sys
from itertools import product
from pathlib import Path

import polars as pl
import pytest

from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from mlsim.scenario.scenario_text import parse_value_text

STUDY = Path(__file__).parents[2] / "scenarios" / "studies" / "rca-waits"
LOG = "KTH-SP2-1996-2.1-cln.swf.gz"
DAY = 86_400


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(STUDY / "waits.py"), run_name="waits")


def write_log(path: Path) -> None:
    """Write 60 jobs that queue: one every eight hours for three weeks, of 1, 5, 20 or 60 processors."""
    lines = ["; MaxProcs: 100"]
    for job in range(60):
        processors, length = (1, 5, 20, 60)[job % 4], 30_000 + 500 * job
        fields = [
            job + 1,
            job * DAY // 3,
            0,
            length,
            processors,
            -1,
            -1,
            processors,
            2 * length,
            -1,
            1,
            1,
            1,
            1,
        ]
        lines.append(" ".join(map(str, [*fields, 1, 1, -1, -1])))
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Run the study with one load, two seeds and two techniques on the small log."""
    place = tmp_path_factory.mktemp("rca-waits")
    write_log(place / LOG)
    content = parse_value_text((STUDY / "study.yaml").read_text(), "study.yaml")
    vary = content["vary"]
    vary["variation"] = {"0.5": vary["variation"]["0.5"]}
    vary["load"] = {"0.9": vary["load"]["0.9"] | {"workload.select.scale_load": 2.5}}
    vary |= {"seeds": 2, "application.technique": ["STATIC", "FAC2"]}
    del content["without"]
    (place / "study.yaml").write_text(json.dumps(content))
    (place / "loops.yaml").write_text((STUDY / "loops.yaml").read_text())
    run_study(load_study(place), out=place / "results", jobs=1)
    return place / "results"


@pytest.mark.parametrize(
    ("file", "runs"), [("study", 96), ("sdsc-blue", 24), ("hpc2n", 24), ("thunder", 24), ("curie", 24)]
)
def test_each_log_has_a_pair_of_runs_per_cell(file, runs):
    labels = [point.labels for point, _ in load_study(STUDY / f"{file}.yaml").cases]
    cells = {tuple(value for name, value in of.items() if name != "rca") for of in labels}
    assert len(labels) == 2 * len(cells) == runs
    for variation in {of["variation"] for of in labels}:
        shown = {(of["technique"], of["load"]) for of in labels if of["variation"] == variation}
        assert shown == set(product(["STATIC", "GSS", "FAC2", "AF"], ["0.8", "0.9", "1.0"]))


def test_a_small_log_gives_the_table(script, results):
    pairs, given = script["pairs_of"](results)
    rows = script["table"](pairs, given)
    assert rows["technique"].to_list() == ["STATIC", "FAC2"]
    assert rows["seeds"].to_list() == [2, 2]
    assert rows["weeks"].to_list() == [3, 3]  # of the log, although the load is 2.5 times as high
    runs = pl.read_parquet(results / "runs.parquet").with_columns(pl.col("seed", "rca").cast(pl.String))
    for row in rows.iter_rows(named=True):
        of = runs.filter(pl.col("technique") == row["technique"])
        for rca in ("off", "on"):
            means = of.filter(pl.col("rca") == rca)["wait_time.mean"]
            assert row[f"wait {rca} (s)"] == pytest.approx(means.mean())
        assert row["wait %"] == pytest.approx((row["wait on (s)"] / row["wait off (s)"] - 1) * 100)
        assert row["from"] <= row["wait %"] <= row["to"]
        given_back = of.filter(pl.col("rca") == "on")["coordination.released_node_seconds"].mean()
        assert row["given back (node-h)"] == pytest.approx(given_back / 3600)
        assert 0 < row["given back %"] < 100
    static = rows.row(0, named=True)
    assert static["wait %"] < 0  # nodes of unbalanced loops are given back, and jobs wait for them
    # Under the calibrated technique the schedule is the recorded one, whatever the seed.
    assert static["wait off (s)"] == pytest.approx(
        pairs[("kth", "0.5", "0.9", "STATIC")][0]["wait_time"].mean()
    )


def test_sizes_are_all_jobs_once(script, results):
    pairs, given = script["pairs_of"](results)
    sizes = script["by_size"](pairs)
    of = sizes.filter(pl.col("technique") == "STATIC")
    assert dict(zip(of["size"], of["jobs"], strict=True)) == dict.fromkeys(script["SIZES"], 15)
    total = script["table"](pairs, given).row(0, named=True)
    assert of["gain %"].mean() == pytest.approx(total["gain %"])
    assert of["wait on (s)"].mean() == pytest.approx(total["wait on (s)"])


def test_the_command_writes_tables_and_picture(script, results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["waits.py", str(results), "--out", str(tmp_path / "out")])
    script["main"]()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"waits.csv", "sizes.csv", "waits.png"}
    assert "STATIC" in capsys.readouterr().out


def test_changes_are_of_sums_and_blocks_keep_weeks_together(script):
    # Single weeks have opposite changes, so that the interval is wide; in blocks of two it is a point.
    jobs = pl.DataFrame(
        {"week": [0, 1, 2, 3], "wait_time": [100.0, 100.0, 100.0, 100.0], "wait_time_on": [0.0, 100.0] * 2}
    )
    assert script["change"](jobs, "wait_time") == -50.0
    low, high = script["interval"](jobs, "wait_time")
    assert (low, high) == (-100.0, 0.0)
    assert script["interval"](jobs, "wait_time", 2) == pytest.approx((-50.0, -50.0))


def test_unpaired_and_missing_runs_are_told(script, tmp_path):
    with pytest.raises(InputError, match="no store of a study"):
        script["pairs_of"](tmp_path)
    entry = {
        "status": "done",
        "labels": {"variation": "0.5", "seed": "1", "load": "0.8", "technique": "AF", "rca": "off"},
    }
    store = tmp_path / "store"
    (store / "ab").mkdir(parents=True)
    (store / "store.json").write_text('{"name": "rca-waits-kth"}')
    (store / "ab" / "c.json").write_text("checksum\n" + json.dumps(entry))
    with pytest.raises(InputError, match="no two runs that differ in RCA alone"):
        script["pairs_of"](tmp_path)
    (store / "ab" / "d.json").write_text("checksum\n" + json.dumps(entry))
    with pytest.raises(InputError, match=r"two runs of kth, 0\.5, 0\.8, AF, 1, off"):
        script["pairs_of"](tmp_path)
