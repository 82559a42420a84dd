"""Techniques at work over arrays of our own, and options; no MPI is needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application.loop_outcome import ChunkRows
from mlsim.application.techniques import sequence
from mlsim.application.time_steps import StepHistory
from mlsim.execution_models.cca import next_length
from mlsim.execution_models.technique_state import (
    ANY,
    EMPTY,
    KNOWN,
    LAST,
    NOT_YET,
    NOTHING,
    draw_ticket,
    learn_done,
    release,
    seal,
    seize,
    take_from_copy,
    take_shared,
)
from mlsim.mpi.chunk_rules import RecursiveRule, RuleState, StraightforwardRule
from mlsim.mpi.loop_options import BREAK_EVERY, LoopOptions, chosen, typical_break_after
from mlsim.mpi.loop_report import iterations_begun
from mlsim.mpi.loop_selection import Selecting, selection_of
from mlsim.mpi.rank_waiting import Patience, serve_while_waiting, stop_serving
from mlsim.mpi.real_model import RankTimes
from mlsim.scenario.technique_section import NEEDS
from mlsim.scenario.words import Technique
from mlsim.techniques import TECHNIQUES
from mlsim.techniques.pe_statistics import learn_iterations, learn_pieces, new_measurements
from mlsim.techniques.technique_rules import needs_remaining

FOLLOWING = [name for name, entry in TECHNIQUES.items() if entry.rule.follows_chunks]
times = st.lists(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8), min_size=1, max_size=6)


@settings(deadline=None)  # the first call compiles
@given(times)
def test_pieces_of_one_iteration_are_what_the_simulator_learns(chunks: list[list[float]]) -> None:
    iterations = [cost for chunk in chunks for cost in chunk]
    prefix = np.concatenate([[0.0], np.cumsum(iterations)])
    ours, our_sums = np.zeros((5, 2)), np.zeros((2, 4))
    theirs, their_sums = new_measurements(2)
    first = 0
    for chunk in chunks:
        costs = np.diff(prefix)[first : first + len(chunk)]
        mean = float(costs.mean())
        learn_pieces(ours, our_sums, 1, len(chunk), len(chunk), mean, float(((costs - mean) ** 2).sum()))
        learn_iterations(theirs, their_sums, 1, prefix, 1.0, first, len(chunk), 0.0)
        first += len(chunk)
    np.testing.assert_allclose(ours[:3], theirs[:3], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(our_sums, their_sums, rtol=1e-5, atol=1e-9)


@given(st.integers(1, 10**6), st.floats(0.0, 1e3), st.data())
def test_pieces_between_breaks_take_their_time_and_grow_by_halves(
    length: int, seconds: float, data: st.DataObject
) -> None:
    part = data.draw(st.integers(1, length))
    following = next_length(length, part, seconds, BREAK_EVERY)
    assert 1 <= following <= 2 * length
    wanted = BREAK_EVERY * part / seconds if seconds > 0.0 else np.inf
    assert following == pytest.approx(max(min(wanted, 2 * length), 1.0), abs=1.0, rel=1e-9)


@pytest.mark.parametrize(("mean", "length"), [(1e-6, 75), (25e-6, 3), (70e-6, 1), (1.0, 1), (0.0, 1 << 30)])
def test_typical_pieces(mean: float, length: int) -> None:
    assert typical_break_after(mean) == length


@pytest.mark.parametrize("technique", [name for name in TECHNIQUES if Technique(name) not in NEEDS])
def test_chunks_by_the_step_follow_each_other(technique: str) -> None:
    for n, p in ((0, 1), (1, 3), (1000, 4), (5000, 40)):
        choice = chosen(LoopOptions(n=n, technique=technique), p)[0]
        if needs_remaining(choice.code) or not StraightforwardRule(choice, n, p, np.ones(p), 0).ordered:
            assert technique[:2] in ("WF", "AF", "AW", "mA")
            return
        expected = sequence(technique, n, p, "straightforward")
        starts = np.cumsum([0, *expected]).tolist()
        for ahead in (1, 3, 7):
            rule = StraightforwardRule(choice, n, p, np.ones(p), 0)
            for step in range(0, len(expected) + 20, ahead):
                first, size = rule.chunk(step)
                if step < len(expected):
                    assert (first, min(size, n - first)) == (starts[step], expected[step])
                else:
                    assert first >= n


def test_pieces_estimate_the_variance_of_iterations() -> None:
    costs = np.random.default_rng(1).exponential(2.0, 64_000)
    measured, sums = np.zeros((5, 1)), np.zeros((2, 2))
    for chunk in costs.reshape(100, 640):
        pieces = chunk.reshape(16, 40).mean(axis=1)
        between = float((40 * (pieces - chunk.mean()) ** 2).sum())
        learn_pieces(measured, sums, 0, 640, 16, float(chunk.mean()), between)
    variance = measured[2, 0] / (measured[0, 0] - 1.0)
    assert measured[1, 0] == pytest.approx(costs.mean())
    assert variance == pytest.approx(costs.var(), rel=0.1)


def test_a_chunk_in_pieces_is_learned_from_the_squares_of_their_times() -> None:
    sizes, seconds = np.array([3, 3, 1]), np.array([0.3, 0.6, 0.05])
    mean = seconds.sum() / 7
    ours, our_sums, theirs, their_sums = (
        np.zeros((5, 1)),
        np.zeros((2, 2)),
        np.zeros((5, 1)),
        np.zeros((2, 2)),
    )
    learn_pieces(theirs, their_sums, 0, 7, 3, mean, (sizes * (seconds / sizes - mean) ** 2).sum())
    squares = (seconds**2 / sizes).sum()
    learn_done(
        TECHNIQUES["AF"].code, ours, our_sums, np.ones(1), 0, 1.0, (7, seconds.sum(), 0.01, squares, 3, 0)
    )
    np.testing.assert_allclose(ours, theirs)
    np.testing.assert_allclose(our_sums, their_sums)


@pytest.mark.parametrize("technique", ["AF", "mAF", "AWF-B", "AWF-E", *FOLLOWING])
def test_chunks_are_the_same_from_a_block_that_travels_and_a_shared_one(technique: str) -> None:
    n, p = 1000, 3
    choice = chosen(LoopOptions(n=n, technique=technique, mu=1.0, sigma=0.5, h=0.1), p)[0]
    words = RuleState.words(choice, p)
    memory, block = np.zeros(words + 3, np.int64), np.zeros(words + 2, np.int64)
    takers = []
    for kernel, numbers, own in ((take_shared, memory, memory[1:]), (take_from_copy, block, block)):
        rule = RecursiveRule(choice, RuleState(own[1:-1], choice, p), n, p)
        rule.begin(n, p, np.ones(p))
        takers.append([rule.taker(kernel, numbers, pe) for pe in range(p)])
    seal(block, 0)
    random, turn, done = np.random.default_rng(3), 0, [NOTHING] * p
    while True:
        pe = int(random.integers(p))
        chunk = takers[1][pe](turn, done[pe], 2.0 * turn)
        assert takers[0][pe](ANY, done[pe], 2.0 * turn) == chunk
        turn += 1
        if chunk[1] == 0:
            break
        seconds = chunk[1] * (pe + 1) * random.uniform(0.5, 1.0)
        done[pe] = chunk[1], seconds, 0.01, seconds**2 / chunk[1] * 1.1, 4, 0
    assert chunk[0] == n
    assert turn > p


def test_who_has_waited_long_goes_first() -> None:
    choice = chosen(LoopOptions(n=100, technique="AF"), 2)[0]
    memory = np.zeros(RuleState.words(choice, 2) + 3, np.int64)
    rule = RecursiveRule(choice, RuleState(memory[2:-1], choice, 2), 100, 2)
    rule.begin(100, 2, np.ones(2))
    take = rule.taker(take_shared, memory, 0)
    assert take(ANY, NOTHING, 0.0)[0] == 0
    assert seize(memory, ANY)
    first, second = draw_ticket(memory), draw_ticket(memory)
    assert (first, second) == (0, 1)
    assert take(first, NOTHING, 0.0)[:2] == (first, NOT_YET)
    assert take(KNOWN, NOTHING, 0.0)[1] > 0  # which releases it
    assert take(ANY, NOTHING, 0.0)[:2] == (ANY, NOT_YET)
    assert take(second, NOTHING, 0.0)[:2] == (second, NOT_YET)
    assert take(first, NOTHING, 0.0)[1] > 0
    assert seize(memory, second)
    assert not seize(memory, ANY)
    release(memory)
    assert take(ANY, NOTHING, 0.0)[1] > 0


def test_who_finds_a_queue_empty_holds_it_until_it_is_refilled() -> None:
    choice = chosen(LoopOptions(n=100, technique="SS"), 2)[0]
    memory = np.zeros(RuleState.words(choice, 2) + 3, np.int64)
    state = RuleState(memory[2:-1], choice, 2)
    rule = RecursiveRule(choice, state, 100, 2)
    rule.begin(0, 2, np.ones(2))
    state.numbers[state.refills] = 0
    take, other = (rule.taker(take_shared, memory, pe) for pe in range(2))
    assert take(ANY, NOTHING, 0.0)[1] == EMPTY
    assert other(ANY, NOTHING, 0.0)[1] == NOT_YET
    assert rule.refiller(memory, 0, 0)(40, 2, 0.0) == (40, 1, 0)
    assert state.numbers[state.refills] == 1
    assert other(ANY, NOTHING, 0.0) == (41, 1, 1)
    assert other(ANY, NOTHING, 0.0)[1] == EMPTY
    state.numbers[state.refills] = LAST
    assert other(KNOWN, NOTHING, 0.0)[1:] == (0, -1)
    assert take(ANY, NOTHING, 0.0)[1:] == (0, -1)


def test_iterations_that_a_master_begins_before_it_answers() -> None:
    begun, sizes = np.array([1.0, 2.0, 3.0]), np.array([4, 5, 6])
    sent, answered = np.array([0.5, 1.5, 1.5, 2.0, 3.5]), np.array([0.9, 2.5, 9.0, 3.5, 4.0])
    assert iterations_begun(sent, answered, begun, sizes).tolist() == [0, 5, 11, 6, 0]
    assert iterations_begun(sent, answered, np.zeros(0), np.zeros(0, np.int64)).tolist() == [0] * 5


def test_notes_keep_rows_only_when_asked() -> None:
    for record, rows in ((False, 0), (True, 2)):
        times = RankTimes(1.0, record)
        times.add((0, 5, 0), 1.0, 1.5, 3.0, 1.25)
        times.add((5, 2, 3), 3.0, 3.0, 4.0, 1.0)
        numbers, moments = times.rows()
        assert len(numbers) == len(moments) == rows
        times.close(0.5)
        assert (times.chunks, times.executed, times.busy, times.overhead) == (2, 7, 2.25, 1.25)
    assert numbers.tolist() == [[0, 5, 0], [5, 2, 3]]
    assert moments[0].tolist() == [1.0, 1.5, 3.0]


def test_who_waits_lets_masters_serve() -> None:
    served: list[int] = []

    def service() -> None:
        served.append(len(served))

    serve_while_waiting(service)
    try:
        Patience("sleep", 4).until(lambda: len(served) >= 3)
    finally:
        stop_serving(service)
    assert served == [0, 1, 2]
    Patience("spin", 1).until(lambda: True)
    assert len(served) == 3


@pytest.mark.parametrize(
    ("profile", "expected"),
    [([9.0] * 4 + [1.0] * 4, "SS"), ([90.0] * 4 + [10.0] * 4, "SS"), ([5.0] * 8, "STATIC")],
)
def test_a_stored_profile_stands_in_for_what_was_measured(profile: list[float], expected: str) -> None:
    """Both PEs took 20 s; whether that was for equal iterations, for which STATIC does, the profile says."""
    names = ("STATIC", "SS")
    given = {"method": "simulation", "portfolio": names, "share": 1.0, "costs": "profile"}
    config = selection_of("auto", given)
    options = LoopOptions(n=8).checked()
    selecting = Selecting(config, options, np.zeros(2, np.int64), np.array(profile))
    assert names[selecting.choose(StepHistory(2))] == expected  # simulated, as costs are known
    pe, first, size = np.array([0, 1, 0, 1], np.int32), np.array([0, 2, 4, 6]), np.full(4, 2)
    start, end = np.array([0.0, 0.0, 18.0, 18.0]), np.array([18.0, 18.0, 20.0, 20.0])
    selecting.note(0.0, 1e6, 0.0, ChunkRows(pe, np.arange(4), first, size, start, start, end))
    assert names[selecting.choose(StepHistory(2))] == expected
