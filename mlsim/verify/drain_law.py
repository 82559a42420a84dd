"""The law of outages: no job starts on a node out of use, or into a drain that is announced."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlsim._arrays import Ints, Mask
from mlsim.record import OutageKind
from mlsim.scenario import TieOrder, node_ranges
from mlsim.verify.schedule import Schedule
from mlsim.verify.verdicts import Breach, Verdict, not_judged

__all__ = ["judge_drains", "judge_failures"]


def judge_drains(run: Schedule) -> Verdict:
    """Judge that no job starts on drained nodes, nor one that is expected to run into an announced drain."""
    stays, jobs, platform = run.records.occupancy, run.records.jobs, run.scenario.platform
    if not platform.drains:
        return not_judged("drains", "there are none (platform.drains)")
    groups = [(group.name, group.count) for group in platform.nodes]
    expected = run.row_starts + jobs.prediction[stays.job]
    breaches: list[Breach] = []
    for drain in platform.drains:
        end = np.inf if drain.end is None else drain.end
        # With a pass after every event, one may be before the drain is announced, or begins, at its time.
        one_pass = run.scenario.batch.ties is TieOrder.DRAINED
        begins = drain.start if one_pass else np.nextafter(drain.start, np.inf)
        told = drain.announced_at if drain.announced else np.inf
        if told > 0.0 and not one_pass:
            told = np.nextafter(told, np.inf)
        for nodes in node_ranges(drain.nodes, groups):
            there = (stays.node < nodes.stop) & (stays.node + stays.count > nodes.start)
            amid = there & (stays.start >= begins) & (stays.start < end)
            # An attempt that another one followed had an estimate of its own, which no table has.
            into = there & ~amid & (stays.start <= drain.start) & (stays.start >= told) & run.is_last
            for row in np.flatnonzero(amid | (into & (expected > drain.start))).tolist():
                how = "starts" if amid[row] else f"expected until {expected[row]:.17g} s, starts"
                breaches.append(
                    Breach(
                        int(jobs.job_id[stays.job[row]]),
                        float(stays.start[row]),
                        f"{how} on nodes {stays.node[row]} to {stays.node[row] + stays.count[row] - 1}, of "
                        f"which {nodes.start} to {nodes.stop - 1} are drained from {drain.start:.17g} to "
                        f"{end:.17g} s" + (f", announced at {told:.17g} s" if drain.announced else ""),
                    )
                )
    return Verdict.of("drains", f"{len(platform.drains)} drains, {len(stays.job)} stays", breaches)


def judge_failures(run: Schedule) -> Verdict:
    """Judge that no job holds a node that has failed."""
    stays, jobs, outages = run.records.occupancy, run.records.jobs, run.records.outages
    failed = np.flatnonzero(outages.kind == OutageKind.FAILED)
    if not len(failed):
        return not_judged("failures", "no node failed")
    breaches: list[Breach] = []
    for outage, rows in _stays_on(run, failed):
        begin = float(outages.start[outage])
        end = np.inf if np.isnan(outages.end[outage]) else float(outages.end[outage])
        held = (stays.start[rows] < end) & (stays.end[rows] > begin)
        breaches += [
            Breach(
                int(jobs.job_id[stays.job[row]]),
                max(float(stays.start[row]), begin),
                f"holds node {outages.node[outage]}, which is out of use from {begin:.17g} to {end:.17g} s",
            )
            for row in rows[held].tolist()
        ]
    return Verdict.of("failures", f"{len(failed)} failures, {len(stays.job)} stays", breaches)


def _stays_on(run: Schedule, outages: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each outage with the rows of the stays that hold its node at any time."""
    stays, node = run.records.occupancy, run.records.outages.node
    rows: dict[int, Ints] = {}
    for outage in outages.tolist():
        place = int(node[outage])
        if place not in rows:
            there: Mask = (stays.node <= place) & (stays.node + stays.count > place)
            rows[place] = np.flatnonzero(there)
        yield outage, rows[place]
