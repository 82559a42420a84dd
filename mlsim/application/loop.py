"""Simulate one loop: check what comes in, choose the kernel, shape what comes out.

The kernels are imported inside functions: numba loads only where a loop is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mlsim.application.catalogue import TECHNIQUES
from mlsim.application.outcome import ChunkRows, LoopOutcome
from mlsim.errors import InputError
from mlsim.scenario import ExecutionConfig, ExecutionModel, ServiceOrder, Technique

if TYPE_CHECKING:
    from mlsim.application.models.notes import PENotes, Rows

    _Run = Callable[[float, PENotes, Rows], int]

__all__ = ["LoopOutcome", "simulate"]

Floats = NDArray[np.float64]

_MOST_PES = (1 << 31) - 1


def simulate(
    prefix: Floats,
    pe_speed: Floats,
    pe_latency: Floats,
    technique: Technique | str,
    execution: ExecutionConfig,
    min_chunk: int = 1,
    record: bool = False,
    until: float = math.inf,
) -> LoopOutcome:
    """Simulate a self-scheduled loop from time 0, when all its PEs ask for their first chunk.

    A pure function: the same arguments give the same bytes.

    Parameters
    ----------
    prefix
        float64[N+1], prefix sums of the iteration costs: starts at 0, never falls, in s on a PE of
        speed 1. ``CostProfiles`` makes them.
    pe_speed
        float64[P], > 0: speed of each PE relative to the reference speed.
    pe_latency
        float64[P], >= 0, in s: one-way time of a message between each PE and PE 0, which is the
        master (CCA) or coordinator (DCA), with its size over the bandwidth. 0 for PE 0 itself.
    technique
        Rule for chunk sizes.
    execution
        Execution model and its costs.
    min_chunk
        Least chunk, but for the last one.
    record
        Whether to keep a row a chunk. The loop is then simulated twice, to know how many there are.
    until
        When the loop is ended whatever remains, in s. What happened before stands; a chunk in
        execution ends then, with ``busy`` counted up to then, and so does the waiting for one; a PE
        that was not told before is told then.

    Raises
    ------
    InputError
        If the arguments do not fit together; the message says which value of which one.
    """
    prefix, speed, latency = _column(prefix), _column(pe_speed), _column(pe_latency)
    _check_costs(prefix, len(speed))
    _check_pes(speed, latency)
    if not until >= 0.0:
        raise InputError(f"until: {until!r} s; allowed: 0 or more")
    if min_chunk < 1:
        raise InputError(f"min_chunk: {min_chunk}; allowed: 1 or more")
    run = _kernel(prefix, speed, latency, _code(technique), execution, min_chunk)
    notes = _new_notes(len(speed))
    steps = run(until, notes, _new_rows(0))
    rows = None
    if record:
        filled = _new_rows(steps)
        run(until, _new_notes(len(speed)), filled)
        rows = _in_order(filled)
    return LoopOutcome(
        iterations=len(prefix) - 1,
        steps=steps,
        t_loop=float(notes.finish.max()),
        **notes._asdict(),
        rows=rows,
    )


def _kernel(
    prefix: Floats, speed: Floats, latency: Floats, code: int, execution: ExecutionConfig, min_chunk: int
) -> _Run:
    """Bind everything but the output to the execution model's event loop."""
    from mlsim.application.models import cca, dca
    from mlsim.application.models.notes import Costs

    n, p = len(prefix) - 1, len(speed)
    costs = Costs(
        execution.chunk_calculation,
        execution.chunk_assignment,
        execution.atomic_service,
        execution.injected_delay,
    )
    # By its decimal digits: 0.1 means a tenth, and a tenth of 30 rounds up to 3.
    first_size = -(-Fraction(repr(execution.first_chunk)) * n // p)
    # More than the loop is long means no more than that, and stays clear of the integers' end.
    least, pause = min(min_chunk, n + 1), min(execution.break_after, n + 1)
    order = cca.FIFO if execution.service_order is ServiceOrder.FIFO else cca.LOWEST_RANK

    loop = (prefix, speed, latency, code, least, first_size, costs)

    def run(until: float, notes: PENotes, rows: Rows) -> int:
        if execution.model is ExecutionModel.CCA:
            return int(cca.run(*loop, until, pause, order, notes, rows))
        return int(dca.run(*loop, until, notes, rows))

    return run


def _column(values: Floats) -> Floats:
    """Give a read-only, contiguous float64 view: the one kind of array the kernels are compiled for."""
    column = np.ascontiguousarray(values, dtype=np.float64).view()
    column.flags.writeable = False
    return column


def _new_notes(p: int) -> PENotes:
    from mlsim.application.models.notes import PENotes

    return PENotes(
        finish=np.zeros(p),
        told=np.zeros(p),
        busy=np.zeros(p),
        overhead=np.zeros(p),
        chunks=np.zeros(p, np.int64),
        last_first=np.zeros(p, np.int64),
        last_size=np.zeros(p, np.int64),
    )


def _new_rows(n: int) -> Rows:
    from mlsim.application.models.notes import Rows

    return Rows(np.zeros(n, np.int32), np.zeros((3, n), np.int64), np.zeros((3, n)))


def _in_order(rows: Rows) -> ChunkRows:
    """Sort chunk rows by (start, PE); a PE's rows of equal start stay in the order they happened."""
    order = np.lexsort((rows.pe, rows.times[1]))
    numbers, times = rows.numbers[:, order], rows.times[:, order]
    return ChunkRows(rows.pe[order], numbers[0], numbers[1], numbers[2], times[0], times[1], times[2])


def _code(technique: Technique | str) -> int:
    """Give the kernels' number of a technique."""
    name = str(technique).upper()
    if name not in TECHNIQUES:
        raise InputError(f"technique: {technique!r} is not known; allowed: {', '.join(TECHNIQUES)}")
    return TECHNIQUES[name].code


def _check_costs(prefix: Floats, p: int) -> None:
    n = len(prefix) - 1
    if prefix.ndim != 1 or n < 0 or prefix[0] != 0.0:
        raise InputError(
            f"loop on {p} PEs: prefix sums must be one column that begins with 0; {n + 1} values"
        )
    if not np.isfinite(prefix[-1]) or prefix[-1] < 0.0:
        raise InputError(
            f"loop of {n} iterations on {p} PEs: the costs sum up to {prefix[-1]!r} s; "
            "allowed: costs of 0 s or more with a finite sum"
        )


def _check_pes(speed: Floats, latency: Floats) -> None:
    p = len(speed)
    if speed.ndim != 1 or latency.shape != speed.shape:
        raise InputError(f"a loop on {p} PEs needs as many latencies as speeds; found {latency.shape}")
    if not 1 <= p <= _MOST_PES:
        raise InputError(f"a loop on {p} PEs; allowed: 1 to {_MOST_PES}")
    for name, column, fits in (
        ("speed", speed, (speed > 0.0) & np.isfinite(speed)),
        ("latency", latency, (latency >= 0.0) & np.isfinite(latency)),
    ):
        if not fits.all():
            pe = int(np.flatnonzero(~fits)[0])
            allowed = "more than 0" if name == "speed" else "0 s or more"
            raise InputError(f"{name} of PE {pe} of {p}: {column[pe]!r}; allowed: {allowed}, finite")
    if latency[0] != 0.0:
        raise InputError(f"latency of PE 0 to itself: {latency[0]!r} s; allowed: 0")
