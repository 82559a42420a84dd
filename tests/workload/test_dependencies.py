"""Dependencies of jobs: read, resolved, refused, converted, and in whole runs."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.errors import InputError
from mlsim.record.parquet_tables import read_tables
from mlsim.scenario import WorkloadConfig
from mlsim.workload.derived_logs import convert
from mlsim.workload.log_formats import format_of_name
from mlsim.workload.log_source import open_workload
from mlsim.workload.workload_dependencies import (
    LogDependencies,
    dependencies_of,
    join_dependencies,
    parse_dependencies,
    with_preceding_jobs,
)

HEAD = "job_id,submit_time,run_time,walltime,processors,user,dependencies\n"


def csv(tmp_path, *rows, name="log.csv"):
    path = tmp_path / name
    path.write_text(HEAD + "".join(f"{row}\n" for row in rows))
    return path


def opened(path, **config):
    return open_workload(WorkloadConfig(path="x", dependencies=True, **config), path, 8)


def edges(path, lenient=False, **config):
    found = dependencies_of(opened(path, lenient=lenient, **config), path, lenient=lenient)
    columns = (found.job, found.predecessor, found.completed, found.think)
    return list(zip(*(column.tolist() for column in columns), strict=True)), found.notes


def test_cells_are_in_the_form_of_slurm():
    after, fits = parse_dependencies(
        ["afterok:1:2,afterany:3+1.5min", None, " afterany:7 ; afterok:8+2h ", ""]
    )
    assert fits.all()
    assert after.row.tolist() == [0, 0, 0, 2, 2]
    assert after.job.tolist() == [1, 2, 3, 7, 8]
    assert after.completed.tolist() == [True, True, False, False, True]
    assert after.think.tolist() == [0, 0, 90, 0, 7200]
    assert after.cells() == ["afterok:1,afterok:2,afterany:3+90s", "", "afterany:7,afterok:8+7200s", ""]


@pytest.mark.parametrize(
    "cell",
    ["12", "afterok", "afterok:", "afternotok:1", "after:1", "singleton", "afterok:1?afterany:2", "afterok:x"]
    + ["afterok:1,", "afterok:1+60", "afterok:-1", "AFTEROK:1", "afterok:1+1e3s", "afterok:1+s"],
)
def test_other_cells_are_broken(cell):
    assert not parse_dependencies([cell])[1][0]


EDGES = st.lists(
    st.tuples(st.integers(0, 50), st.booleans(), st.sampled_from([0.0, 0.5, 60.0, 1e-7])), max_size=3
)


@given(st.lists(EDGES, max_size=6), st.data())
def test_cells_blocks_and_rows_read_back(jobs, data):
    rows = [(row, *edge) for row, edges_ in enumerate(jobs) for edge in edges_]
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    kinds = (np.int64, np.int64, np.bool_, np.float64)
    after = LogDependencies(len(jobs), *(np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)))
    again, fits = parse_dependencies(after.cells())
    assert fits.all()
    for name in ("row", "job", "completed", "think"):
        assert getattr(again, name).tolist() == getattr(after, name).tolist()
    order = data.draw(st.permutations(range(len(jobs))))
    chosen = np.array(order[: data.draw(st.integers(0, len(jobs)))], np.int64)
    assert after.select(chosen).cells() == [after.cells()[row] for row in chosen]
    cut = data.draw(st.integers(0, len(jobs)))
    halves = [after.select(slice(0, cut)), None, after.select(slice(cut, None))]
    assert join_dependencies(halves, [cut, 2, len(jobs) - cut]).cells() == [
        *after.cells()[:cut],
        "",
        "",
        *after.cells()[cut:],
    ]


def test_preceding_jobs_and_further_ones_come_together():
    more, _ = parse_dependencies(["afterok:9", "", "afterany:8"])
    after = with_preceding_jobs(np.array([3.0, 0.0, -1.0]), np.array([-1.0, 5.0, 5.0]), more)
    assert after.cells() == ["afterany:3,afterok:9", "", "afterany:8"]


@st.composite
def logs(draw):
    """Identifiers, also several alike, in order of submission, and what each waits for: any of them."""
    n = draw(st.integers(1, 7))
    ids = draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    after = [draw(st.lists(st.sampled_from(ids), max_size=2)) for _ in ids]
    return ids, after


@settings(deadline=None, max_examples=80)
@given(logs())
def test_identifiers_are_resolved_as_the_obvious_says(tmp_path_factory, log):
    ids, after = log
    rows = [
        f"{id_},{place},1,1,1,1,{';'.join(f'afterany:{other}' for other in others)}"
        for place, (id_, others) in enumerate(zip(ids, after, strict=True))
    ]
    path = csv(tmp_path_factory.mktemp("log"), *rows)
    wanted = []
    for place, others in enumerate(after):
        for other in others:
            before = [k for k in range(place) if ids[k] == other]
            behind = [k for k in range(place + 1, len(ids)) if ids[k] == other]
            if before or behind:
                wanted.append((place, before[-1] if before else behind[0], False, 0.0))
    n_itself = sum(map(len, after)) - len(wanted)
    reach = {k: {p for job, p, *_ in wanted if job == k} for k in range(len(ids))}
    for _ in ids:
        reach = {k: found.union(*(reach[p] for p in found)) for k, found in reach.items()}
    circular = any(k in found for k, found in reach.items())
    if n_itself or circular:
        with pytest.raises(InputError, match=r"waits? for|a circle"):
            edges(path)
        kept, notes = edges(path, lenient=True)
        assert notes["broken_dependencies"] == len(wanted) + n_itself - len(kept)
        assert set(kept) <= set(wanted)
    else:
        kept, notes = edges(path)
        assert sorted(kept) == sorted(wanted)
        assert not notes
    assert kept == sorted(kept, key=lambda edge: (edge[1], edge[0]))


def test_what_can_never_hold_is_named_or_left_out_and_counted(tmp_path):
    cases = {
        "job 2 waits for itself": ("1,0,1,1,1,1,", "2,0,1,1,1,1,afterok:2"),
        "job 2 waits for job 77, which the log does not have": ("1,0,1,1,1,1,", "2,0,1,1,1,1,afterok:77"),
        "a circle, in which no job can ever start": ("1,0,1,1,1,1,afterok:2", "2,0,1,1,1,1,afterok:1"),
    }
    for words, rows in cases.items():
        path = csv(tmp_path, *rows)
        with pytest.raises(InputError, match=words) as caught:
            edges(path)
        assert str(path) in str(caught.value)
        assert "workload.lenient" in str(caught.value)
        assert edges(path, lenient=True)[1] == {"broken_dependencies": 1}


def test_a_broken_cell_is_named_with_its_line_or_skipped(tmp_path):
    path = csv(tmp_path, "1,0,1,1,1,1,", "2,0,1,1,1,1,afternotok:1")
    with pytest.raises(
        InputError, match=r"log.csv:3: broken line: dependencies is 'afternotok:1'; expected nothing"
    ):
        opened(path)
    assert opened(path, lenient=True).n_jobs == 1


def test_jobs_that_are_not_simulated_hold_nobody_back(tmp_path):
    path = csv(tmp_path, "1,0,1,1,1,1,", "2,0,-1,1,1,1,", "3,1,1,1,1,2,afterok:1:2", "4,1,1,1,1,2,afterok:3")
    assert edges(path) == ([(1, 0, True, 0.0), (2, 1, True, 0.0)], {"dependencies_outside": 1})
    assert edges(path, select={"user": 2}) == ([(1, 0, True, 0.0)], {"dependencies_outside": 2})
    assert edges(path, select={"window": {"start": 1, "end": 9}}) == (
        [(1, 0, True, 0.0)],
        {"dependencies_outside": 2},
    )


def test_a_long_log_is_resolved_as_a_short_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    lines = []
    for job in range(1, 400):
        preceding = int(rng.integers(1, job)) if job > 1 and rng.random() < 0.5 else -1
        lines.append(
            f"{job} {job // 3} -1 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 {preceding} {int(rng.integers(-1, 30))}"
        )
    path = tmp_path / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    short, _ = edges(path)
    monkeypatch.setattr("mlsim.workload.log_source.HELD_JOBS", 50)
    monkeypatch.setattr("mlsim.workload.log_source.LOOK_AHEAD", 20)
    monkeypatch.setattr("mlsim.workload.swf_log.BLOCK_JOBS", 64)
    assert edges(path)[0] == short
    assert len(short) > 150
    assert all(think >= 0 for *_, think in short)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json", "swf"])
@pytest.mark.parametrize("cleaned", [False, True])
def test_conversion_keeps_preceding_jobs_and_dependencies(tmp_path, suffix, cleaned):
    swf = tmp_path / "log.swf"
    swf.write_text("".join(f"{k} {k} -1 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 {k - 1} {k}.5\n" for k in (1, 2, 3)))
    target = tmp_path / f"out.{suffix}"
    config = WorkloadConfig(path="x")
    done = convert(config, swf, target, format_of_name(target), as_simulated=cleaned)
    assert not {"preceding_job", "think_time"} & set(done.left_out)
    assert edges(target)[0] == edges(swf)[0] == [(1, 0, False, 2.5), (2, 1, False, 3.5)]
    source = csv(tmp_path, "1,0,1,1,1,1,", "2,0,1,1,1,1,", "3,1,1,1,1,1,afterok:1:2+5s")
    done = convert(config, source, target, format_of_name(target), as_simulated=cleaned)
    assert ("dependencies" in done.left_out) == (suffix == "swf")
    if suffix != "swf":
        assert edges(target)[0] == edges(source)[0] == [(2, 0, True, 0.0), (2, 1, True, 5.0)]


def scenario(tmp_path, log, **workload):
    path = tmp_path / "s.yaml"
    path.write_text(
        json.dumps(
            {
                "platform": {"nodes": [{"name": "n", "count": 2, "cores": 1}]},
                "workload": {"path": str(log), "mapping": "node", **workload},
                "application": {"model": "rigid"},
            }
        )
    )
    return path


ROWS = (
    "1,0,10,20,1,1,",
    "2,1,30,20,1,1,",
    "3,2,3,3,1,1,afterany:1+5s",
    "4,3,1,1,1,1,afterok:2",
    "5,4,1,1,2,1,",
)


def test_a_run_waits_for_dependencies_only_if_it_is_told_to(tmp_path):
    log = csv(tmp_path, *ROWS)
    off = mlsim.run(scenario(tmp_path, log))
    assert "eligible_time" not in off.jobs.columns
    assert "dependencies" not in off.summary
    on = mlsim.run(scenario(tmp_path, log, dependencies=True), out=tmp_path / "run")
    assert on.jobs["eligible_time"].to_list() == [0, 1, 15, None, 4]
    assert on.jobs["submit_time"].to_list() == [0, 1, 2, 3, 4]
    assert on.jobs["start_time"].to_list() == [0, 1, 22, None, 21]
    assert on.jobs["wait_time"].to_list() == [0, 0, 7, None, 17]
    assert on.jobs["reason"].to_list()[3] == "depends on a job that did not complete"
    held = on.summary["dependencies"]
    assert (held["held"], held["never"], held["held_time"]["mean"]) == (1, 1, 13.0)
    assert on.summary["wait_time"]["max"] == 17
    assert on.summary["queue_length"]["max"] == 2
    back = read_tables(tmp_path / "run").jobs
    assert np.array_equal(back.eligible_time, on.records.jobs.eligible_time, equal_nan=True)
    assert pl.read_parquet(tmp_path / "run" / "jobs.parquet")["eligible_time"].dtype == pl.Float64


def test_feedback_moves_submissions_both_ways(tmp_path):
    log = tmp_path / "log.swf"
    tail = "1 -1 -1 1 20 -1 1 1 1 1 1 1"
    log.write_text(f"1 0 -1 10 {tail} -1 -1\n2 5 -1 10 {tail} 1 2\n3 90 -1 10 {tail} 2 3\n")
    bound = mlsim.run(scenario(tmp_path, log, dependencies=True))
    assert bound.jobs["eligible_time"].to_list() == [0, 12, 90]
    free = mlsim.run(scenario(tmp_path, log, dependencies=True, feedback=True))
    assert free.jobs["eligible_time"].to_list() == [0, 12, 25]
    assert free.summary["dependencies"]["held_time"]["max"] == 7
    with pytest.raises(InputError, match=r"workload.feedback: .*needs dependencies: on"):
        mlsim.run(scenario(tmp_path, log, feedback=True))


def test_replay_refuses_dependencies_and_auto_passes_it_over(tmp_path):
    path = scenario(tmp_path, csv(tmp_path, *ROWS), dependencies=True)
    assert mlsim.run(path).summary["self"]["engine"] == "simpy"
    with pytest.raises(InputError, match=r"workload\.dependencies"):
        mlsim.run(path, overrides={"batch.engine": "replay"})
