"""Every technique under every model, and what else can be done with loops; rank 0 prints `ok` in the end."""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import pytest
from mpi4py import MPI

from mlsim.application.techniques import sequence
from mlsim.errors import InputError
from mlsim.mpi import LoopScheduler
from mlsim.mpi.loop_context import Context, Window
from mlsim.mpi.rank_waiting import Patience
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.techniques import TECHNIQUES

WORLD = MPI.COMM_WORLD
GIVEN = {"sigma": ("sigma", 0.1), "mu": ("mu", 0.1), "overhead": ("h", 0.01)}
NEEDED = {name: dict(GIVEN[need.key] for need in entry.rule.needs) for name, entry in TECHNIQUES.items()}
FOLLOWING = [name for name, entry in TECHNIQUES.items() if entry.rule.follows_chunks]
MODELS = (
    ("cca", {}),
    ("dca", {}),
    ("hdca", {"ranks_per_node": 2}),
    ("hierarchical-master-worker", {"ranks_per_node": 2}),
)
DEDICATED = (
    ("cca", {"master": "dedicated", "service_order": "lowest-rank"}),
    ("hmw", {"ranks_per_node": 3, "master": "dedicated"}),
)
FEW = ("STATIC", "SS", "GSS", "FAC2", "AF", "AWF-B")


def once(comm, n, technique="GSS", model="dca", work=None, ready=None, **options):
    """Run a loop; check that every iteration was executed once, and what is reported."""
    hits = np.zeros(n, np.int64)
    with LoopScheduler(comm, n=n, technique=technique, model=model, **options) as loop:
        if ready is not None:
            ready()
        for start, size in loop:
            assert size >= 1
            assert 0 <= start <= start + size <= n
            hits[start : start + size] += 1
            if work is not None:
                work(start, size)
    report = loop.report()
    *total, executed, steps = summed(comm, [*hits, report.executed, report.chunks])
    assert set(total) <= {1}, (n, technique, model, options, total)
    assert executed == n
    check_report(comm, loop, n, steps)
    return loop


def summed(comm, numbers):
    """Add up whole numbers of all ranks, without taking the others' cores while waiting."""
    mine = np.array(numbers, np.int64)
    total = np.zeros_like(mine)
    Patience("auto", comm.size).until(comm.Iallreduce(mine, total).Test)
    return total.tolist()


def check_report(comm, loop, n, steps):
    report = loop.report()
    assert 0.0 <= report.busy <= report.told + 1e-3
    assert report.finish <= report.told + 1e-3
    if comm.rank == 0:
        whole = report.loop
        assert whole.steps == steps
        assert whole.t_loop == whole.finish.max()
        assert whole.executed == n
    else:
        assert report.loop is None


def every_technique():
    for model, options in MODELS:
        for technique in TECHNIQUES:
            if technique != "CYCLIC" or model in ("cca", "dca"):
                once(WORLD, 101, technique, model, **options, **NEEDED[technique])
    for model, options in DEDICATED:
        for technique in FEW:
            once(WORLD, 101, technique, model, **options)


