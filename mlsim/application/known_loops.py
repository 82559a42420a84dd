"""Outcomes of loops that the runs of a study share.

A loop is a function of its application, its job, and the speeds, latencies and nodes of its PEs. Runs under
other loads and policies, and with RCA, would simulate the same loops again; here they are looked up. A loop
is packed into 32 bytes per PE. Memory is bounded: loops for which there is no room are simulated each time.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mlsim._files import memory_limit
from mlsim._runtime import shared_cache
from mlsim._runtime.arrays import Floats
from mlsim.application.loop_outcome import KnownLoop, LoopTotals
from mlsim.application.user_code import model_entry
from mlsim.platform import Machine
from mlsim.scenario import ApplicationConfig
from mlsim.scenario.words import Calibration, CostProfile, ExecutionModel, Technique

if TYPE_CHECKING:
    from mlsim.application.application_simulator import LoopJob

MOST_BYTES = 1_000_000_000
"""Bytes of all known loops of a process; less where memory is short."""
_ENTRY_BYTES = 200  # of a loop, without its numbers
_TECHNIQUES = frozenset(map(str, Technique))


class _Store:
    """Packed loops of an application by digest, and their bytes."""

    def __init__(self) -> None:
        self.loops: dict[bytes, bytes] = {}
        self.size = 0


class _Stores(NamedTuple):
    """Stores by application, the least recently used one first, and the bound of their bytes."""

    of: dict[Hashable, _Store]
    most: int

    def open(self, key: Hashable) -> _Store:
        """Return the store of an application; a new one may displace old ones."""
        while key not in self.of and self.of and self.size() > self.most // 2:
            del self.of[next(iter(self.of))]
        self.of[key] = self.of.pop(key, _Store())
        return self.of[key]

    def size(self) -> int:
        return sum(store.size for store in self.of.values())


class KnownLoops:
    """The known loops of an application on a machine."""

    def __init__(self, config: ApplicationConfig, machine: Machine, seed: int) -> None:
        # All processes of a study together take an eighth of the memory.
        most = min(MOST_BYTES, memory_limit() // (8 * (os.cpu_count() or 1)))
        self._stores: _Stores = shared_cache.shared("known loops", lambda: (_Stores({}, most), most))
        self._store = self._stores.open((config, machine.reference_speed, seed))
        self._intra_latency = machine.network.intra_node_latency

    @staticmethod
    def of(config: ApplicationConfig, machine: Machine, seed: int) -> KnownLoops | None:
        """Return the known loops; None if a loop depends on more than is in their keys, or none is shared.

        Selections learn from other jobs, user-defined code may do anything, files of costs change, and
        slow-downs depend on the time. Some models ask which PEs are on one node. Without
        ``hands_out_first`` forecasts take the rows of chunks.
        """
        of = [config]
        if config.costs.calibrate is Calibration.RECORDED:
            of.append(config.recorded())
        fits = (
            shared_cache.is_sharing()
            and config.selects is None
            and config.costs.profile is not CostProfile.FILE
            and not machine.perturbations
            and all(isinstance(one.execution.model, ExecutionModel) for one in of)
            and not any(model_entry(one.execution.model).properties.nodes for one in of)
            and all(name in _TECHNIQUES for one in of for name in one.technique.split("+"))
            and hands_out_first(config)
        )
        return KnownLoops(config, machine, seed) if fits else None

    def key(self, job: LoopJob, speed: Floats, latency: Floats) -> bytes:
        """Return the digest of everything that a loop of this application depends on."""
        numbers = job.job_id, job.iterations, job.limit, len(speed), job.run_time, self._intra_latency
        digest = hashlib.blake2b(struct.pack("=qqqqdd", *numbers), digest_size=16)
        digest.update(speed.tobytes() + latency.tobytes())
        return digest.digest()

    def find(self, key: bytes) -> KnownLoop | None:
        """Return a known loop."""
        packed = self._store.loops.get(key)
        if packed is None:
            return None
        numbers, n = np.frombuffer(packed), len(LoopTotals._fields)
        row = numbers[:n].tolist()
        totals = LoopTotals(*map(int, row[:3]), *row[3:])
        times, work, iterations = numbers[n : len(numbers) - totals.pes].reshape(3, -1)
        place = numbers[len(numbers) - totals.pes :].astype(np.int64)
        return KnownLoop(totals, times, iterations.astype(np.int64), work, place)

    def has_room(self, pes: int) -> bool:
        """Whether another loop on that many PEs can be kept."""
        return self._stores.size() + _packed_bytes(pes, pes) <= self._stores.most

    def keep(self, key: bytes, loop: KnownLoop) -> None:
        """Keep a loop."""
        parts = loop.totals, loop.times, loop.work, loop.iterations, loop.place
        self._store.loops[key] = np.concatenate(parts, dtype=np.float64).tobytes()
        self._store.size += _packed_bytes(len(loop.place), len(loop.times))


def _packed_bytes(pes: int, times: int) -> int:
    return 8 * (len(LoopTotals._fields) + 3 * times + pes) + _ENTRY_BYTES


def hands_out_first(config: ApplicationConfig) -> bool:
    """Whether PEs are notified that no work is left only once all of it has been assigned."""
    first = model_entry(config.execution.model).properties.hands_out_first
    return first and Technique("CYCLIC") not in config.techniques and config.execution.request_ahead == 0
