"""Files of LB4OMP's loop times: what its source prints is read; the jobs are the loops of the program."""

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario import from_mapping
from mlsim.workload.lb4omp_times import read_lb4omp
from mlsim.workload.log_formats import format_of

PLACE = ";/home/u/app/solve.c;solve;42;9;;"


def printed(
    place, iterations, seconds, schedule, chunk, finish, chunks=(), occurrence=1, commas=True, named=True
):
    """Return lines as print_loop_timer of kmp_dispatch.cpp writes them: since 2021 with commas."""
    lines = []
    for thread, time in finish:
        if commas:
            lines.append(
                f"LoopOccurrence:{occurrence},Location:{place},#iterations:{iterations},"
                f"threadID:{thread},threadTime:{time:g}"
            )
        else:
            lines.append(
                f"LoopOccurrence: {occurrence} Location: {place} #iterations {iterations} "
                f"threadID: {thread} threadTime: {time:g}"
            )
    if commas:
        text = f"Location:{place},#iterations:{iterations},LoopTime:{seconds:g}"
        lines.append(text + f",Schedule:{schedule},Chunk:{chunk}" * named)
    else:
        text = f"Location: {place} #iterations {iterations} LoopTime: {seconds:g}"
        lines.append(text + f" Schedule: {schedule} Chunk: {chunk}" * named)
    for lower, upper, thread in chunks:
        size = upper - lower + 1
        if commas:
            lines.append(f"chunkLocation: {place},lower: {lower},upper:{upper},chunksize:{size},tid:{thread}")
        else:
            lines.append(f"chunkLocation: {place} lower {lower} upper {upper} chunksize {size} tid {thread}")
    return lines


def file_of(tmp_path, *parts):
    path = tmp_path / "times.txt"
    path.write_text("\n".join(line for part in parts for line in part) + "\n")
    return path


def read(path):
    notes = Counter()
    return read_lb4omp(path, notes), notes


