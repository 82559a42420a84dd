"""Parallel loops of OpenMP programs in OTF2 traces, as Score-P and lo2s write them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlsim._files import named
from mlsim.errors import InputError
from mlsim.traces.trace_reader import Trace, anchor_of, check_apart, opened, seconds_of, word_of
from mlsim.workload.measured_loops import MeasuredLoop

_LO2S_LOOP, _LO2S_SYNC = "ompt::loop", "ompt::sync"  # begin names of regions
_SCOREP_TASKLOOP = "!$omp taskloop"  # has the role of a loop
_BARRIERS = ("BARRIER", "IMPLICIT_BARRIER")


class _Visit(NamedTuple):
    """The time of a thread in one execution of a loop."""

    thread: int
    enter: float  # s
    leave: float
    busy: float  # without barriers


@dataclass(slots=True)
class _Stay:
    """A region that a thread is in."""

    region: Any
    enter: float
    waited: float = 0.0  # in barriers inside
    schedule: str = ""


def read_trace(path: Path, notes: Counter[str]) -> list[MeasuredLoop]:
    """Read the executions of parallel loops; an iteration of such a loop is the share of one thread."""
    anchor = anchor_of(path)
    check_apart(anchor)
    visits: dict[tuple[str, str], list[_Visit]] = defaultdict(list)
    with opened(anchor) as trace:
        _read(trace, visits, notes)
    if not visits:
        raise InputError(
            f"{named(anchor)}: has no parallel loop, neither a region of role LOOP and paradigm OPENMP, as "
            f"Score-P writes them, nor '{_LO2S_LOOP}' of lo2s; instrument OpenMP (scorep --thread=omp). "
            "If mlsim wrote the trace, name the run"
        )
    loops = []
    for (process, name), of_loop in visits.items():
        for execution in _executions(of_loop, notes):
            start = min(visit.enter for visit in execution)
            seconds = max(visit.enter + visit.busy for visit in execution) - start
            costs = np.array([visit.busy for visit in sorted(execution)])
            loops.append(MeasuredLoop(name, process, len(costs), start, seconds, len(costs), costs=costs))
    return sorted(loops, key=lambda loop: (loop.start, loop.process, loop.name))


def _read(trace: Trace, visits: dict[tuple[str, str], list[_Visit]], notes: Counter[str]) -> None:
    threads = {id(location): k for k, location in enumerate(trace.definitions.locations)}
    groups = list(trace.definitions.location_groups)
    often = Counter(str(group.name) for group in groups)
    processes = {
        id(group): f"{group.name}{f' ({k})' if often[str(group.name)] > 1 else ''}"
        for k, group in enumerate(groups)
    }
    stacks: dict[int, list[_Stay]] = defaultdict(list)
    for location, event in trace.events:
        kind, stack = type(event).__name__.removeprefix("CallingContext"), stacks[id(location)]
        region = getattr(getattr(event, "calling_context", event), "region", None)
        if kind == "Enter":
            stack.append(_Stay(region, seconds_of(trace, event.time)))
        elif kind == "Leave":
            # Regions of tasks that wait overlap with others.
            at = next((k for k in reversed(range(len(stack))) if stack[k].region is region), None)
            if at is None:
                continue
            stay, now = stack.pop(at), seconds_of(trace, event.time)
            if name := _loop_name(stay.region):
                busy = max(now - stay.enter - stay.waited, 0.0)
                visit = _Visit(threads[id(location)], stay.enter, now, busy)
                visits[processes[id(location.group)], name].append(visit)
                if stay.schedule not in ("", "static", "unknown"):
                    notes[f"stays_of_threads_in_{stay.schedule.replace(' ', '_')}_loops"] += 1
            elif _is_barrier(stay.region):
                loop = next((outer for outer in reversed(stack[:at]) if _loop_name(outer.region)), None)
                if loop is not None:
                    loop.waited += now - stay.enter
            elif str(stay.region.name).startswith(_SCOREP_TASKLOOP):
                notes["task_loops_left_out"] += 1
        elif kind == "ParameterString" and stack and str(event.parameter.name) == "schedule":
            stack[-1].schedule = str(event.string)
    left = sum(bool(_loop_name(stay.region)) for stack in stacks.values() for stay in stack)
    if left:
        notes["loops_never_left"] += left


def _loop_name(region: Any) -> str:
    """Return the name of a loop, from its place in the program; empty for regions that are no loops."""
    name = str(region.name)
    if name.startswith(_LO2S_LOOP):
        file = str(region.source_file or "").rpartition("/")[2]
        return f"{name.removeprefix(_LO2S_LOOP).strip()} {file}:{region.begin_line_number}".strip()
    if word_of(region.region_role) != "LOOP" or word_of(region.paradigm) != "OPENMP":
        return ""
    return "" if name.startswith(_SCOREP_TASKLOOP) else name.partition("@")[2].strip() or name


def _is_barrier(region: Any) -> bool:
    return word_of(region.region_role) in _BARRIERS or str(region.name).startswith(_LO2S_SYNC)


def _executions(visits: Sequence[_Visit], notes: Counter[str]) -> list[list[_Visit]]:
    """Divide the visits of a loop into executions: the kth visits of all threads, also with ``nowait``.

    Where teams differ in size, an execution has each thread once, and none that enters after all have left.
    """
    by_thread: dict[int, list[_Visit]] = defaultdict(list)
    in_order = sorted(visits, key=lambda visit: visit.enter)
    for visit in in_order:
        by_thread[visit.thread].append(visit)
    if len({len(own) for own in by_thread.values()}) == 1:
        return [list(each) for each in zip(*by_thread.values(), strict=True)]
    notes["loops_of_teams_of_several_sizes"] += 1
    executions: list[list[_Visit]] = [[]]
    for visit in in_order:
        last = executions[-1]
        if last and (max(v.leave for v in last) <= visit.enter or visit.thread in {v.thread for v in last}):
            executions.append([])
        executions[-1].append(visit)
    return executions
