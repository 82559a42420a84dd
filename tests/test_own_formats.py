"""Readers, writers and columns of the user's own: through the command line, as a user would."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.errors import InputError, OutputError
from mlsim.experiment import run_directory
from mlsim.experiment.stored_runs import read_run
from mlsim.record.table_files import JOB_COLUMNS
from mlsim.scenario import from_mapping
from mlsim.scenario.scenario_paths import PLUGIN_KEYS
from mlsim.workload import user_workloads

CODE = """\
import pathlib
pathlib.Path(__file__).with_suffix(".executed").touch()
import numpy as np
import polars as pl
from mlsim.batch.view import Start

def read(path, separator="|"):
    rows = [line.split(separator) for line in path.read_text().splitlines()]
    columns = ("job_id", "submit_time", "run_time", "processors")
    table = {name: [int(row[place]) for row in rows] for place, name in enumerate(columns)}
    return table | {"walltime": [2 * seconds for seconds in table["run_time"]], "colour": ["red"] * len(rows)}

class Reader:
    def __init__(self, separator):
        self.separator = separator
    def read(self, path):
        return pl.DataFrame(read(path, self.separator))

def no_table(path):
    return 3

def leaves(path):
    raise SystemExit(0)

def write(result, directory, name="ends"):
    text = "\\n".join(map(str, result.jobs["end_time"].to_list()))
    (directory / f"{name}.txt").write_text(text)

def failing(result, directory):
    (directory / "half.txt").write_text("half")
    raise SystemExit(0)

class ByDeadline:
    def key(self, now, jobs):
        deadline = jobs.columns["deadline"]
        assert deadline.dtype == np.float64 and not deadline.flags.writeable
        assert jobs.columns["priority"].dtype == np.int64
        assert set(jobs.columns["project"].tolist()) <= {"a", "b", None}
        return np.where(np.isnan(deadline), np.inf, deadline)

class Lacking:
    def key(self, now, jobs):
        return jobs.columns["dedline"]

class InView:
    def dispatch(self, view):
        for table in (view.waiting, view.running):
            assert (table.columns["priority"] == table.job_id * 10).all()
        if not len(view.running):
            yield Start(int(np.argmax(view.waiting.columns["priority"])))
"""
LOG = """\
job_id,submit_time,run_time,walltime,processors,deadline,priority,project
1,0,5,9,2,90,10,a
2,0,3,4,2,,20,
3,0,7,8,2,10.5,30,b
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "log.txt").write_text("1|0|5|2\n2|1|3|1\n")
    return tmp_path


def scenario(here: Path, **sections: object) -> Path:
    base = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 1}]},
        "workload": {"path": "log.csv", "mapping": "node"},
        "output": {"pictures": False},
    }
    for name, values in sections.items():
        assert isinstance(values, dict)
        base[name] = base.get(name, {}) | values
    (here / "s.yaml").write_text(json.dumps(base))
    return here / "s.yaml"