def chunks_go_round_robin():
    """CYCLIC: chunk j is rank (j mod P)'s, of those that execute; a rank claims only its first one."""
    for model, options in (*MODELS[:2], *DEDICATED[:1], ("cca", {"request_ahead": 2})):
        for n in (0, 2, 101):
            loop = once(WORLD, n, "CYCLIC", model, min_chunk=3, record=True, **options)
            if WORLD.rank > 0:
                continue
            base = 1 if "master" in options and WORLD.size > 1 else 0
            chunks = loop.records.chunks
            order = np.argsort(chunks.step)
            steps = -(-n // 3)
            assert chunks.step[order].tolist() == list(range(steps))
            assert chunks.first[order].tolist() == list(range(0, n, 3))
            assert chunks.pe[order].tolist() == [base + j % (WORLD.size - base) for j in range(steps)]
            if model == "cca" and n == 101:
                asked = loop.requests.pe.tolist()
                assert all(asked.count(rank) == 2 for rank in range(1, WORLD.size)), asked
    with pytest.raises(InputError, match="CYCLIC assigns chunk j to PE j mod P"):
        LoopScheduler(WORLD, 10, "CYCLIC", "hdca")


def few_iterations():
    for model, options in MODELS + DEDICATED:
        for n in {0, WORLD.size - 1}:
            for technique in ("STATIC", "AF"):
                once(WORLD, n, technique, model, **options)


def options_count():
    once(WORLD, 100, "WF", weights=list(range(1, WORLD.size + 1)))
    once(WORLD, 100, "FAC2+SS", "hdca", ranks_per_node=2, lock="polling")
    once(WORLD, 100, "AF", "dca", lock="polling", pieces=0)
    once(WORLD, 100, "AF", "cca", break_after=3, pieces=4, wait="spin" if WORLD.size < 3 else "sleep")
    once(WORLD, 60, "SS", "dca", injected_delay=1e-4, break_after=1, min_chunk=3)
    once(WORLD, 60, "AWF-C", "dca", injected_delay=1e-4)
    for technique in FOLLOWING:
        once(WORLD, 60, technique, "dca", lock="polling", **NEEDED[technique])
        once(WORLD, 60, technique, "dca", injected_delay=1e-4, **NEEDED[technique])
    once(WORLD, 60, "GSS", "hmw", injected_delay=1e-4, ranks_per_node=2)


def sizes_are_those_of_the_simulator():
    """Claimed sizes are K_i by the step (dca), and the recursive sequence in order of the steps (cca)."""
    n, p = 1000, WORLD.size
    for technique in ("GSS", "TSS", "FAC2", "FISS", "PLS", "FAC"):
        needed = NEEDED[technique]
        parameters = ParametersConfig(**needed)
        for model, form in (("dca", "straightforward"), ("cca", "recursive")):
            loop = once(WORLD, n, technique, model, record=True, **needed)
            if WORLD.rank == 0:
                chunks = loop.records.chunks
                order = np.argsort(chunks.step)
                expected = sequence(technique, n, p, form, parameters=parameters)
                got = chunks.size[order].tolist()
                if form == "recursive":
                    assert got == expected, (technique, got, expected)
                else:
                    # one atomic tells step and loop start, so that nobody can come between the two
                    assert got == expected, (technique, got, expected)
                    assert (np.diff(chunks.first[order]) == got[:-1]).all(), technique


def sizes_are_those_of_the_library():
    """With `compat: lb4mpi` first chunks are the ranks' own under cca; sizes are those of the sequence."""
    n, p = 1000, WORLD.size
    parameters = ParametersConfig(compat="lb4mpi")
    for technique in ("STATIC", "GSS", "TSS", "FAC", "WF", "AWF", "AWF-B", "AWF-C", "AWF-D", "AWF-E", "AF"):
        for model in ("cca", "dca"):
            loop = once(WORLD, n, technique, model, record=True, compat="lb4mpi", min_chunk=3)
            if WORLD.rank > 0:
                continue
            chunks = loop.records.chunks
            order = np.argsort(chunks.step)
            sizes = chunks.size[order].tolist()
            learns = technique.startswith("AWF-") or technique == "AF"
            if not learns and (technique, model) != ("GSS", "dca"):
                assert sizes == sequence(technique, n, p, min_chunk=3, parameters=parameters), technique
            if model == "cca":
                assert chunks.pe[order][:p].tolist() == list(range(p)), technique
                assert not learns or sizes[:p] == [3] * p, technique
    with pytest.raises(InputError, match="compat: lb4mpi, and LB4MPI has no TFSS"):
        LoopScheduler(WORLD, 10, "TFSS", "cca", compat="lb4mpi")
    with pytest.raises(InputError, match="LB4MPI has one queue of chunks"):
        LoopScheduler(WORLD, 10, "GSS", "hdca", compat="lb4mpi")


def masters_choose_their_breaks():
    """The first piece is one iteration, later ones at most twice as long as one before them."""
    for model in ("cca", "hmw"):
        with LoopScheduler(WORLD, n=20_000 * WORLD.size, technique="STATIC", model=model) as loop:
            pieces = [size for _, size in loop]
        assert summed(WORLD, [sum(pieces)]) == [20_000 * WORLD.size], model
        if WORLD.rank == 0 and WORLD.size > 1 and model == "cca":  # one chunk; its end cuts the last piece
            assert pieces[0] == 1
            assert max(pieces) > 1
            assert (np.array(pieces[1:]) <= 2 * np.maximum.accumulate(pieces[:-1])).all()


def sub_communicators():
    """Halves of the ranks run loops of their own at the same time."""
    half = WORLD.Split(WORLD.rank % 2, -WORLD.rank)
    for model in ("cca", "dca", "hdca", "hmw"):
        once(half, 100 + 10 * (WORLD.rank % 2), "FAC2", model)
    half.Free()
    for _ in range(20 if WORLD.size == 4 else 0):
        # Their windows are made at the same time; Open MPI 4.1 lets some of them meet in one file.
        half = WORLD.Split(WORLD.rank % 2)
        once(half, 100 + 10 * (WORLD.rank % 2), "FAC2", "dca")
        half.Free()
    once(MPI.COMM_SELF, 10 + WORLD.rank, "AF", "cca")


def many_in_a_row():
    for number in range(10):
        once(WORLD, 50 + number, "GSS", ("cca", "dca")[number % 2])


def two_at_once():
    """Two loops go on at the same time, a rank taking a chunk of one and then of the other."""
    for first_model, second_model in (("cca", "dca"), ("cca", "cca"), ("hmw", "hdca"), ("dca", "dca")):
        hits = np.zeros((2, 200), np.int64)
        with (
            LoopScheduler(WORLD, n=200, technique="SS", model=first_model) as one,
            LoopScheduler(WORLD, n=200, technique="FAC2", model=second_model) as other,
        ):
            ways = [iter(one), iter(other)]
            open_ways = {0, 1}
            while open_ways:
                for row in sorted(open_ways):
                    chunk = next(ways[row], None)
                    if chunk is None:
                        open_ways.discard(row)
                    else:
                        hits[row, chunk[0] : chunk[0] + chunk[1]] += 1
        assert set(summed(WORLD, hits.ravel())) == {1}, (first_model, second_model)


def leaving_early():
    """A rank that leaves its loop takes no more chunks; the others execute the rest."""
    for model in ("cca", "dca", "hdca", "hmw"):
        executed = 0
        with LoopScheduler(WORLD, n=400, technique="SS", model=model, ranks_per_node=2) as loop:
            for _, size in loop:
                executed += size
                if WORLD.rank == WORLD.size - 1 and WORLD.size > 1:
                    break
        assert summed(WORLD, [executed]) == [400], model
        if WORLD.size > 1 and WORLD.rank == WORLD.size - 1:
            assert executed <= 1


def workers_ask_ahead():
    """Every iteration once; a chunk is asked for while the one before is executed, at the same iteration."""
    for technique in (*FEW, "mAF", "AWF-E"):
        for ahead in (1, 3, 1000):
            once(WORLD, 101, technique, "cca", request_ahead=ahead, **NEEDED[technique])
    once(WORLD, 60, "GSS", "cca", request_ahead=2, master="dedicated", compat="lb4mpi")
    with LoopScheduler(WORLD, 20, "SS", "cca", request_ahead=1, min_chunk=4, record=True) as loop:
        for _ in loop:
            time.sleep(2e-3)
    if WORLD.rank == 0:
        rows = loop.records.chunks
        for pe in range(1, WORLD.size):
            mine = rows.pe == pe
            asked, begun, ended = rows.requested[mine], rows.start[mine], rows.end[mine]
            assert (asked[1:] >= begun[:-1]).all()
            assert (asked[1:] <= ended[:-1]).all()
            assert (begun[1:] >= ended[:-1]).all()
    # Who leaves early has executed what it had asked for, as the others need not know of it.
    with LoopScheduler(WORLD, 40, "SS", "cca", request_ahead=1) as loop:
        for _ in loop:
            if WORLD.rank == WORLD.size - 1 and WORLD.size > 1:
                break
    assert summed(WORLD, [loop.report().executed]) == [40]
    following = [{"model": "cca", "technique": name, **NEEDED[name]} for name in FOLLOWING]
    for options in ({"model": "dca"}, *following):
        with pytest.raises(InputError, match="request_ahead"):
            LoopScheduler(WORLD, 10, request_ahead=1, **options)


def awf_learns_from_time_step_to_time_step():
    """Rank 0 is slow; in the next time step the first chunk is smaller. The others let it have that."""

    def ready():
        if WORLD.rank > 0:
            WORLD.recv(source=0)

    def work(start, size):
        if WORLD.rank == 0 and not has_begun:
            has_begun.add(True)
            sizes.append(size)
            for other in range(1, WORLD.size):
                WORLD.send(None, dest=other)
        time.sleep(size * (1e-2 if WORLD.rank == 0 else 1e-4))

    before, has_begun = None, set()
    sizes: list[int] = []
    for _ in range(2):
        has_begun.clear()
        before = once(WORLD, 160, "AWF", "dca", work, ready, after=before)
    if WORLD.rank == 0 and WORLD.size > 1:
        assert sizes[1] < sizes[0], sizes


def windows_are_left_alone_while_ranks_compute():
    """DCA touches the window once a chunk, with weights twice; and as often to learn that none is left."""
    for technique, times in (("SS", 1), ("GSS", 1), ("FAC2", 1), ("RND", 1), ("WF", 2)):
        counted = _atomics_of(technique)
        assert counted[0] == times * (counted[1] + 1), (technique, counted)


def _atomics_of(technique):
    counted = []
    original = Window.fetch_add

    def counting(self, place, value):
        counted.append(place)
        return original(self, place, value)

    Window.fetch_add = counting
    try:
        loop = once(WORLD, 200, technique, "dca")
    finally:
        Window.fetch_add = original
    return len(counted), loop.report().chunks


def as_across_machines():
    """Windows that other machines reach are in no shared memory; the queues do without."""
    lend = Context.window
    Context.window = lambda self, words: self._get(Window, self.layout.comm, words)
    try:
        apart = WORLD.Dup()
        for model, options in MODELS[1:3]:
            for technique in ("SS", "GSS", "AF", "AWF-B", "AWF-E"):
                once(apart, 101, technique, model, **options)
        once(apart, 60, "AF", "dca", injected_delay=1e-4)
        apart.Free()
    finally:
        Context.window = lend


def wrong_arguments():
    for options, part in (
        ({"technique": "GSSS"}, "not known"),
        ({"model": "openmp"}, "hdca"),
        ({"n": -1}, "0 to 2^62"),
        ({"technique": "FSC"}, "sigma"),
        ({"technique": "WF", "weights": [1.0] * (WORLD.size + 1)}, "weights"),
        ({"technique": "GSS+SS"}, "one level"),
        ({"break_afer": 3}, "break_after"),
        ({"n": 10 + WORLD.rank} if WORLD.size > 1 else {"n": 1.5}, "rank" if WORLD.size > 1 else "whole"),
    ):
        with pytest.raises(InputError, match=re.escape(part)):
            LoopScheduler(WORLD, **{"n": 10, **options})
    once(WORLD, 10)


def a_technique_of_the_user():
    if WORLD.size > 3:  # every rank compiles it
        return
    path = sys.argv[1]
    for model in ("cca", "dca", "hdca"):
        once(WORLD, 100, f"{path}:thirds", model, ranks_per_node=2)
        once(WORLD, 100, f"{path}:by_step", model)
    learns = f"{path}:Learns"
    for model, options in MODELS:
        soon = int(model in ("cca", "dca"))
        once(WORLD, 100, learns, model, technique_parameters={"most": 2, "soon": soon}, **options)
    once(WORLD, 100, learns, "dca", lock="polling")
    for model in ("hdca", "hmw"):
        for both, soon in ((f"GSS+{learns}", 1), (f"{learns}+SS", 0)):
            loop = once(WORLD, 100, both, model, ranks_per_node=2, technique_parameters={"soon": soon})
            assert loop.options.technique.parameters == {"soon": soon}
    with pytest.raises(InputError, match="learns from nodes, not from PEs"):
        LoopScheduler(WORLD, 10, f"{learns}+SS", "hdca", global_p="pes")
    with pytest.raises(InputError, match="names no function or class"):
        LoopScheduler(WORLD, 10, "GSS", technique_parameters={"soon": 0})


BEGAN = time.perf_counter()
for check in (
    every_technique,
    chunks_go_round_robin,
    few_iterations,
    options_count,
    sizes_are_those_of_the_simulator,
    sizes_are_those_of_the_library,
    masters_choose_their_breaks,
    sub_communicators,
    many_in_a_row,
    two_at_once,
    leaving_early,
    workers_ask_ahead,
    awf_learns_from_time_step_to_time_step,
    windows_are_left_alone_while_ranks_compute,
    as_across_machines,
    wrong_arguments,
    a_technique_of_the_user,
):
    check()
    if WORLD.rank == 0:
        print(f"{time.perf_counter() - BEGAN:7.2f} s {check.__name__}", file=sys.stderr, flush=True)
WORLD.Barrier()
if WORLD.rank == 0:
    print("ok", WORLD.size)
