"""mlsim as a library: what a run takes, data frames of other libraries, notebooks."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import polars as pl
import pytest

import mlsim
from mlsim.experiment import compare, loop_from_mapping, run_loop
from mlsim.experiment.result import to_pandas
from mlsim.record.table_files import FILES

JOBS = pl.DataFrame(
    {
        "job_id": [1, 2, 3],
        "submit_time": [0, 5, 5],
        "run_time": [60, 10, 7],
        "walltime": [60, 10, 20],
        "processors": [2, 1, 1],
        "user": ["ann", None, "bob"],
    }
)
MACHINE = {"platform": {"nodes": [{"name": "n", "count": 2, "cores": 1}]}, "output": {"pictures": False}}
WAITS = [0.0, 55.0, 55.0]


def pandas_jobs():
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra pandas is not installed")
    return pandas.DataFrame(JOBS.to_dict(as_series=False))


def waits(result: mlsim.Result) -> list[float]:
    return result.jobs["wait_time"].to_list()


def test_a_mapping_is_run_as_the_file_that_it_is_shaped_like(tmp_path: Path):
    JOBS.drop("user").write_csv(tmp_path / "jobs.csv")
    scenario = {**MACHINE, "workload": {"path": tmp_path / "jobs.csv", "mapping": "core"}}
    result = mlsim.run(scenario, {"batch.policy": "SPF"})
    assert waits(result) == WAITS
    assert result.scenario.batch.policy == "SPF"


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas"])
def test_jobs_may_be_a_table(kind: str):
    table = {"polars": lambda: JOBS, "lazy": JOBS.lazy, "pandas": pandas_jobs}[kind]()
    result = mlsim.run(MACHINE, workload=table)
    assert waits(result) == WAITS
    assert result.jobs["user_name"].to_list() == ["ann", None, "bob"]


def test_a_table_stands_for_the_section_or_for_its_path_or_for_a_scenarios_log(tmp_path: Path):
    assert waits(mlsim.run({**MACHINE, "workload": JOBS})) == WAITS
    in_path = {**MACHINE, "workload": {"path": JOBS, "select": {"first": 2}}}
    assert waits(mlsim.run(in_path)) == WAITS[:2]
    (tmp_path / "scenario.yaml").write_text(
        "platform: {nodes: [{name: n, count: 2, cores: 1}]}\nworkload: {path: nowhere.swf, format: swf}\n"
    )
    file = tmp_path / "scenario.yaml"
    assert waits(mlsim.run(str(file), workload=JOBS)) == WAITS
    assert waits(mlsim.run(mlsim.load(file), workload=JOBS)) == WAITS


def test_a_run_of_a_table_keeps_it_and_can_be_run_again(tmp_path: Path):
    result = mlsim.run({**MACHINE, "workload": JOBS}, out=str(tmp_path / "run"))
    assert pl.read_parquet(tmp_path / "run" / "workload.parquet").equals(JOBS)
    assert "path: workload.parquet" in (tmp_path / "run" / "scenario.yaml").read_text()
    again = mlsim.run(tmp_path / "run" / "scenario.yaml")
    assert again.jobs.equals(result.jobs)
    assert mlsim.compare(tmp_path / "run", again).differences == {}


def test_the_file_behind_a_table_goes_with_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = mlsim.run({**MACHINE, "workload": JOBS})
    assert os.listdir(tmp_path)
    del result
    gc.collect()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([1, 2], "found list; allowed: a data frame of polars or pandas"),
        (JOBS.head(0), "the table has no rows"),
        (JOBS.drop("run_time"), "column run_time is missing"),
        (JOBS.with_columns(run_time=pl.lit(-5)), "row 1: run_time"),
    ],
)
def test_what_is_no_table_of_jobs_is_refused(table, message: str):
    with pytest.raises(mlsim.InputError, match=message):
        mlsim.run(MACHINE, workload=table)


def test_one_workload_is_given_once_and_overrides_go_with_what_is_not_loaded():
    with pytest.raises(mlsim.InputError, match="given twice"):
        mlsim.run({**MACHINE, "workload": JOBS}, workload=JOBS)
    loaded = mlsim.run({**MACHINE, "workload": JOBS}).scenario
    with pytest.raises(mlsim.InputError, match="already loaded"):
        mlsim.run(loaded, {"batch.policy": "SPF"}, workload=JOBS)
    assert waits(mlsim.run(loaded)) == WAITS


def test_every_table_is_a_property_and_a_frame_of_pandas():
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra pandas is not installed")
    result = mlsim.run(MACHINE, workload=JOBS)
    for name in FILES:
        assert getattr(result, name).equals(result.table(name))
        frame = result.to_pandas(name)
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame.columns) == result.table(name).columns
    jobs = result.to_pandas()
    assert jobs["user_name"].tolist()[0] == "ann"
    assert jobs["wait_time"].tolist() == WAITS


def test_whole_numbers_stay_whole_in_pandas():
    pytest.importorskip("pandas", reason="the extra pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra pandas is not installed")
    frame = to_pandas(pl.DataFrame({"node": [1, None, 2**60 + 1]}))
    assert str(frame["node"].dtype) == "Int64"
    assert frame["node"][2] == 2**60 + 1


def test_without_the_extra_a_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(mlsim.InputError, match=r"pip install 'mlsim\[pandas\]'"):
        mlsim.run(MACHINE, workload=JOBS).to_pandas()


def test_notebooks_show_runs_comparisons_and_loops():
    first, second = (mlsim.run(MACHINE, {"batch.policy": p}, workload=JOBS) for p in ("FCFS", "SPF"))
    html = first._repr_html_()
    assert "makespan" in html
    assert 'src="data:image/png;base64,iVBOR' in html
    html = compare(first, second)._repr_html_()
    assert "batch.policy" in html
    assert "mean wait" in html or "wait time" in html
    loop = loop_from_mapping(
        {
            "platform": {"nodes": [{"name": "n", "count": 2, "cores": 2}]},
            "application": {"costs": {"profile": "constant", "mean": "1 ms"}, "iterations": {"count": 10}},
        }
    )
    assert "STATIC" in run_loop(loop)._repr_html_()


def test_a_run_without_jobs_that_ran_shows_no_picture():
    large = JOBS.with_columns(processors=pl.lit(5))
    assert "<img" not in mlsim.run(MACHINE, workload=large)._repr_html_()


def test_dir_lists_what_the_package_gives():
    names = dir(mlsim)
    assert set(mlsim.__all__) <= set(names)
    assert "late" not in names


@pytest.mark.slow
def test_two_runs_in_one_process_write_a_scenario_each(tmp_path: Path):
    scenario = mlsim.run({**MACHINE, "workload": JOBS}).scenario
    other = scenario.model_copy(update={"name": "other"})
    for name, given in (("a", scenario), ("b", other), ("c", scenario)):
        mlsim.run(given, out=tmp_path / name)
    texts = {name: (tmp_path / name / "scenario.yaml").read_text() for name in "abc"}
    assert texts["a"] == texts["c"]
    assert "name: other" in texts["b"]
    assert (tmp_path / "b" / "workload.parquet").exists()