def called(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def ran(here: Path, **sections: object) -> Path:
    out = here / "out"
    called("run", scenario(here, **sections), "--out", out)
    return out


# Readers


@pytest.mark.parametrize(
    "reader",
    [
        "./mine.py:read",
        {"function": "./mine.py:read", "parameters": {"separator": "|"}},
        {"function": "./mine.py:Reader", "parameters": {"separator": "|"}},
    ],
)
def test_a_reader_of_ones_own(here: Path, reader: object) -> None:
    out = ran(here, workload={"path": "log.txt", "format": reader, "columns": ["colour"]})
    jobs = pl.read_parquet(out / "jobs.parquet")
    assert jobs["job_id"].to_list() == [1, 2]
    assert jobs["walltime"].to_list() == [10.0, 6.0]
    assert jobs["colour"].to_list() == ["red", "red"]


@pytest.mark.parametrize(
    ("reader", "told"),
    [
        ("./mine.py:nobody", "there is no class or function 'nobody'"),
        ({"function": "./mine.py:read", "parameters": {"seperator": ","}}, "did you mean 'separator'?"),
        ({"function": "./mine.py:Reader"}, "cannot be made: TypeError"),
        ("./mine.py:no_table", "gives int; allowed: a polars.DataFrame, or a mapping"),
        ("./mine.py:leaves", "cannot be read: SystemExit"),
        ({"function": "./mine.py:read", "parameters": {"separator": ";"}}, "cannot be read: ValueError"),
        ("./mine.py:ByDeadline", "has no method read; see docs/reference/workloads.md"),
        ("./elsewhere.py:read", "workload.format: there is no file"),
        ("swff", "did you mean 'swf'?"),
    ],
)
def test_readers_that_cannot_be_used(here: Path, reader: object, told: str) -> None:
    with pytest.raises(InputError) as caught:
        ran(here, workload={"path": "log.txt", "format": reader})
    assert told in str(caught.value)


def test_check_does_not_execute_readers_and_writers_unless_told(here: Path) -> None:
    executed = here / "mine.executed"
    file = scenario(
        here,
        workload={"path": "log.txt", "format": "./mine.py:read"},
        output={"writers": ["./mine.py:write"]},
    )
    assert "--plugins executes ./mine.py:read" in called("check", file)
    assert not executed.exists()
    assert "workload: 2 jobs" in called("check", file, "--plugins")
    assert executed.exists()
    executed.unlink()
    with pytest.raises(InputError, match=r"output\.writers\.0: .*there is no class or function 'wrte'"):
        called("check", scenario(here, output={"writers": ["./mine.py:wrte"]}))
    assert not executed.exists()


# Writers


def test_writers_of_ones_own(here: Path) -> None:
    named = {"function": "./mine.py:write", "parameters": {"name": "other"}}
    out = ran(here, output={"writers": ["./mine.py:write", named]})
    assert (out / "write/ends.txt").read_text().split() == ["5.0", "8.0", "15.0"]
    assert (out / "write-2/other.txt").is_file()
    called("check", out)
    assert read_run(out).summary["jobs"]["completed"] == 3
    again = here / "again"
    sets = (
        f"workload.path={here / 'log.csv'}",
        f"output.writers=[{here / 'mine.py'}:write]",
        "output.writers.0.parameters.name=x",
    )
    called("run", out / "scenario.yaml", "--out", again, *(word for each in sets for word in ("--set", each)))
    assert (again / "write/x.txt").is_file()


def test_a_writer_that_fails_leaves_all_the_rest(here: Path) -> None:
    with pytest.raises(OutputError, match=r"failing: cannot be written: .*SystemExit: 0.*All else is in"):
        ran(here, output={"writers": ["./mine.py:failing", "./mine.py:write"]})
    assert not (here / "out/failing").exists()
    assert (here / "out/write/ends.txt").is_file()
    assert (here / "out/jobs.parquet").is_file()


def test_writers_are_looked_for_before_anything_is_simulated(here: Path) -> None:
    with pytest.raises(InputError, match=r"output.writers.parameters.nam: is not known; did you mean 'name'"):
        ran(here, output={"writers": [{"function": "./mine.py:write", "parameters": {"nam": 1}}]})
    assert not (here / "out").exists()


# Installed ones


def test_installed_readers_and_writers_are_listed_with_what_keeps_them(monkeypatch, here: Path) -> None:
    def points(group: str) -> list[EntryPoint]:
        found = [("good", "tests.test_own_formats:offered"), ("bad", "tests.nowhere:read")]
        twice = [("twice", "tests.test_own_formats:offered"), ("twice", "tests.test_custom:other")]
        return [EntryPoint(name, value, group) for name, value in (*found, *twice)]

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("mlsim.plugins.entry_points", points)
    monkeypatch.setattr("importlib.metadata.entry_points", points)
    for family in (user_workloads.READERS, run_directory.WRITERS):
        from mlsim.plugins import installed_plugins

        trouble = {name: why for name, _, why in installed_plugins(family)}
        assert trouble["good"] == ""
        assert trouble["bad"].startswith("cannot be imported: ModuleNotFoundError")
        assert trouble["twice"].startswith("its name is there 2 times")
    out = ran(here, workload={"path": "log.txt", "format": "good"})
    assert pl.read_parquet(out / "jobs.parquet")["job_id"].to_list() == [7]
    for name, told in (("bad", "cannot be imported"), ("twice", "its name is there 2 times")):
        with pytest.raises(InputError, match=f"workload format {name}: {told}"):
            called("run", scenario(here, workload={"format": name}), "--out", here / "none")


def offered(path: Path) -> dict[str, list[int]]:
    """A reader that an installed package could offer."""
    return {"job_id": [7], "submit_time": [0], "run_time": [1], "walltime": [2], "processors": [1]}


@pytest.mark.parametrize("what", ["formats", "writers"])
def test_lists_show_how_to_write_ones_own(what: str) -> None:
    assert "./file.py:function" in called("list", what)


# Columns

OWN = {"columns": ["deadline", "priority", "project"]}


@pytest.mark.parametrize("engine", ["simpy", "replay"])
def test_columns_come_back_with_the_run(here: Path, engine: str) -> None:
    out = ran(here, workload=OWN, batch={"engine": engine})
    jobs = pl.read_parquet(out / "jobs.parquet")
    assert jobs.columns[-3:] == OWN["columns"]
    assert jobs["deadline"].to_list() == [90.0, None, 10.5]
    assert jobs["priority"].to_list() == [10, 20, 30]
    assert jobs["project"].to_list() == ["a", None, "b"]
    assert set(jobs.columns[:-3]) <= set(JOB_COLUMNS)
    own = read_run(out).records.own.of
    np.testing.assert_array_equal(own["deadline"], [90.0, np.nan, 10.5])
    assert own["priority"].dtype == np.int64
    assert own["project"].tolist() == ["a", None, "b"]


def test_columns_of_parquet_and_of_an_earlier_run(here: Path) -> None:
    first = pl.read_parquet(ran(here, workload=OWN) / "jobs.parquet")
    again = {**OWN, "path": "out/jobs.parquet"}
    called("run", scenario(here, workload=again), "--out", here / "second")
    second = pl.read_parquet(here / "second/jobs.parquet")
    assert second.select(OWN["columns"]).equals(first.select(OWN["columns"]))


def test_policies_and_dispatchers_see_them(here: Path) -> None:
    out = ran(here, workload=OWN, batch={"policy": "./mine.py:ByDeadline"})
    assert pl.read_parquet(out / "jobs.parquet")["start_time"].to_list() == [7.0, 12.0, 0.0]
    seen = scenario(here, workload={"columns": ["priority"]}, batch={"dispatcher": "./mine.py:InView"})
    called("run", seen, "--out", here / "view")
    assert pl.read_parquet(here / "view/jobs.parquet")["start_time"].to_list() == [10.0, 7.0, 0.0]


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"workload": {"columns": ["dedline"]}}, "no further column 'dedline'; did you mean 'deadline'?"),
        ({"workload": {"columns": ["user"]}}, "'user' is a column that jobs.parquet has of itself"),
        ({"workload": {"columns": []}}, "a list names no columns"),
        ({"workload": {"columns": ["a", "a"]}}, "'a' is there twice"),
        ({"workload": {"columns": [3]}}, "3 is no name of a column"),
        (
            {"workload": OWN, "batch": {"policy": "./mine.py:Lacking"}},
            "there is no column 'dedline'; add it to workload.columns, which names: deadline",
        ),
        ({"workload": {"path": "log.swf", "columns": ["x"]}}, "logs of format swf have no columns of one"),
    ],
)
def test_columns_that_are_not_there(here: Path, sections: dict[str, object], told: str) -> None:
    (here / "log.swf").write_text("1 0 -1 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n")
    with pytest.raises(InputError) as caught:
        ran(here, **sections)
    assert told in str(caught.value)


def test_selection_keeps_rows_together(here: Path) -> None:
    out = ran(here, workload={**OWN, "select": {"first": 2}})
    jobs = pl.read_parquet(out / "jobs.parquet")
    assert jobs["priority"].to_list() == (10 * jobs["job_id"]).to_list()
    assert jobs.height == 2


def test_nothing_new_stands_in_a_resolved_scenario_that_names_none(here: Path) -> None:
    assert PLUGIN_KEYS == ("dispatcher", "policy", "allocator", "data", "predictor")
    resolved = (ran(here) / "scenario.yaml").read_text()
    assert "columns" not in resolved
    assert "writers" not in resolved
    assert "data:" not in resolved
    one = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]},
        "workload": {"path": "a", "columns": "b"},
    }
    assert from_mapping(one).workload.columns == ("b",)
