"""Run times of the profiles of Batsim workloads: what a job does, as operations, bytes, or a replayed trace.

A main file of a trace names one file for each rank, relative to itself, in order of ranks. Of a usage trace
(``0 m_usage 0.6 1000``) every phase takes its operations at the speed of a core: its usage is how many cores
work, each on so many. Of an MPI trace only computation has a time that no network decides.

Source: the documentation of Batsim, "Workload", and its tests of usage traces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlsim._files import is_file
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.workload.format_record import record_lines
from mlsim.workload.json_jobs import is_amount, shown
from mlsim.workload.log_fields import LARGEST_WHOLE, Field, Rates

_DELAY = ("delay", "DelayProfile")
_HOMOGENEOUS = ("parallel_homogeneous", "msg_par_hg", "ptask_homogeneous", "ParallelTaskHomogeneousProfile")
_TOTAL = ("parallel_homogeneous_total", "msg_par_hg_tot")
_SEQUENCE = ("composed", "SequentialCompositionProfile", "sequential_composition")
_PARALLEL = ("parallel", "msg_par", "ptask", "ParallelTaskProfile")
_TRACES = {"usage_trace": True, "smpi": False, "FractionalComputation": True, "SMPI": False}
"""Types of traces, as a profile's type or as its ``trace_type``, and whether they are of usage."""
_STORAGE = re.compile("storage|pfs|data_staging", re.IGNORECASE)
_SCHEDULER = re.compile("send|recv|scheduler", re.IGNORECASE)
_REASONS = {
    _STORAGE: ": it moves data of a storage, whose bandwidth Batsim has in its platform file",
    _SCHEDULER: ": it exchanges messages with the scheduler, which only Batsim with that scheduler has",
}
"""Types of profiles without a run time that follows from the log, with the reason."""
_EACH_STRATEGIES = ("defined_amount_used_for_each_value", "DefinedAmountsUsedForEachValue")
_SPREAD_STRATEGIES = ("defined_amount_spread_uniformly", "DefinedAmountsSpreadUniformly")
_DEEPEST = 100  # Sequences in sequences; Batsim's own have two
_AMOUNT = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


class UnknownTimeError(InputError):
    """A profile without a run time that follows from the log; a job that has it can be left out."""


class Profiles:
    """Profiles of a file, and the run times that follow from them; messages begin with a ``place``."""

    def __init__(self, profiles: Mapping[str, Any], rates: Rates | None, directory: Path) -> None:
        self._profiles, self._rates, self._directory = profiles, rates, directory
        self._known: dict[tuple[str, int], float] = {}

    def run_time(self, job: str, name: object, processors: int, inside: tuple[str, ...] = ()) -> float:
        """Return the run time [s] of a profile that the sequences ``inside`` lead to."""
        if not isinstance(name, str) or name not in self._profiles:
            raise UnknownTimeError(f"{job}: there is no profile {name!r} among the profiles of the file")
        if name in inside:
            raise UnknownTimeError(f"{job}: profile {name} is a sequence that leads back to itself")
        if (name, processors) in self._known:
            return self._known[name, processors]
        place, profile = f"{job}: profile {name}", self._profiles[name]
        kind = str(profile.get("type")) if isinstance(profile, dict) else None
        if kind in _SEQUENCE:
            repeat = _amount(place, profile, "repeat") if "repeat" in profile else 1.0
            inside = (*inside, name)
            parts = _parts(place, profile, len(inside))
            seconds = repeat * sum(self.run_time(job, part, processors, inside) for part in parts)
        elif kind in (*_TRACES, "TraceReplayProfile"):
            seconds = self._trace_time(place, kind, profile, processors)
        else:
            seconds = self._task_time(place, kind, profile, processors)
        if not 0 <= seconds < LARGEST_WHOLE:
            raise UnknownTimeError(
                f"{job}: profile {name[:60]} runs for {seconds:g} s; expected {Field.RUN_TIME.expected}"
            )
        self._known[name, processors] = seconds
        return seconds

    def _trace_time(self, place: str, kind: str, profile: Mapping[str, Any], processors: int) -> float:
        """Return the time of the rank that computes most: ranks have a processor each."""
        kind = str(profile.get("trace_type")) if kind == "TraceReplayProfile" else kind
        file = profile.get("filename", profile.get("trace"))
        if kind not in _TRACES or not isinstance(file, str):
            raise UnknownTimeError(
                f"{place}: trace_type is {kind!r:.60} and filename {str(file)!r:.60}; expected a file, and "
                "FractionalComputation or SMPI"
            )
        ranks = _trace_operations(self._directory / file, place, usage=_TRACES[kind])
        if len(ranks) > processors:
            raise UnknownTimeError(f"{place}: its {len(ranks)} ranks share {processors:,} processors")
        return self._seconds(place, max(ranks), 0.0)

    def _task_time(self, place: str, kind: str | None, profile: Mapping[str, Any], processors: int) -> float:
        if kind in _DELAY:
            return _amount(place, profile, "delay", needed=True)
        if kind in _PARALLEL:  # operations of each processor, and bytes from each to each other one
            cpu = _amounts(place, profile, "cpu", processors)
            com = _amounts(place, profile, "com", processors**2).reshape(processors, processors)
            np.fill_diagonal(com, 0.0)
            sent = max(com.sum(axis=1).max(initial=0.0), com.sum(axis=0).max(initial=0.0))
            return self._seconds(place, float(cpu.max(initial=0.0)), float(sent))
        if kind not in (*_HOMOGENEOUS, *_TOTAL):
            allowed = (
                _DELAY[0],
                _HOMOGENEOUS[0],
                _TOTAL[0],
                _SEQUENCE[0],
                _PARALLEL[0],
                "usage_trace",
                "smpi",
            )
            reason = next((text for form, text in _REASONS.items() if form.search(str(kind))), "")
            raise UnknownTimeError(
                f"{place} is of type {kind!r:.60}, whose run time is unknown{reason}; allowed: "
                f"{', '.join(allowed)}"
            )
        strategy = profile.get("generation_strategy", _EACH_STRATEGIES[0])
        if strategy not in (*_EACH_STRATEGIES, *_SPREAD_STRATEGIES):
            raise UnknownTimeError(
                f"{place}: generation_strategy is {strategy!r}; "
                f"allowed: {', '.join((*_EACH_STRATEGIES, *_SPREAD_STRATEGIES))}"
            )
        operations, size = _amount(place, profile, "cpu"), _amount(place, profile, "com")
        if kind in _TOTAL or strategy in _SPREAD_STRATEGIES:
            operations, size = operations / processors, size / max(processors * (processors - 1), 1)
        return self._seconds(place, operations, size * (processors - 1))

    def _seconds(self, place: str, operations: float, sent: float) -> float:
        rates = self._rates
        if rates is not None and rates.speed is not None and rates.bandwidth is not None:
            return max(operations / rates.speed, 8.0 * sent / rates.bandwidth)
        if operations or sent:
            raise InputError(
                f"{place} counts operations and bytes, which take a speed and a bandwidth to be seconds\n"
                "  give --speed and --bandwidth, or simulate: the platform of the scenario has both"
            )
        return 0.0


