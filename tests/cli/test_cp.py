"""``mlsim cp`` as a user sees it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl

RIGID = """\
name: rigid
platform:
  nodes:
    - {name: n, count: 4, cores: 4}
workload: {path: small.csv, mapping: packed}
batch: {dispatcher: hcp19, on_overrun: extend}
"""


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
    (small / "bad.jsonl").write_text('{"now": 1}\n')
    for arguments, words in (
        (("dump", "small.yaml", "-o", "x.jsonl"), "queue makes no instances; allowed: cp, hcp19"),
        (("replay", "no.jsonl", "-d", "cp"), "no.jsonl: cannot be read"),
        (("replay", "bad.jsonl", "-d", "cp"), "bad.jsonl, line 1: no 'resources'"),
        (("replay", "bad.jsonl", "-d", "best"), "--dispatcher best: allowed: cp, hcp19"),
        (("replay", "bad.jsonl", "-d", "cp", "--set", "jobs=0"), "--set jobs: 0 is too small"),
    ):
        done = mlsim("cp", *arguments)
        assert (done.code, words in done.err) == (2, True), done.err
    assert not (small / "x.jsonl").exists()
