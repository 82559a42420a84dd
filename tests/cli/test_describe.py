"""``mlsim workload describe`` as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def logs(mlsim, small: Path) -> Path:
    for name, seed in (("one.swf", "1"), ("two.csv", "2")):
        done = mlsim("workload", "generate", "lublin", "--jobs", "700", "--seed", seed, "-o", name)
        assert done.code == 0, done.err
    return small


@pytest.mark.slow
def test_text_json_and_pictures(mlsim, logs: Path):
    done = mlsim("workload", "describe", "one.swf", "two.csv", "--picture", "both.svg")
    assert (done.code, done.err) == (0, "")
    assert "one.swf" in done.out
    assert "offered load" in done.out
    again = mlsim("workload", "describe", "one.swf", "two.csv", "--picture", "again.svg", "--json")
    told = json.loads(again.out)
    assert [each["jobs"] for each in told] == [700, 700]
    assert sum(told[0]["arrivals"]["by_hour"]) == 700
    assert (logs / "both.svg").read_bytes() == (logs / "again.svg").read_bytes()
    more = mlsim("workload", "describe", "one.swf", "--months", "--lags", "3", "--picture", "lags.svg")
    assert (more.code, more.err) == (0, "")
    rows = more.out.partition("\none.swf lacks, for")[0].splitlines()
    month = next(row for row in rows if row.startswith("1970-01")).split()
    assert int(month[1]) == told[0]["months"][0]["jobs"]
    # Generated jobs have no users.
    assert [row.split() for row in rows[-3:]] == [[lag, "-", "-", "-"] for lag in "123"]
    for suffix, head in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert mlsim("workload", "describe", "one.swf", "--picture", f"one.{suffix}").code == 0
        assert (logs / f"one.{suffix}").read_bytes().startswith(head)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("gone.swf",), "gone.swf"),
        (("one.swf", "--picture", "a.gif"), "--picture a.gif; allowed: a name that ends in .png, .pdf, .svg"),
        (("one.swf", "--picture", "one.png"), "one.png: already exists"),
        (("one.swf", "--from", "excel"), "--from excel; allowed: auto,"),
    ],
)
def test_mistakes(mlsim, logs: Path, options: tuple[str, ...], words: str):
    (logs / "one.png").write_text("mine")
    done = mlsim("workload", "describe", *options)
    assert done.code == 2
    assert words in done.err
    assert (logs / "one.png").read_text() == "mine"
