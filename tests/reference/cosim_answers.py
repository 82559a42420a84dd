"""What an application says to a request for nodes; to find out, it simulates itself alone."""

from __future__ import annotations

from fractions import Fraction

from tests.reference.cosim_data import Number, Rules, Run
from tests.reference.cosim_loops import Change


def answer(run: Run, rules: Rules, now: Fraction, asked: int, deadline: Number) -> tuple[list[int], str]:
    """Answer a request that has just arrived: the nodes that are given up, or why none is."""
    if run.state != "running":
        return [], "ended"
    if rules.answer == "never":
        return [], "never"
    if rules.answer == "idle-only":
        return idle_nodes(run)[:asked], "no idle node"
    assert run.loop is not None
    assert run.start is not None
    old_end, old_idle = run.loop.foresee()
    places = [k for k, node in enumerate(run.nodes) if k > 0 and node in run.held - run.yielded]
    places = sorted((k for k in places if old_idle[k] > now), key=lambda k: (old_idle[k], k))
    for m in range(min(asked, len(places)), 0, -1):
        end, idle = run.loop.foresee(Change(now, tuple(places[:m]), back=False))
        in_time = all(idle[k] < old_idle[k] and idle[k] <= deadline for k in places[:m])
        limit = (1 + Fraction(rules.tolerance)) * (old_end - run.start)
        if in_time and (rules.answer == "always" or end - run.start <= limit):
            run.loop.change(places[:m], back=False)
            nodes = [run.nodes[k] for k in places[:m]]
            run.yielded |= set(nodes)
            return nodes, ""
    return [], "no node fits"


def idle_nodes(run: Run) -> list[int]:
    """Nodes whose message is on its way."""
    assert run.loop is not None
    idle = run.loop.idle_since
    places = [place for place in idle if run.nodes[place] in run.held - run.yielded]
    return [run.nodes[place] for place in sorted(places, key=lambda k: (idle[k], k))]
