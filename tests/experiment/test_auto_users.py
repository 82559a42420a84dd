"""The study of techniques by code: its files check, and a small log in place of CTC-SP2 gives its tables."""

from __future__ import annotations

import gzip
import json
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from mlsim.scenario.scenario_text import parse_value_text

STUDY = Path(__file__).parents[2] / "scenarios" / "studies" / "auto-users"
LOG = "CTC-SP2-1996-3.1-cln.swf.gz"
HOUR = 3_600


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(STUDY / "gains.py"), run_name="gains")


@pytest.fixture(scope="module")
def reader():
    return runpy.run_path(str(STUDY / "codes.py"), run_name="codes")


def write_log(path: Path) -> None:
    """Write 72 jobs that queue, for three weeks: of eight executables and six users, of three sizes."""
    lines = ["; MaxProcs: 338"]
    for job in range(72):
        size, length = (40, 120, 250)[job % 3], 20_000 + 700 * (job % 17)
        fields = [job + 1, job * 7 * HOUR, 0, length, size, -1, -1, size, 2 * length, -1, 1, 1 + job % 6, 1]
        lines.append(" ".join(map(str, [*fields, 5 + job % 8, 1, 1, -1, -1])))
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Run the study on the small log, with two seeds and without two methods and a share."""
    place = tmp_path_factory.mktemp("auto-users")
    write_log(place / LOG)
    for name in ("codes.yaml", "codes.py"):
        shutil.copy(STUDY / name, place)
    content = parse_value_text((STUDY / "study.yaml").read_text(), "study.yaml")
    content["vary"] |= {"seeds": 2, "method": {"exhaustive": {}, "rl": {}}}
    del content["vary"]["share"]["0.1"]
    fixed = {"technique": ["recorded", "GSS", "FAC2", "AF", "SS"]}
    content["without"] = [fixed | {"method": "rl"}, fixed | {"share": 0.5}, {"method": "rl", "share": 0.5}]
    (place / "study.yaml").write_text(json.dumps(content))
    run_study(load_study(place), out=place / "results", jobs=1)
    content = parse_value_text((STUDY / "rca.yaml").read_text(), "rca.yaml")
    content["vary"] |= {"seeds": 1}
    content["without"] = [{"technique": ["STATIC", "auto"]}, {"method": "exhaustive"}]
    (place / "rca.yaml").write_text(json.dumps(content))
    run_study(load_study(place / "rca.yaml"), out=place / "rca", jobs=1)
    return place / "results"


@pytest.fixture(scope="module")
def cells(script, results):
    return script["Cells"](results, results.parent / "rca")


def test_the_rivals_of_each_seed():
    labels = [point.labels for point, _ in load_study(STUDY / "study.yaml").cases]
    first = [of for of in labels if of["seed"] == "1"]
    assert len(first) == 5 + 4 + 2
    assert len(labels) == 3 * len(first)
    assert {of["method"] for of in labels if of["technique"] != "auto"} == {"exhaustive"}
    assert len(load_study(STUDY / "rca.yaml").cases) == 3 * 4
    assert len(load_study(STUDY / "portfolio.yaml").cases) == 6


def test_kinds_are_of_codes_and_do_not_depend_on_other_codes(reader):
    codes = np.repeat(np.arange(40), 3)
    times = np.tile([10.0, 100.0, 9_999.0], 40)  # median 100 s: class 1
    kinds = reader["kinds_of"](codes, times, 1)
    assert all(len(set(kinds[codes == code])) == 1 for code in range(40))
    assert set(kinds) == {"noisy", "sloped", "steady-1", "fine-1"}
    some = codes % 2 == 0
    assert reader["kinds_of"](codes[some], times[some], 1).tolist() == kinds[some].tolist()
    assert reader["kinds_of"](codes, times, 2).tolist() != kinds.tolist()


def test_users_of_a_smaller_share_switch_in_a_larger_one(reader):
    users = np.arange(400)
    tenth, half = (reader["switching"](users, share, 1) for share in (0.1, 0.5))
    assert 20 < tenth.sum() < 60
    assert 160 < half.sum() < 240
    assert not (tenth & ~half).any()
    assert reader["switching"](users, 1.0, 1).all()


def test_the_reader_keeps_jobs_that_ran_and_who_does_not_switch_is_rigid(reader, tmp_path):
    write_log(tmp_path / LOG)
    text = gzip.decompress((tmp_path / LOG).read_bytes()).decode()
    (tmp_path / "log.swf").write_text(text.replace("\n3 ", "\n3 50400 0 -1 ; ", 1).replace(" ; ", " "))
    assert reader["read"](tmp_path / LOG).height == 72
    jobs = reader["read"](tmp_path / LOG, technique="SS", share=0.5)
    rigid = jobs["application"] == "rigid"
    assert (jobs["technique"].is_null() == rigid).all()
    assert 0 < rigid.sum() < 72
    assert jobs.filter(~rigid)["technique"].unique().to_list() == ["SS"]
    assert (reader["read"](tmp_path / LOG, technique="recorded")["application"] == "rigid").all()


@pytest.mark.slow
def test_recorded_is_the_log_and_a_replay_is_the_run(cells, script, results):
    runs = script["runs_of"](results)
    recorded = pl.read_parquet(runs[1, "STATIC", "1"] / "jobs.parquet")
    assert (recorded["run_time"] == recorded["log_run_time"]).all()
    # Loops under a fixed technique are rigid jobs of their run times, as the script assumes.
    for name in ("FAC2", "SS"):
        run = cells.of[name, "1"][1]
        again = script["replay"](runs[1, "STATIC", "1"], recorded, run["run"].to_numpy())
        assert again["wait"].to_list() == run["wait"].to_list()
        assert (run["run"] != run["run_base"]).any()


@pytest.mark.slow
def test_rivals_and_the_best_of_each_code(cells, script):
    rows = {row["rival"]: row for row in script["rivals_table"](cells).iter_rows(named=True)}
    fixed = script["FIXED"]
    assert list(rows) == [*fixed, "auto, exhaustive", "auto, rl", "best of each code", "FAC2, RCA"]
    assert rows.pop("FAC2, RCA")["seeds"] == 1
    (rca,) = script["with_rca"](cells).iter_rows(named=True)
    waits = [cells.of[name, "1"][1]["wait"].mean() for name in ("FAC2", "FAC2, RCA")]
    assert [rca["off (s)"], rca["on (s)"]] == pytest.approx(waits)
    assert rca["wait %"] == pytest.approx((waits[1] / waits[0] - 1) * 100)
    assert rca["wait %"] < 0.0  # nodes come back early
    assert rows["STATIC"]["run %"] == rows["STATIC"]["wait %"] == 0.0
    best = rows["best of each code"]["run %"]
    assert best <= min(rows[name]["run %"] for name in fixed)
    assert best < 0.0
    assert all(
        row["seeds"] == 2 and row["run from"] <= row["run %"] <= row["run to"] for row in rows.values()
    )
    name = min(fixed, key=lambda one: rows[one]["run %"])
    assert cells.best_fixed() == name
    assert rows[name][f"run % against {name}"] == 0.0


@pytest.mark.slow
def test_groups_have_all_jobs_once(cells, script):
    rows = script["by_executions"](cells)
    assert rows.filter(pl.col("rival") == "FAC2")["jobs"].sum() == pytest.approx(72)
    orders = script["learning"](cells).filter(pl.col("rival") == "auto, exhaustive")
    assert dict(zip(orders["execution"], orders["jobs"], strict=True)) == {
        "1st": 8,
        "2nd": 8,
        "3rd, 4th": 16,
        "5th to 16th": 40,
    }


@pytest.mark.slow
def test_who_stays_keeps_the_recorded_run_time(cells, script):
    rows = script["switched"](cells)
    assert set(rows.select("rival", "share").rows()) == {
        (rival, share) for rival in ("FAC2", "auto, exhaustive") for share in ("0.5", "1")
    }
    rows = rows.filter(pl.col("share") == "0.5")
    stay = rows.filter(pl.col("users") == "stay")
    assert stay["run %"].to_list() == [0.0, 0.0]
    assert (rows.filter(pl.col("users") == "switch")["run %"] < 0.0).all()
    assert rows.group_by("rival").agg(pl.col("node-h of all %").sum())["node-h of all %"].to_list() == (
        pytest.approx([100.0, 100.0])
    )


@pytest.mark.slow
def test_held_out_rows_are_of_the_second_half(cells, script):
    rows = {row["rival"]: row for row in script["held_out"](cells).iter_rows(named=True)}
    name = script["FIRST_HALF"]
    fixed = rows[name]["against"]
    if ", " not in fixed:
        assert rows[fixed]["run %"] == 0.0
    assert rows["best of each code"]["run %"] <= rows[name]["run %"]
    assert rows[name]["seeds"] == 2


@pytest.mark.slow
def test_the_command_writes_tables_and_picture(script, results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["gains.py", str(results), str(results.parent / "rca"), "--out", str(tmp_path / "out")]
    )
    script["main"]()
    tables = ("rivals", "executions", "learning", "switch", "held-out", "rca")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(f"{name}.csv" for name in tables),
        "gains.png",
    }
    assert "best of each code" in capsys.readouterr().out


def test_best_by_code_on_numbers(script):
    codes = np.array([7, 7, 8, 8, 9])
    times = {"STATIC": np.array([5.0, 5, 5, 5, 5]), "SS": np.array([1.0, 8, 6, 6, 5])}
    best = script["best_by_code"]
    assert best(codes, times) == ["SS", "SS", "STATIC", "STATIC", "STATIC"]
    early = np.array([True, False, True, False, False])
    assert best(codes, times, early, "SS") == ["SS", "SS", "STATIC", "STATIC", "SS"]
    assert script["chosen_times"](["SS", "STATIC", "SS", "STATIC", "SS"], times).tolist() == [1, 5, 6, 5, 5]


def test_changes_are_of_sums_and_seeds_of_a_week_stay_together(script):
    jobs = pl.DataFrame(
        {"week": [0, 0, 1, 1], "seed": [1, 2, 1, 2], "run": [0.0, 10.0, 20.0, 0.0], "run_base": [10.0] * 4}
    )
    # Weeks change by -50 and 0 %, their seeds by -100 to +100 %.
    assert script["change"](jobs, "run") == (-25.0, -50.0, 0.0)
    assert np.isnan(script["change"](jobs.filter(pl.col("week") == 0), "run")[1:]).all()


def test_rivals_are_named_by_their_labels(script, tmp_path):
    (tmp_path / "store" / "ab").mkdir(parents=True)
    (tmp_path / "store" / "store.json").write_text("{}")
    common = {"seed": "2", "technique": "auto", "method": "rl", "share": "1"}
    for name, more in (
        ("a", {}),
        ("b", {"rca": "on"}),
        ("c", {"portfolio": "without AF"}),
        ("d", {"technique": "recorded"}),
    ):
        content = {"status": "done", "labels": common | more}
        (tmp_path / "store" / "ab" / f"{name}.json").write_text("sum\n" + json.dumps(content))
    content = {"status": "failed", "labels": common | {"method": "expert"}}
    (tmp_path / "store" / "ab" / "e.json").write_text("sum\n" + json.dumps(content))
    assert list(script["runs_of"](tmp_path)) == [
        (2, "auto, rl", "1"),
        (2, "auto, rl, RCA", "1"),
        (2, "auto, rl, without AF", "1"),
        (2, "STATIC", "1"),
    ]


def test_missing_runs_and_two_versions_are_told(script, tmp_path):
    with pytest.raises(InputError, match="no store of a study"):
        script["Cells"](tmp_path)
    labels = {"seed": "1", "technique": "FAC2", "method": "exhaustive", "share": "1"}
    store = tmp_path / "store"
    (store / "ab").mkdir(parents=True)
    (store / "store.json").write_text("{}")
    for name in ("c", "d"):
        (store / "ab" / f"{name}.json").write_text("sum\n" + json.dumps({"status": "done", "labels": labels}))
        match = "no run of technique recorded" if name == "c" else "two runs of seed 1, FAC2, share 1"
        with pytest.raises(InputError, match=match):
            script["Cells"](tmp_path)
