"""Workers that ask for their next chunk before the current one ends, against a slow simulation of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application.selection.measured_costs import waits_of
from mlsim.techniques import TECHNIQUES as ENTRIES
from tests.application.test_models import full_cases, full_fine_case
from tests.application.test_reference import assert_ended_same, assert_same, run
from tests.reference.loops import Case

ASKING = [name for name, entry in ENTRIES.items() if not entry.rule.follows_chunks]
AHEAD = st.sampled_from([1, 1, 2, 5, 1000])


@pytest.mark.parametrize("technique", ASKING)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), ahead=AHEAD)
def test_same_as_reference_where_events_coincide(technique: str, data: st.DataObject, ahead: int) -> None:
    assert_same(replace(data.draw(full_cases("cca", technique)), ahead=ahead), "cca")


@pytest.mark.parametrize("technique", ASKING)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 150), p=st.integers(1, 20), ahead=AHEAD)
def test_same_as_reference_on_real_numbers(technique: str, seed: int, n: int, p: int, ahead: int) -> None:
    assert_same(replace(full_fine_case("cca", technique, seed, n, p), ahead=ahead), "cca")


@pytest.mark.parametrize("technique", ASKING)
@settings(max_examples=10, deadline=None)
@given(data=st.data(), ahead=AHEAD)
def test_ended_loop_is_the_reference_up_to_then(technique: str, data: st.DataObject, ahead: int) -> None:
    case = replace(data.draw(full_cases("cca", technique)), ahead=ahead)
    assert_ended_same(case, "cca", data.draw(st.integers(0, 40)) / 8)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_sizes_that_lb4mpi_gives_who_asks_ahead(data: st.DataObject) -> None:
    technique = data.draw(st.sampled_from(["GSS", "FAC2", "WF", "AWF-B", "AWF-E", "AF"]))
    case = data.draw(full_cases("cca", technique))
    told = replace(case.parameters, lb4mpi=True, awf_of_batch=False, weights=None)
    assert_same(replace(case, ahead=data.draw(AHEAD), parameters=told), "cca")


def two_pes(ahead: int, **options: float) -> Case:
    """Eight iterations of 1 s in chunks of 1 for one worker, 0.25 s away from a master that only serves."""
    prefix = tuple(np.arange(9.0).tolist())
    return Case("SS", prefix, (1.0, 1.0), (0.0, 0.25), dedicated=True, ahead=ahead, **options)


def test_latency_and_service_overlap_with_execution() -> None:
    """0.5 s of messages a chunk are waited for only once, before the first chunk."""
    late, early = (run(two_pes(ahead), "cca") for ahead in (0, 1))
    assert (late.t_loop, late.overhead[1]) == (12.0, 4.5)
    assert (early.t_loop, early.overhead[1]) == (8.5, 0.5)
    rows = early.rows
    assert rows is not None
    np.testing.assert_array_equal(rows.start, 0.5 + np.arange(8.0))
    np.testing.assert_array_equal(rows.requested, [0.0, *rows.start[:-1]])


def test_who_asks_too_late_waits_for_the_rest() -> None:
    """Chunks of two iterations, asked for 1 s before their end; calculation takes 1 s, and messages 0.5 s."""
    outcome = run(replace(two_pes(1), min_chunk=2, calculation=1.0), "cca")
    rows = outcome.rows
    assert rows is not None
    np.testing.assert_array_equal(rows.start, [1.5, 4.0, 6.5, 9.0])
    np.testing.assert_array_equal(rows.requested, [0.0, 2.5, 5.0, 7.5])
    assert outcome.overhead[1] == 1.5 + 3 * 0.5
    assert outcome.notified_at[1] == 11.0  # the answer came 0.5 s before the chunk ended


def test_chunks_that_wait_at_a_pe_are_not_yet_executed() -> None:
    """All is handed out at 0.5 s, when the first PE is told so; 3 PEs have one chunk more to come."""
    case = Case("SS", tuple(np.arange(9.0).tolist()), (1.0,) * 5, (0.0,) * 5, dedicated=True, ahead=1)
    outcome = run(case, "cca")
    speed, prefix = np.ones(5), np.array(case.prefix)
    iterations, work = outcome.remaining(prefix, speed, np.array([1.5, 2.0]))
    assert iterations.tolist() == [4, 0]
    np.testing.assert_allclose(work, [2.0, 0.0])


@settings(max_examples=40, deadline=None)
@given(data=st.data(), ahead=AHEAD, technique=st.sampled_from(["STATIC", "SS", "GSS", "FAC2", "AF", "AWF-E"]))
def test_pes_whose_node_is_away_ask_for_nothing(data: st.DataObject, ahead: int, technique: str) -> None:
    """All is executed once; who is away asks for nothing, and executes at most what it had asked for."""
    case = data.draw(full_cases("cca", technique))
    begin, length = data.draw(st.integers(0, 30)) / 8, data.draw(st.integers(1, 30)) / 8
    away = ((begin, begin + length),)
    nodes = tuple(range(case.p))
    spans = tuple(away if node > 0 and node % 2 == 1 else () for node in nodes)
    outcome = run(replace(case, ahead=ahead, node_of_pe=nodes, away=spans), "cca")
    rows = outcome.rows
    assert rows is not None
    executed = np.concatenate(
        [np.arange(f, f + s) for f, s in zip(rows.first, rows.size, strict=True)] or [[]]
    )
    assert sorted(executed) == list(range(case.n))
    for pe in range(1, case.p, 2):
        asked = rows.requested[rows.pe == pe]
        asked = asked[asked > 0.0] if technique == "STATIC" else asked
        assert not ((begin <= asked) & (asked < begin + length)).any()
        assert (np.diff(rows.start[rows.pe == pe]) >= 0.0).all()


def test_what_a_pe_waits_is_counted_from_the_end_of_its_chunk_before() -> None:
    outcome = run(replace(two_pes(1), min_chunk=2, calculation=1.0), "cca")
    rows = outcome.rows
    assert rows is not None
    assert waits_of(rows.pe.astype(np.int64), rows.requested, rows.start, rows.end).typical == 0.5
