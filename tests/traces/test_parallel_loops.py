"""Parallel loops of OpenMP programs in OTF2 traces, defined and recorded as Score-P and lo2s do.

Sources: Score-P, src/adapters/ompt/scorep_ompt_regions.inc.c and scorep_ompt_events_host.inc.c (the barrier
follows the loop), src/adapters/opari2 (the barrier is inside of it); lo2s, src/trace/trace.cpp
(cctx_for_openmp) and src/monitor/openmp_monitor.cpp.
"""

from collections import Counter
from contextlib import contextmanager

import numpy as np
import otf2
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otf2 import Paradigm, RegionRole
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario import from_mapping
from mlsim.traces.parallel_loops import read_trace

TICKS = 1_000_000  # per second


class Program:
    """A trace that is written: processes with threads, and regions as a tool defines them."""

    def __init__(self, writer, processes, threads, title="MPI Rank {}"):
        self.writer, self.defined = writer, writer.definitions
        tree = self.defined.system_tree_node("machine", parent=None)
        self.threads = []
        for rank in range(processes):
            parent = self.defined.system_tree_node(f"node {rank}", parent=tree)
            group = self.defined.location_group(title.format(rank), system_tree_parent=parent)
            for thread in range(threads):
                name = f"OMP thread {thread}" if thread else "Master thread"
                location = self.defined.location(name, group=group)
                self.threads.append(writer.event_writer_from_location(location))

    def omp(self, kind, role, place="main.c:42", paradigm=Paradigm.OPENMP):
        name = f"!$omp {kind} @{place}"
        return self.defined.region(name, canonical_name=name, region_role=role, paradigm=paradigm)

    def loop(self, place="main.c:42", kind="for/do"):
        return self.omp(kind, RegionRole.LOOP, place)

    def barrier(self):
        return self.omp("implicit barrier", RegionRole.IMPLICIT_BARRIER)


@contextmanager
def program(path, processes=1, threads=2, **title):
    with otf2.writer.open(str(path), timer_resolution=TICKS) as writer:
        yield Program(writer, processes, threads, **title)


def at(seconds):
    return round((seconds + 1.0) * TICKS)


def stay(thread, region, enter, leave, inside=()):
    """Record a stay in a region; ``inside``: stays within it."""
    thread.enter(at(enter), region)
    for region_inside, first, last in inside:
        stay(thread, region_inside, first, last)
    thread.leave(at(leave), region)


def read(path):
    notes = Counter()
    return read_trace(path, notes), notes


def facts(loops):
    return [(x.name, x.process, x.threads, round(x.start, 6), round(x.seconds, 6)) for x in loops]


@pytest.mark.parametrize("opari", [True, False])
def test_loops_of_scorep_with_the_barrier_inside_or_behind(tmp_path, opari):
    with program(tmp_path / "t") as trace:
        parallel = trace.omp("parallel", RegionRole.PARALLEL)
        loop, barrier = trace.loop(kind="for" if opari else "for/do"), trace.barrier()
        for thread, busy in zip(trace.threads, (0.5, 2.0), strict=True):
            thread.enter(at(1.0), parallel)
            if opari:
                stay(thread, loop, 1.0, 3.5, [(barrier, 1.0 + busy, 3.5)])
            else:
                stay(thread, loop, 1.0, 1.0 + busy)
                stay(thread, barrier, 1.0 + busy, 3.5)
            thread.leave(at(3.5), parallel)
    (loop,), notes = read(tmp_path / "t")
    start = loop.start
    assert facts([loop]) == [("main.c:42", "MPI Rank 0", 2, round(start, 6), 2.0)]
    np.testing.assert_allclose(loop.costs, [0.5, 2.0])
    assert not notes


def test_processes_places_and_executions(tmp_path):
    with program(tmp_path / "t", processes=2, threads=2) as trace:
        loops = {place: trace.loop(place) for place in ("a.c:1", "b.c:2")}
        for rank in range(2):
            for thread, writer in enumerate(trace.threads[2 * rank : 2 * rank + 2]):
                for step in range(3):
                    begin = 10.0 * step + rank
                    stay(writer, loops["a.c:1"], begin, begin + 1.0 + thread)
                    stay(writer, loops["b.c:2"], begin + 4.0, begin + 4.5)
    loops, notes = read(tmp_path / "t" / "traces.otf2")
    zero = loops[0].start
    assert not notes
    assert [(x.name, x.process, x.threads, round(x.start - zero, 6), x.seconds) for x in loops] == [
        (place, f"MPI Rank {rank}", 2, begin, pytest.approx(seconds))
        for step in range(3)
        for begin, place, rank, seconds in (
            (10.0 * step, "a.c:1", 0, 2.0),
            (10.0 * step + 1, "a.c:1", 1, 2.0),
            (10.0 * step + 4, "b.c:2", 0, 0.5),
            (10.0 * step + 5, "b.c:2", 1, 0.5),
        )
    ]