@pytest.mark.parametrize("commas", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_threads_chunks_and_technique(tmp_path, commas, named):
    finish = [(1, 0.5), (0, 1.5)]
    chunks = [(0, 2, 0), (3, 4, 1), (5, 5, 0)]
    path = file_of(tmp_path, printed(PLACE, 6, 1.5, "FAC2", 1, finish, chunks, commas=commas, named=named))
    (loop,), notes = read(path)
    assert (loop.name, loop.threads, loop.iterations, loop.seconds) == ("solve.c:42", 2, 6, 1.5)
    assert loop.technique == ("FAC2" if named else "")
    np.testing.assert_allclose(loop.costs, [0.375, 0.375, 0.375, 0.25, 0.25, 0.375])
    assert not notes


def test_the_first_release_wrote_no_threads(tmp_path):
    path = file_of(tmp_path, ["Location: ;a.c;f;3;1;; #iterations 8 LoopTime: 2.5e-05"])
    with pytest.raises(InputError, match=r"times\.txt:1: has no line of a thread"):
        read(path)
    path = file_of(
        tmp_path,
        ["Location: ;a.c;f;3;1;; #iterations 8 LoopTime: 2.5e-05"],
        ["chunkLocation: ;a.c;f;3;1;; lower 0 upper 7 chunksize 8 tid 3"],
    )
    (loop,), _ = read(path)
    assert (loop.threads, loop.seconds, loop.costs) == (4, 2.5e-5, None)


@pytest.mark.parametrize(
    "chunks",
    [
        [(0, 2, 0), (4, 5, 1), (6, 6, 0)],  # iteration 3 is missing
        [(0, 2, 0), (2, 5, 1)],  # iteration 2 is there twice
        [(0, 2, 0), (0, 2, 1)],
        [(0, 2, 0), (3, 5, 2)],  # thread 2 has no time
        [],
    ],
)
def test_chunks_that_are_not_all_iterations_once_give_no_costs(tmp_path, chunks):
    (loop,), _ = read(file_of(tmp_path, printed(PLACE, 6, 1.5, "FAC2", 1, [(0, 1), (1, 1)], chunks)))
    assert (loop.costs, loop.iterations) == (None, 6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(1, 3),
    st.integers(-5, 5),
    st.randoms(use_true_random=False),
)
def test_costs_add_up_to_the_times_of_threads(tmp_path_factory, sizes, stride, first, random):
    chunks, at, per_thread = [], first, dict.fromkeys(range(4), 0)
    for size, thread in sizes:
        chunks.append((at, at + (size - 1) * stride, thread))
        per_thread[thread] += size
        at += size * stride
    finish = {thread: random.uniform(0.5, 2.0) for thread in range(4)}
    shuffled = random.sample(chunks, len(chunks))
    path = file_of(
        tmp_path_factory.mktemp("lb4omp"),
        printed(PLACE, at - stride + 1, max(finish.values()), "AF", 1, finish.items(), shuffled),
    )
    (loop,), _ = read(path)
    if stride > 1 and len(chunks) == 1 and sizes[0][0] > 1:  # the stride shows between chunks only
        assert loop.iterations == chunks[0][1] - chunks[0][0] + 1
        return
    assert loop.iterations == sum(size for size, _ in sizes) == len(loop.costs)
    owner = np.repeat([thread for _, thread in sizes], [size for size, _ in sizes])
    for thread, n in per_thread.items():
        if n:
            assert loop.costs[owner == thread].sum() == pytest.approx(float(f"{finish[thread]:g}"))


@pytest.mark.parametrize(
    ("schedule", "chunk", "technique"),
    [
        *[(name, 1, name) for name in ("SS", "GSS", "TSS", "FSC", "TAP", "FAC", "WF", "BOLD", "AWF")],
        *[(name, 1, name) for name in ("AWF-B", "AWF-C", "AWF-D", "AWF-E", "AF", "mAF")],
        *[("mFAC", 1, "FAC"), ("mFac2", 1, "FAC2")],
        *[("static_greedy", 1, "STATIC"), ("static_balanced", 1, "STATIC")],
        *[("STATIC", 1, "CYCLIC"), ("STATIC", 2, ""), ("STATIC", 4, "STATIC")],
        *[("Static Steal", 1, ""), ("Auto(LLVM)", 1, ""), ("Profiling", 1, ""), ("", 1, "")],
    ],
)
def test_names_of_schedules(tmp_path, schedule, chunk, technique):
    (loop,), notes = read(file_of(tmp_path, printed(PLACE, 8, 1, schedule, chunk, [(0, 1), (1, 1)])))
    assert loop.technique == technique
    unknown = f"executions_of_schedule_{schedule.replace(' ', '_')}"
    assert notes == ({unknown: 1} if schedule and not technique else {})


def test_a_least_chunk_has_no_column_and_is_counted(tmp_path):
    (loop,), notes = read(file_of(tmp_path, printed(PLACE, 8, 1, "GSS", 3, [(0, 1)])))
    assert (loop.technique, notes) == ("GSS", {"executions_with_a_least_chunk": 1})


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["LoopOccurrence:1,Location:a,#iterations:3,threadID:0,threadTime:1"], "has no LoopTime"),
        ([*printed(PLACE, 3, 1, "SS", 1, [(0, 1)]), "Segmentation fault"], ":3: no line of LB4OMP"),
        (["Location:a,#iterations:3,LoopTime:nan,Schedule:SS,Chunk:1"], ":1: no line of LB4OMP"),
        (["Location:a,#iterations:x,LoopTime:1,Schedule:SS,Chunk:1"], ":1: no line of LB4OMP"),
        (["Location: ;a.c;f;1;1;; mean: 3 sigma: 1 iterations: 4"], ":1: no line of LB4OMP"),  # profiles
        (["chunkLocation: a,lower: 0,upper:1,chunksize:2,tid:0"], ":1: no line of LB4OMP"),
        (printed("a", 3, 1, "SS", 1, [(0, 1)], [(0, 10**30, 0)]), ":3: no line of LB4OMP"),
        (
            [*printed("a", 3, 1, "SS", 1, [(0, 1)]), "chunkLocation: b,lower: 0,upper:1,chunksize:2,tid:0"],
            ":3: no line of LB4OMP",
        ),
        (printed("a", 0, 1, "SS", 1, [(0, 1)]), ":2: a loop of 0 iterations"),
        (printed("a", 3, 1, "SS", 1, [(0, 1)], [(0, 10**15, 0)]), ":2: the costs of iterations would take"),
    ],
)
def test_what_is_no_such_file(tmp_path, lines, told):
    with pytest.raises(InputError, match=told):
        read(file_of(tmp_path, lines))