def _parts(place: str, profile: Mapping[str, Any], depth: int) -> list[Any]:
    """Return the profiles of a sequence."""
    parts = profile.get("seq", profile.get("profiles"))
    if not isinstance(parts, list) or not parts:
        raise UnknownTimeError(f"{place}: seq is {shown(parts)}; expected a list of names of profiles")
    if depth > _DEEPEST:
        raise UnknownTimeError(f"{place}: sequences in sequences, more than {_DEEPEST} deep")
    return parts


def _amount(place: str, profile: Mapping[str, Any], key: str, *, needed: bool = False) -> float:
    """Return a non-negative number of a profile; 0 where it may be missing."""
    value = profile.get(key, None if needed else 0)
    if not is_amount(value):
        raise UnknownTimeError(f"{place}: {key} is {shown(value)}; expected a number from 0 up")
    return float(value)


def _amounts(place: str, profile: Mapping[str, Any], key: str, length: int) -> Floats:
    """Return a list of non-negative numbers of a profile; zeros where it may be missing."""
    values = profile.get(key) or [0] * length
    numbers = isinstance(values, list) and all(map(is_amount, values))
    if not numbers or len(values) != length:
        raise UnknownTimeError(
            f"{place}: {key} is {shown(profile.get(key))}; expected {length:,} numbers from 0 up"
        )
    return np.array(values, np.float64)


def _trace_operations(path: Path, place: str, usage: bool) -> list[float]:
    """Return the operations of each rank; ``usage``: of a usage trace, not of MPI."""
    if not is_file(path):
        raise UnknownTimeError(f"{place}: its trace {path} is not there; keep traces beside the workload")
    found = []
    for _, line in record_lines(path):
        rank = path.parent / line.strip()
        if not is_file(rank):
            raise UnknownTimeError(f"{place}: {path} names {line.strip()[:60]!r}, which is not there")
        found.append(sum(_phases(rank, place, usage)))
    if not found:
        raise UnknownTimeError(f"{place}: its trace {path} names no file of a rank")
    return found


def _phases(path: Path, place: str, usage: bool) -> Iterator[float]:
    """Yield the operations of each phase of a rank."""
    form, numbers = ("RANK m_usage USAGE OPERATIONS", 2) if usage else ("RANK compute OPERATIONS", 1)
    for number, line in record_lines(path):
        words = line.split()
        action = words[1] if len(words) > 1 else ""
        if not usage and action in ("init", "finalize"):
            continue
        if not usage and action.isalpha() and action != "compute":
            raise UnknownTimeError(
                f"{place}: {path}, line {number}: {action[:30]} takes a time that Batsim's network decides; "
                "only traces of computation have a run time"
            )
        amounts = [float(word) for word in words[2 : 2 + numbers] if _AMOUNT.fullmatch(word)]
        if action != form.split()[1] or len(amounts) < numbers or (usage and amounts[0] > 1):
            raise UnknownTimeError(
                f"{place}: {path}, line {number}: is {line.strip()[:60]!r}; expected {form}, "
                "a usage of at most 1"
            )
        yield amounts[-1]
