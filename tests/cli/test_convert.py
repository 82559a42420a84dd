"""``mlsim workload convert``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlsim.cli.main import app
from mlsim.errors import MlsimError
from tests.cli.conftest import Ended


@pytest.fixture
def convert(small: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """Run the command in the small scenario's directory, in this process."""
    monkeypatch.chdir(small)

    def run(*arguments: str) -> Ended:
        code, message = 0, ""
        try:
            app(["workload", "convert", *arguments], standalone_mode=False)
        except MlsimError as error:
            code, message = error.exit_code, str(error)
        return Ended(code, capsys.readouterr().out, message)

    return run


def test_formats_by_suffix_or_option(convert, small):
    assert convert("small.csv", "a.json.gz").out == "a.json.gz: 4 jobs, csv to batsim\n"
    assert convert("a.json.gz", "a.parquet").out == "a.parquet: 4 jobs, batsim to parquet\n"
    assert convert("a.parquet", "a.txt", "--to", "CSV").code == 0
    assert (small / "a.txt").read_text() == (small / "small.csv").read_text()
    assert [path.name for path in small.iterdir() if path.name.startswith(".")] == []


def test_a_part(convert, small):
    done = convert("small.csv", "b.csv", "--window", "1:3", "--first", "1", "--json")
    assert json.loads(done.out) == {
        "read": "csv",
        "written": "csv",
        "jobs": 1,
        "left_out": [],
        "notes": {},
        "file": "b.csv",
    }
    assert (small / "b.csv").read_text().splitlines()[1] == "2,0,50,60,4"
    assert convert("small.csv", "c.csv", "--scale-load", "2", "--warm-up", "1 s", "--weeks", "1").code == 0
    assert [line.split(",")[1] for line in (small / "c.csv").read_text().splitlines()[1:]] == [
        "0",
        "0.5",
        "1",
    ]


def test_batsim_amounts_take_rates(convert, small):
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 6e9, "com": 0}}
    jobs = [{"id": 1, "subtime": 0, "res": 2, "profile": "p"}]
    (small / "w.json").write_text(json.dumps({"jobs": jobs, "profiles": profiles}))
    assert "give --speed and --bandwidth" in convert("w.json", "w.csv").err
    assert "--bandwidth: missing" in convert("w.json", "w.csv", "--speed", "3 GFLOP/s").err
    rates = ("--speed", "3 GFLOP/s", "--bandwidth", "10 Gbit/s")
    assert convert("w.json", "w.csv", *rates).code == 0
    assert (small / "w.csv").read_text().splitlines()[1] == "1,0,2,-1,2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("small.csv", "x.txt"), "x.txt: its suffix names no format; give --to"),
        (("small.csv", "x.csv", "--to", "xml"), "--to xml; allowed: swf, csv, parquet, batsim"),
        (("small.csv", "x.csv", "--from", "xml"), "--from: 'xml' is not known"),
        (("small.csv", "small.csv"), "small.csv: already exists"),
        (("none.csv", "x.csv"), "none.csv: there is no such file"),
        (("small.csv", "x.csv", "--weeks", "0"), "--weeks: '0' names no weeks"),
        (("small.csv", "x.csv", "--window", "5"), "--window 5; allowed: START:END"),
        (("small.csv", "x.csv", "--window", "5:2"), "--window: end: is not after start"),
        (("small.csv", "x.csv", "--dates", "2002-08-01"), "--dates 2002-08-01; allowed: START/END"),
        (("small.csv", "x.csv", "--dates", "2002-08-01/"), "has no UnixStartTime"),
        (("small.csv", "x.csv", "--user", "zoe"), "there is no user 'zoe'; it has numbers only"),
        (("small.csv", "x.csv", "--speed", "3 s", "--bandwidth", "1 bit/s"), "--speed: '3 s' is a time"),
    ],
)
def test_what_cannot_be_is_refused(convert, small, arguments, message):
    before = {path.name for path in small.iterdir()}
    done = convert(*arguments)
    assert done.code == 2
    assert message in done.err
    assert {path.name for path in small.iterdir()} == before
