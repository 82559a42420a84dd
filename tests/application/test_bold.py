"""BOLD: sizes worked out by hand, what its chunks under way change, and how much time it wastes."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest

from mlsim.application import simulate
from mlsim.application.iteration_costs import prefix_sums
from mlsim.application.techniques import sequence
from mlsim.errors import InputError
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.costs_section import SelectionConfig
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.techniques import TECHNIQUES
from mlsim.techniques.pe_statistics import new_measurements
from mlsim.techniques.rule_layout import OWN, PARAMETERS
from mlsim.techniques.technique_rules import new_rule, recursive_size, reset_rule
from tests.reference.techniques import DIGITS, PI, Parameters

TOLD = ParametersConfig(sigma=1.0, mu=1.0, overhead=0.5)


class Oracle:
    """BOLD, with a list of what is under way: who got how much and when (Hagerup 1997)."""

    def __init__(self, p: int, told: Parameters) -> None:
        self.p, self.told = p, told
        self.under_way: dict[int, tuple[int, Fraction]] = {}

    def assign(self, pe: int, left: int, now: Fraction, least: int) -> int:
        """Size the chunk of a PE that has executed what it got before, and let it begin."""
        self.under_way.pop(pe, None)
        size = min(max(self.size(left, now), least), left)
        self.under_way[pe] = size, now
        return size

    def size(self, left: int, now: Fraction) -> int:
        if Fraction(left, self.p) <= 1:
            return 1
        mu, overhead = Fraction(self.told.mu), Fraction(self.told.overhead)
        unfinished = Fraction(left + sum(size for size, _ in self.under_way.values()))
        done = sum((now - begun) * size / (size * mu + overhead) for size, begun in self.under_way.values())
        with localcontext(prec=DIGITS):
            r = max(as_decimal(unfinished - done), Decimal(left))
            a = 2 * as_decimal((Fraction(self.told.sigma) / mu) ** 2)
            b = 8 * a * (8 * a).ln() if a else Decimal(0)
            t, q = r / self.p, Decimal(left) / self.p
            c1 = as_decimal(overhead / mu) / Decimal(2).ln()
            c2 = (2 * PI).sqrt() * c1
            v = q / (b + q)
            d = left / (1 + 1 / q.ln() - v)
            size = t
            if d > c2:
                s = a * (d.ln() - c2.ln()) * (1 + as_decimal(unfinished) / (r * self.p))
                w = (v * q.ln()).ln() + b.ln() if b > 0 else q.ln().ln()
                size = min(t + max(Decimal(0), c1 * w) + s / 2 - (s * (t + s / 4)).sqrt(), t)
            return floor(size * (1 + Decimal("1e-9")))


def as_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def sizes_of(requests: list[tuple[float, int]], n: int = 1000, p: int = 4, sigma: float = 1.0) -> list[int]:
    """Size chunks for PEs that ask at given times, with μ = 1 s and h = 0.5 s."""
    parameters = np.zeros(PARAMETERS)
    parameters[OWN : OWN + 3] = sigma, 1.0, 0.5
    (rule, reals), (measured, sums) = new_rule(), new_measurements(p)
    reset_rule(rule, reals, TECHNIQUES["BOLD"].code, n, p, 1, parameters)
    sizes: list[int] = []
    for now, pe in requests:
        left = n - sum(sizes)
        sizes.append(recursive_size(rule, reals, np.ones(p), measured, sums, len(sizes), left, pe, now))
    return sizes


@pytest.mark.slow
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


def test_requests_ahead_are_refused() -> None:
    prefix, speed = np.arange(11.0), np.ones(2)
    execution = ExecutionConfig(model="cca", request_ahead=1)
    with pytest.raises(InputError, match="BOLD takes a request for a sign"):
        simulate(prefix, speed, np.zeros(2), "BOLD", execution, parameters=TOLD)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["cca", "dca"])
def test_it_can_be_chosen_amid_a_loop(model: str) -> None:
    """Where a chunk costs as much as an iteration, SS is not kept."""
    told = ParametersConfig(sigma=1e-3, mu=1e-3, overhead=1e-3)
    selection = SelectionConfig(every=0.1, portfolio=("SS", "BOLD"), share=1.0)
    more: dict[str, Any] = {"chunk_assignment": 1e-3} if model == "cca" else {"atomic_service": 5e-4}
    found = simulate(
        prefix_sums(np.random.default_rng(1).exponential(1e-3, 3000)), np.ones(8),
        np.concatenate([[0.0], np.full(7, 1e-6)]), "auto", ExecutionConfig(model=model, **more),
        parameters=told, selection=selection, record=True,
    )  # fmt: skip
    assert "BOLD" in {choice.technique for choice in found.selected if choice.iterations > 0}
    rows = found.rows
    assert rows is not None
    assert rows.size.sum() == 3000
