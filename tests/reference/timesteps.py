"""Time steps: one reference simulation after the other, and AWF's weights between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tests.reference.loops import Case, Log
from tests.reference.techniques import Learned


def simulate_steps(
    model: Callable[[Case], Log], case: Case, steps: int
) -> tuple[list[tuple[Any, ...]], list[Fraction]]:
    """Give the chunks, in order of start and PE, and when each PE was told in the last step."""
    learned = Learned(case.rule().weights)
    chunks: list[tuple[Any, ...]] = []
    now = Fraction(0)
    for step in range(1, steps + 1):
        if case.parameters.lb4mpi:
            learned = Learned(learned.first)  # it knows of the last time step only
        log = model(case)
        done = len(chunks)
        rows = log.chunks()
        chunks += [
            (pe, done + i, (step - 1) * case.n + first, size, *(now + time for time in times))
            for pe, i, first, size, *times in rows
        ]
        told = [now + time for time in log.told]
        now = max(told)
        for pe in range(case.p):
            size = sum(row[3] for row in rows if row[0] == pe)
            learned.add(pe, size, log.busy()[pe], step)
        if case.technique == "AWF":
            weights = tuple(float(weight) for weight in learned.weights())
            case = replace(case, parameters=replace(case.parameters, weights=weights))
    return chunks, told