def test_nowait_and_teams_of_several_sizes(tmp_path):
    with program(tmp_path / "nowait") as trace:
        loop = trace.loop()
        first, second = trace.threads
        for step in range(3):  # thread 0 is in its third execution before thread 1 is in its first
            stay(first, loop, float(step), step + 1.0)
            stay(second, loop, 10.0 + 2 * step, 12.0 + 2 * step)
    loops, notes = read(tmp_path / "nowait")
    assert [loop.costs.tolist() for loop in loops] == [pytest.approx([1.0, 2.0])] * 3
    assert not notes
    with program(tmp_path / "teams", threads=3) as trace:
        loop = trace.loop()
        for begin, team in ((0.0, 3), (5.0, 1), (6.0, 2), (9.0, 3)):
            for thread in trace.threads[:team]:
                stay(thread, loop, begin, begin + 1.0)
    loops, notes = read(tmp_path / "teams")
    assert [loop.threads for loop in loops] == [3, 1, 2, 3]
    assert notes == {"loops_of_teams_of_several_sizes": 1}


def test_tasks_that_overlap_and_processes_of_one_name(tmp_path):
    with program(tmp_path / "t", processes=2, threads=1, title="Process") as trace:
        loop, barrier = trace.loop(kind="for"), trace.barrier()
        tasks = [trace.omp("task", RegionRole.TASK, f"main.c:{line}") for line in (5, 6)]
        for rank, thread in enumerate(trace.threads):
            thread.leave(at(-0.5), tasks[0])  # of a task that began on another thread
            thread.enter(at(0), loop)
            thread.enter(at(1 + rank), barrier)
            thread.enter(at(2 + rank), tasks[0])
            thread.enter(at(3 + rank), tasks[1])
            thread.leave(at(4 + rank), tasks[0])
            thread.leave(at(5 + rank), barrier)
            thread.leave(at(6 + rank), tasks[1])
            thread.leave(at(7 + rank), loop)
    loops, _ = read(tmp_path / "t")
    assert [(loop.process, loop.threads, loop.costs.tolist()) for loop in loops] == [
        ("Process (0)", 1, pytest.approx([3.0])),
        ("Process (1)", 1, pytest.approx([4.0])),
    ]


def test_what_is_no_loop_is_left_out(tmp_path):
    with program(tmp_path / "t", threads=1) as trace:
        (thread,) = trace.threads
        tasks = trace.loop("main.c:7", "taskloop")
        users = trace.omp("loop", RegionRole.LOOP, paradigm=Paradigm.USER)
        sections = trace.omp("sections", RegionRole.SECTIONS)
        schedule = trace.defined.parameter("schedule", parameter_type=otf2.ParameterType.STRING)
        for k, region in enumerate((tasks, users, sections)):
            stay(thread, region, k, k + 0.5)
        for k, kind in enumerate(("static", "dynamic", "implementation specific")):
            thread.enter(at(5 + k), trace.loop())
            thread.parameter_string(at(5 + k), schedule, kind)
            thread.leave(at(5.5 + k), trace.loop())
        thread.enter(at(9), trace.loop("b.c:1"))  # the program was ended in it
    loops, notes = read(tmp_path / "t")
    assert [loop.name for loop in loops] == ["main.c:42"] * 3
    assert notes == {
        "task_loops_left_out": 1,
        "stays_of_threads_in_dynamic_loops": 1,
        "stays_of_threads_in_implementation_specific_loops": 1,
        "loops_never_left": 1,
    }


