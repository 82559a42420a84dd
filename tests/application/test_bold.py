"""BOLD: sizes worked out by hand, what its chunks under way change, and how much time it wastes."""

from __future__ import annotations

import numpy as np
import pytest

from mlsim.application import simulate
from mlsim.application.technique_catalogue import TECHNIQUES
from mlsim.application.technique_settings import MU, OVERHEAD, PARAMETERS, SIGMA
from mlsim.application.techniques import new_rule, recursive_size, reset_rule, sequence
from mlsim.application.techniques.adaptive import new_measurements
from mlsim.errors import InputError
from mlsim.scenario import ExecutionConfig, ParametersConfig

TOLD = ParametersConfig(sigma=1.0, mu=1.0, overhead=0.5)


def sizes_of(requests: list[tuple[float, int]], n: int = 1000, p: int = 4, sigma: float = 1.0) -> list[int]:
    """Size chunks for PEs that ask at given times, with μ = 1 s and h = 0.5 s."""
    parameters = np.zeros(PARAMETERS)
    parameters[SIGMA], parameters[MU], parameters[OVERHEAD] = sigma, 1.0, 0.5
    (rule, reals), (measured, sums) = new_rule(), new_measurements(p)
    reset_rule(rule, reals, TECHNIQUES["BOLD"].code, n, p, 1, parameters)
    sizes: list[int] = []
    for now, pe in requests:
        left = n - sum(sizes)
        sizes.append(recursive_size(rule, reals, np.ones(p), measured, sums, len(sizes), left, pe, now))
    return sizes


def test_first_chunk_worked_out_by_hand() -> None:
    """σ = μ = 1 s, h = 0.5 s, N = 1000, P = 4.

    a = 2, b = 16·ln 16 = 44.36, Q = 250, v = 0.849, d = 3014, c·√(2π) = 1.808, s = 2·7.419·1.25 = 18.55,
    w = 5.338: 250 + 0.721·5.338 + 9.27 - √(18.55·254.6) = 194.4.
    """
    assert sizes_of([(0.0, 0)]) == [194]


def test_iterations_that_take_equal_time_are_shared_equally_at_once() -> None:
    """σ = 0: s = 0, and a chunk is t = max(R, N)/P."""
    assert sizes_of([(0.0, pe) for pe in range(4)], sigma=0.0) == [250] * 4


def test_chunks_under_way_count_by_the_time() -> None:
    """N = M = 1000 while no time has passed; later N is less, down to R, and so is the chunk."""
    first = [(0.0, pe) for pe in range(3)]
    at_once, later, late = (sizes_of([*first, (now, 3)])[-1] for now in (0.0, 100.0, 1e6))
    assert sizes_of(first) == [194, 195, 196]
    assert at_once == 198 > later > late


def test_a_pe_that_asks_has_executed_its_chunk() -> None:
    """M falls by its chunk: 194 of 1000 are done, so that s is less, and t as well."""
    same = sizes_of([(0.0, 0), (1.0, 0)])
    other = sizes_of([(0.0, 0), (1.0, 1)])
    assert same[1] < other[1]


def wasted(technique: str, n: int, p: int, repetitions: int) -> float:
    """Mean time, in s, by which a loop takes longer than its iterations on P PEs; each chunk costs 0.5 s."""
    execution = ExecutionConfig(model="cca", master="dedicated")
    latency = np.concatenate([[0.0], np.full(p, 0.25)])
    times = []
    for repetition in range(repetitions):
        costs = np.random.default_rng([repetition, n]).exponential(1.0, n)
        prefix = np.concatenate([[0.0], np.cumsum(costs)])
        outcome = simulate(prefix, np.ones(p + 1), latency, technique, execution, parameters=TOLD)
        times.append(outcome.t_loop - prefix[-1] / p)
    return float(np.mean(times))


@pytest.mark.parametrize("p", [2, 8])
def test_bold_wastes_least_in_the_experiments_of_its_source(p: int) -> None:
    """Hagerup 1997: exponential iterations, μ = σ = 1 s, h = 0.5 s; BOLD wastes less than all others."""
    others = ("STATIC", "SS", "FSC", "GSS", "TSS", "FAC", "FAC2")
    bold = wasted("BOLD", 8192, p, 20)
    assert all(wasted(technique, 8192, p, 20) > 1.1 * bold for technique in others)


def test_eight_times_the_iterations_waste_hardly_more() -> None:
    """Hagerup 1997: its wasted time grows far more slowly than FAC's."""
    assert wasted("BOLD", 65536, 2, 10) < 1.1 * wasted("BOLD", 8192, 2, 10)
    assert wasted("FAC", 65536, 2, 10) > 1.25 * wasted("FAC", 8192, 2, 10)


def test_what_cannot_run_is_refused() -> None:
    prefix, speed = np.arange(11.0), np.ones(2)
    with pytest.raises(InputError, match=r"BOLD follows by the clock.* each PE has a queue of its own"):
        simulate(prefix, speed, np.zeros(2), "BOLD", ExecutionConfig(model="steal"), parameters=TOLD)
    with pytest.raises(InputError, match="overhead: missing; BOLD needs"):
        sequence("BOLD", 10, 2, parameters=ParametersConfig(sigma=1.0, mu=1.0))
    with pytest.raises(InputError, match="by the time and the chunks under way"):
        sequence("BOLD", 10, 2, parameters=TOLD)
    with pytest.raises(InputError, match="LB4MPI has no BOLD"):
        sequence("BOLD", 10, 2, parameters=ParametersConfig(sigma=1.0, mu=1.0, overhead=1.0, compat="lb4mpi"))
