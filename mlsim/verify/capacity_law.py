"""The law of capacity: no node, and no amount of the machine as a whole, is given twice."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.scenario import MEMORY, megabytes
from mlsim.verify.schedule import Schedule
from mlsim.verify.verdicts import MOST_NAMED, Breach, Verdict, not_judged

__all__ = ["judge_nodes", "judge_shared", "moments_of"]

END: Final = 0
"""A stay is over."""
INSTANT: Final = 1
"""A stay of no length: it has to fit beside those that go on, and holds nothing afterwards."""
BEGIN: Final = 2
"""A stay begins."""


def moments_of(start: Floats, end: Floats) -> tuple[Ints, Ints]:
    """Return the ends and starts of stays in order of time, ends before starts: row and kind of each."""
    instant = end <= start
    rows = np.arange(len(start))
    row = np.concatenate([rows[~instant], rows[instant], rows[~instant]])
    kind = np.repeat([END, INSTANT, BEGIN], [(~instant).sum(), instant.sum(), (~instant).sum()])
    time = np.where(kind == END, end[row], start[row])
    order = np.lexsort((row, kind, time))
    return row[order], kind[order]


@kernel
def _walk_nodes(
    row: Ints, kind: Ints, node: Ints, count: Ints, asked: Ints, capacity: Ints, found: Ints
) -> int:
    """Go through ends and starts, and count what is held of each node.

    Parameters
    ----------
    row, kind
        Of :func:`moments_of`.
    node, count, asked
        Of each stay: first node, number of nodes, and what it holds of each resource on each of them.
    capacity
        What each node has; shape (nodes, resources).
    found
        Is filled with (stay, node, resource, held) of the first breaches.

    Returns
    -------
    int
        How often a stay began on a node on which it does not fit.
    """
    held, breaches = np.zeros_like(capacity), 0
    for k in range(len(row)):
        stay = row[k]
        for place in range(node[stay], node[stay] + count[stay]):
            for r in range(capacity.shape[1]):
                if kind[k] == END:
                    held[place, r] -= asked[stay, r]
                    continue
                amount = held[place, r] + asked[stay, r]
                if kind[k] == BEGIN:
                    held[place, r] = amount
                if amount > capacity[place, r]:
                    if breaches < len(found):
                        found[breaches, 0], found[breaches, 1] = stay, place
                        found[breaches, 2], found[breaches, 3] = r, amount
                    breaches += 1
    return breaches


def judge_nodes(run: Schedule) -> Verdict:
    """Judge that no node holds more than it has, at any time, of cores and of every other resource."""
    stays, jobs = run.records.occupancy, run.records.jobs
    if not run.is_on_machine:
        outside = (stays.node < 0) | (stays.count < 1) | (stays.node + stays.count > run.n_nodes)
        first = int(np.flatnonzero(outside)[0])
        last = stays.node[first] + stays.count[first] - 1
        text = f"holds nodes {stays.node[first]} to {last}, and there are {run.n_nodes}"
        breach = Breach(int(jobs.job_id[stays.job[first]]), float(stays.start[first]), text)
        return Verdict.of("capacity", f"{len(stays.job)} stays", [breach], int(outside.sum()))
    names, capacity, asked = _resources(run)
    found = np.empty((MOST_NAMED, 4), np.int64)
    row, kind = moments_of(stays.start, stays.end)
    count = _walk_nodes(row, kind, stays.node, stays.count, asked, capacity, found)
    breaches = [
        Breach(
            int(jobs.job_id[stays.job[stay]]),
            float(stays.start[stay]),
            f"node {place} ({run.records.nodes.name[place]}) holds {held} {names[r]} with it, and has "
            f"{capacity[place, r]}",
        )
        for stay, place, r, held in found[: min(count, MOST_NAMED)].tolist()
    ]
    what = f"{len(stays.job)} stays, {', '.join(names)} of {run.n_nodes} nodes"
    return Verdict.of("capacity", what, breaches, count)


def _resources(run: Schedule) -> tuple[list[str], Ints, Ints]:
    """Return the names of what nodes have, how much each node has, and what each stay holds of a node.

    Whole nodes are held by one job at once. A job's totals are spread over its nodes, or where nodes are
    shared over its cores: its units are alike.
    """
    stays, jobs, own = run.records.occupancy, run.records.jobs, run.records.own.of
    names, capacity, asked = ["cores"], [run.records.nodes.cores], [stays.cores]
    groups = run.scenario.platform.nodes
    if run.is_exclusive:
        names.append("jobs at once")
        capacity.append(np.ones(run.n_nodes, np.int64))
        asked.append(np.ones(len(stays.job), np.int64))
    for name in run.scenario.platform.resource_names:
        if f"request_{name}" not in own:
            continue
        of_group = [
            megabytes(group.memory or 0.0) if name == MEMORY else group.resources.get(name, 0)
            for group in groups
        ]
        total = np.asarray(own[f"request_{name}"], np.int64)[stays.job]
        whole = np.maximum(run.units if run.is_exclusive else jobs.cores, 1)[stays.job]
        names.append(name)
        capacity.append(np.repeat(of_group, [group.count for group in groups]))
        asked.append(-(-total * (1 if run.is_exclusive else stays.cores) // whole))
    return names, np.stack(capacity, axis=1).astype(np.int64), np.stack(asked, axis=1).astype(np.int64)


def judge_shared(run: Schedule) -> Verdict:
    """Judge that jobs never hold more than there is of what the machine has as a whole."""
    jobs, attempts, shared = run.records.jobs, run.records.attempts, run.records.shared
    if not shared.name:
        return not_judged("shared", "the machine has nothing as a whole (platform.shared)")
    job = np.concatenate([np.flatnonzero(run.ran), attempts.job])
    start = np.concatenate([jobs.start_time[run.ran], attempts.start])
    end = np.concatenate([jobs.end_time[run.ran], attempts.end])
    row, kind = moments_of(start, end)
    sign = np.where(kind == END, -1, 1)
    breaches: list[Breach] = []
    for column, name in enumerate(shared.name):
        amount = run.shares[job[row], column] * sign
        held = np.cumsum(np.where(kind == INSTANT, 0, amount)) + np.where(kind == INSTANT, amount, 0)
        over = np.flatnonzero((held > shared.capacity[column]) & (kind != END))
        unit = f" {shared.unit[column]}" if shared.unit[column] else ""
        breaches += [
            Breach(
                int(jobs.job_id[job[row[k]]]),
                float(start[row[k]]),
                f"{held[k]}{unit} of {name} are held with it, and there are {shared.capacity[column]}{unit}",
            )
            for k in over
        ]
    return Verdict.of("shared", f"{len(job)} stays, {', '.join(shared.name)}", breaches)