def test_loops_of_lo2s(tmp_path):
    with program(tmp_path / "t") as trace:
        plain = {"region_role": RegionRole.FUNCTION, "paradigm": Paradigm.SAMPLING}

        def region(name, file, line):
            return trace.defined.region(
                name, canonical_name=name, source_file=file, begin_line_number=line, **plain
            )

        regions = [
            trace.defined.region("prog (4711)", region_role=RegionRole.FUNCTION, paradigm=Paradigm.USER),
            region("ompt::loop solve", "/home/u/solve.c", 42),
            region("ompt::loop", "<unknown file>", 1),
            region("ompt::sync solve", "/home/u/solve.c", 42),
        ]
        root = trace.defined.calling_context(regions[0], parent=None)
        contexts = [trace.defined.calling_context(each, parent=root) for each in regions[1:]]
        for thread, busy in zip(trace.threads, (1.0, 0.25), strict=True):
            thread.calling_context_enter(at(0), root, 2)
            for begin, context in ((0.0, contexts[0]), (2.0, contexts[1])):
                thread.calling_context_enter(at(begin), context, 2)
                thread.calling_context_leave(at(begin + busy), context)
                thread.calling_context_enter(at(begin + busy), contexts[2], 2)
                thread.calling_context_leave(at(begin + 1.5), contexts[2])
            thread.calling_context_leave(at(4), root)
    loops, notes = read(tmp_path / "t")
    assert [loop.name for loop in loops] == ["solve solve.c:42", "<unknown file>:1"]
    for loop in loops:
        assert loop.costs.tolist() == pytest.approx([1.0, 0.25])
        assert loop.seconds == pytest.approx(1.0)
    assert not notes


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.integers(1, 50), min_size=4, max_size=4)),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_any_loops_come_back(tmp_path_factory, threads, drawn, opari):
    path = tmp_path_factory.mktemp("loops") / "t"
    expected, begin = [], 0.0
    with program(path, threads=threads) as trace:
        regions, barrier = [trace.loop(f"a.c:{k}") for k in range(3)], trace.barrier()
        for which, busy in drawn:
            end = begin + max(busy[:threads]) / 10
            for thread, tenths in zip(trace.threads, busy, strict=False):
                done = begin + tenths / 10
                if opari:
                    stay(thread, regions[which], begin, end, [(barrier, done, end)])
                else:
                    stay(thread, regions[which], begin, done)
                    stay(thread, barrier, done, end)
            expected.append((f"a.c:{which}", [tenths / 10 for tenths in busy[:threads]]))
            begin = end
    loops, notes = read(path)
    assert [(loop.name, loop.costs.round(4).tolist()) for loop in loops] == expected
    assert not notes


def convert(*words):
    done = CliRunner().invoke(app, ["workload", "convert", *map(str, words)])
    return done.exit_code, done.output + str(done.exception or "")


def test_a_trace_becomes_a_workload_that_is_simulated_as_it_ran(tmp_path):
    with program(tmp_path / "t", processes=2, threads=2) as trace:
        regions = [trace.loop("a.c:1"), trace.loop("b.c:2")]
        for rank in range(2):
            for thread, writer in enumerate(trace.threads[2 * rank : 2 * rank + 2]):
                for step in range(3):
                    stay(writer, regions[0], 4 * step, 4 * step + 1 + thread + rank)
                stay(writer, regions[1], 20.0, 21.0)
    code, text = convert(tmp_path / "t", tmp_path / "program")
    assert code == 0, text
    assert "program: 4 jobs, otf2 to run, executions 8, without_technique 4" in text
    jobs = pl.read_parquet(tmp_path / "program" / "jobs.parquet")
    assert jobs["group"].to_list() == ["MPI Rank 0", "MPI Rank 1"] * 2
    assert jobs["executable"].to_list() == ["a.c:1"] * 2 + ["b.c:2"] * 2
    assert jobs["steps"].to_list() == [3, 3, 1, 1]
    assert jobs["run_time"].to_list() == pytest.approx([6.0, 9.0, 1.0, 1.0])
    assert len(list((tmp_path / "program" / "costs").iterdir())) == len(set(jobs["costs"])) == 3
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 2, "speed": 1e9}], "reference_speed": 1e9},
        "workload": {"path": "program", "mapping": "core"},
        "applications": {"measured": {"model": "loop"}},
    }
    result = mlsim.run(from_mapping(scenario, directory=tmp_path)).records.jobs
    np.testing.assert_allclose(result.end_time - result.start_time, jobs["run_time"].to_numpy(), atol=1e-5)


def test_traces_without_loops_and_those_of_mlsim_are_refused(tmp_path):
    with program(tmp_path / "t", threads=1) as trace:
        stay(trace.threads[0], trace.omp("parallel", RegionRole.PARALLEL), 0, 1)
    with pytest.raises(InputError, match=r"traces\.otf2: has no parallel loop"):
        read(tmp_path / "t")
    (tmp_path / "log.csv").write_text("job_id,submit_time,run_time,walltime,processors\n1,0,10,20,2\n")
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 2}]},
        "workload": {"path": "log.csv", "mapping": "core"},
        "application": {"model": "loop"},
        "output": {"trace": "chunks"},
    }
    mlsim.run(from_mapping(scenario, directory=tmp_path), out=tmp_path / "run")
    with pytest.raises(InputError, match="If mlsim wrote the trace, name the run"):
        read(tmp_path / "run" / "trace")
    (tmp_path / "empty").mkdir()
    code, text = convert(tmp_path / "empty", tmp_path / "out")
    assert code != 0
    assert "has no OTF2 trace" in text
    assert not (tmp_path / "out").exists()