def test_a_program_that_was_ended_in_a_loop(tmp_path):
    unfinished = printed(PLACE, 3, 1, "SS", 1, [(0, 1)])[:1]
    loops, notes = read(file_of(tmp_path, printed(PLACE, 3, 1, "SS", 1, [(0, 1)]), unfinished))
    assert (len(loops), notes) == (1, {"unfinished_executions": 1})


def convert(*words):
    done = CliRunner().invoke(app, ["workload", "convert", *map(str, words)])
    return done.exit_code, done.output + str(done.exception or "")


def test_loops_become_jobs_and_executions_their_time_steps(tmp_path):
    other = ";b.c;g;7;1;;"
    path = file_of(
        tmp_path,
        printed(PLACE, 4, 2.0, "STATIC", 2, [(0, 2.0), (1, 1.0)], [(0, 1, 0), (2, 3, 1)]),
        printed(other, 9, 0.5, "AF", 1, [(0, 0.5), (1, 0.25)]),
        printed(other, 9, 1.0, "AF", 1, [(0, 1.0)]),
        printed(PLACE, 4, 3.0, "STATIC", 2, [(1, 3.0), (0, 1.0)], [(2, 3, 1), (0, 1, 0)]),
    )
    code, text = convert(path, tmp_path / "program")
    assert code == 0, text
    assert "program: 3 jobs, lb4omp to run, executions 4, without_costs 2" in text
    jobs = pl.read_parquet(tmp_path / "program" / "jobs.parquet")
    expected = {
        "job_id": [1, 2, 3],
        "submit_time": [0.0, 2.0, 2.5],
        "run_time": [5.0, 0.5, 1.0],
        "walltime": [10.0, 1.0, 2.0],
        "processors": [2, 2, 1],
        "executable": ["solve.c:42", "b.c:7", "b.c:7"],
        "technique": ["STATIC", "AF", "AF"],
        "steps": [2, 1, 1],
        "iterations": [4, 9, 9],
    }
    assert jobs.drop("costs").to_dict(as_series=False) == expected
    np.testing.assert_allclose(
        np.load(tmp_path / "program" / jobs["costs"][0]), [0.75, 0.75, 1.0, 1.0]
    )  # means of (1, 1, 0.5, 0.5) and (0.5, 0.5, 1.5, 1.5)
    code, text = convert(path, tmp_path / "again", "--from", "lb4omp", "--json")
    assert json.loads(text)["notes"] == {"executions": 4, "without_costs": 2}
    assert (tmp_path / "again" / "jobs.parquet").read_bytes() == (
        tmp_path / "program" / "jobs.parquet"
    ).read_bytes()


def test_measured_loops_are_simulated_as_they_ran(tmp_path):
    step = printed(PLACE, 4, 2.0, "static_greedy", 1, [(0, 2.0), (1, 1.0)], [(0, 1, 0), (2, 3, 1)])
    assert convert(file_of(tmp_path, step, step), tmp_path / "program")[0] == 0
    file = tmp_path / "program" / "jobs.parquet"
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 2, "speed": 1e9}], "reference_speed": 1e9},
        "workload": {"path": "program", "mapping": "core"},
        "applications": {"measured": {"model": "loop", "technique": "SS"}},
    }
    for seconds in (4.0, 3.0):  # that of the program; SS: 1, 1, then 0.5 on each thread
        jobs = mlsim.run(from_mapping(scenario, directory=tmp_path)).records.jobs
        assert jobs.end_time[0] - jobs.start_time[0] == pytest.approx(seconds)
        pl.read_parquet(file).drop("technique", strict=False).write_parquet(file)


def test_such_files_become_directories_only_and_are_no_logs(tmp_path):
    path = file_of(tmp_path, printed(PLACE, 4, 2.0, "SS", 1, [(0, 2.0)]))
    for words in ((tmp_path / "a.csv",), (tmp_path / "a", "--clean"), (tmp_path / "a", "--first", "1")):
        code, text = convert(path, *words)
        assert code != 0
        assert "become a workload directory" in text
    with pytest.raises(InputError, match="mlsim workload convert"):
        format_of(path)
    (tmp_path / "there").mkdir()
    code, text = convert(path, tmp_path / "there")
    assert code != 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["there", "times.txt"]
