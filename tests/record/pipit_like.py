"""Reading a trace under the assumptions of Pipit (0.1.0), as far as they decide whether it opens.

It looks for ``traces.otf2``, takes events of locations of type CPU_THREAD only, and expects a metric there
only together with an enter or leave at the same time. Flat profile and messages are then as it gives them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import otf2
from otf2 import events as kinds


@dataclass
class Profile:
    """What a reader like Pipit sees of a trace; times in ns, by name of the region."""

    events: int = 0
    inclusive: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    exclusive: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    calls: Counter[str] = field(default_factory=Counter)
    messages: Counter[tuple[str, str]] = field(default_factory=Counter)


def profile_of(directory: Path) -> Profile:
    """Read a trace; raise ValueError where a metric stands alone on a thread, as Pipit does later."""
    found = Profile()
    with otf2.reader.open(str(directory / "traces.otf2")) as trace:
        stacks: dict[int, list[list[int]]] = defaultdict(list)
        for location, event in trace.events:
            if location.type != otf2.LocationType.CPU_THREAD:
                assert location.type == otf2.LocationType.METRIC
                assert isinstance(event, kinds.Metric)
                continue
            if isinstance(event, kinds.Metric):
                raise ValueError("length of values does not match length of index")
            found.events += 1
            stack = stacks[location._ref]
            if isinstance(event, kinds.Enter):
                stack.append([event.time, 0])
            elif isinstance(event, kinds.Leave):
                begin, inner = stack.pop()
                lasted = event.time - begin
                found.inclusive[event.region.name] += lasted
                found.exclusive[event.region.name] += lasted - inner
                found.calls[event.region.name] += 1
                if stack:
                    stack[-1][1] += lasted
            elif isinstance(event, kinds.MpiSend):
                receiver = event.communicator.group.members[event.receiver]
                found.messages[location.group.name, receiver.group.name] += 1
    return found
