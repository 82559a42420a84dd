"""``mlsim cp`` as a user sees it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from mlsim.cli.cp import ReplayOptions, replay
from mlsim.errors import InputError

RIGID = """\
name: rigid
platform:
  nodes:
    - {name: n, count: 4, cores: 4}
workload: {path: small.csv, mapping: packed}
batch: {dispatcher: hcp19, on_overrun: extend}
"""


@pytest.mark.slow
def test_dump_and_replay(mlsim, small: Path):
    (small / "rigid.yaml").write_text(RIGID)
    done = mlsim("cp", "dump", "rigid.yaml", "-o", "i.jsonl.gz")
    assert done.code == 0, done.err
    with gzip.open(small / "i.jsonl.gz", "rt") as file:
        instances = [json.loads(line) for line in file]
    assert done.out == f"i.jsonl.gz: {len(instances)} of {len(instances)} instances\n"
    assert instances[0]["queued"]["job_id"] == [1]
    again = mlsim("cp", "replay", "i.jsonl.gz", "-d", "pcp19", "-d", "pcp21", "-o", "solves.csv", "--json")
    assert again.code == 0, again.err
    first, second = json.loads(again.out)
    assert first["groups"]["G1"] == first["instances"] == len(instances)
    assert sum(second["groups"].values()) == len(instances)
    assert second["objective_ratio"] == 1.0
    solves = pl.read_csv(small / "solves.csv")
    assert solves.height == 2 * len(instances)
    assert {"variables", "branches", "status", "objective", "bound"} <= {*solves.columns}


def test_mistakes(mlsim, small: Path):
    done = mlsim("cp", "dump", "small.yaml", "-o", "x.jsonl")
    assert done.code == 2
    assert "queue makes no instances; allowed: cp, lists, hcp19" in done.err
    assert not (small / "x.jsonl").exists()
    (small / "bad.jsonl").write_text('{"now": 1}\n')
    for path, names, set_, words in (
        ("no.jsonl", ["cp"], None, "no.jsonl: there is no such file"),
        ("bad.jsonl", ["cp"], None, "bad.jsonl, line 1: no 'resources'"),
        ("bad.jsonl", ["best"], None, "--dispatcher best: allowed: cp, lists, hcp19"),
        ("bad.jsonl", ["cp"], ["jobs=0"], "--set jobs: 0 is too small"),
        ("bad.jsonl", ["pcp19"], ["patience=5"], "--set patience: read by cp, lists only"),
        ("bad.jsonl", ["lists"], ["time_limit=5"], "--set time_limit: read by cp, hcp19"),
        ("bad.jsonl", ["cp"], ["headroom=0.5"], "--set headroom: goes by what a dispatcher has learned"),
        ("bad.jsonl", ["pcp1"], ["default_ewt=5"], "--set default_ewt: instances have it"),
        ("bad.jsonl", ["hcp19", "cp"], ["goal=wait"], "--set goal: hcp19 does not read it, and only plans"),
        ("bad.jsonl", ["lists", "hcp19"], ["time_limit_max=0.1"], "--set time_limit_max: 0.1 s; allowed: "),
        ("bad.jsonl", ["hcp19"], ["time_limit=20"], "--set time_limit_max: missing, and 16 s with disp"),
    ):
        with pytest.raises(InputError, match=words):
            replay(ReplayOptions(file=small / path, dispatchers=names, set_=set_))


@pytest.mark.slow
def test_a_replay_goes_on_where_it_was_ended(mlsim, small: Path):
    """What is there is not done again; a damaged solve is."""
    (small / "rigid.yaml").write_text(RIGID)
    assert mlsim("cp", "dump", "rigid.yaml", "-o", "i.jsonl").code == 0
    lines = (small / "i.jsonl").read_text().splitlines(keepends=True)
    (small / "some.jsonl").write_text("".join(lines[:2]))
    (small / "bad.jsonl").write_text("".join([*lines[:2], "[]\n"]))

    def kept() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (small / "kept" / "store").glob("??/*.json")}

    names = ("-d", "hcp19", "-d", "pcp21", "-j", "1", "--json", "--store", "kept")
    ended = mlsim("cp", "replay", "bad.jsonl", *names)
    assert (ended.code, "line 3: not an instance" in ended.err) == (2, True), ended.err
    before = kept()
    assert len(before) == 4
    first = mlsim("cp", "replay", "some.jsonl", *names)
    assert (first.code, kept()) == (0, before), first.err  # times of solving among them
    entry = min(before)
    entry.write_bytes(before[entry][:-5])
    again = mlsim("cp", "replay", "some.jsonl", *names)
    assert "is damaged" in again.err
    after = kept()
    assert {path for path in before if after[path] != before[path]} == {entry}
    assert mlsim("cp", "replay", "i.jsonl", *names).code == 0
    assert len(kept()) == 2 * len(lines)
    refused = mlsim("cp", "replay", "some.jsonl", "-d", "hcp19", "--store", ".")
    assert (refused.code, "no store of a study" in refused.err) == (2, True), refused.err


@pytest.mark.slow
def test_processes_solve_as_one_does(mlsim, small: Path):
    (small / "rigid.yaml").write_text(RIGID)
    assert mlsim("cp", "dump", "rigid.yaml", "-o", "i.jsonl").code == 0
    for jobs in ("1", "2"):
        done = mlsim("cp", "replay", "i.jsonl", "-d", "hcp19", "-d", "pcp4", "-j", jobs, "-o", f"{jobs}.csv")
        assert done.code == 0, done.err
    one, two = (pl.read_csv(small / f"{jobs}.csv").drop("build_seconds", "solve_seconds") for jobs in "12")
    assert one.equals(two)
    (small / "bad.jsonl").write_text((small / "i.jsonl").read_text() + "[]\n")
    bad = mlsim("cp", "replay", "bad.jsonl", "-d", "hcp19", "-j", "2", "-o", "bad.csv")
    assert (bad.code, "not an instance" in bad.err) == (2, True), bad.err
    assert not (small / "bad.csv").exists()
