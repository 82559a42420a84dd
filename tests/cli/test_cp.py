"""``mlsim cp`` as a user sees it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from mlsim.cli.cp import replay
from mlsim.errors import InputError

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
    ):
        with pytest.raises(InputError, match=words):
            replay(small / path, names, set_)
