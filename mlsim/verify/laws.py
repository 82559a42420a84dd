"""Laws that every schedule keeps: capacity, power cap, outages, promises of backfilling."""

from dataclasses import replace
from typing import Final

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.record import OutageKind, Records
from mlsim.scenario import Policy, Scenario, amount_types
from mlsim.scenario.resources_section import DEVICE_PARTS, MEMORY, megabytes
from mlsim.scenario.words import Compression, Dispatcher, EasyRule, TieOrder
from mlsim.verify import run_schedule
from mlsim.verify.plain_schedules import BEGIN, END, INSTANT, RANKED, WARNING, moments_of
from mlsim.verify.rule_walk import Reading, Rule, judge_rule
from mlsim.verify.run_schedule import Breach, Schedule, Verdict, not_judged, obstacles, schedule_of_run


def judge_drains(run: Schedule) -> Verdict:
    """Judge that no job starts on drained nodes, or before an announced drain that it would run into."""
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
        for nodes in amount_types.node_ranges(drain.nodes, groups):
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
    on_node: dict[int, Ints] = {}
    for outage in failed.tolist():
        node = int(outages.node[outage])
        if node not in on_node:
            on_node[node] = np.flatnonzero((stays.node <= node) & (stays.node + stays.count > node))
        rows = on_node[node]
        begin = float(outages.start[outage])
        end = np.inf if np.isnan(outages.end[outage]) else float(outages.end[outage])
        held = (stays.start[rows] < end) & (stays.end[rows] > begin)
        breaches += [
            Breach(
                int(jobs.job_id[stays.job[row]]),
                max(float(stays.start[row]), begin),
                f"holds node {node}, which is out of use from {begin:.17g} to {end:.17g} s",
            )
            for row in rows[held].tolist()
        ]
    return Verdict.of("failures", f"{len(failed)} failures, {len(stays.job)} stays", breaches)


@kernel
def _walk_nodes(
    row: Ints, kind: Ints, node: Ints, count: Ints, asked: Ints, capacity: Ints, found: Ints
) -> int:
    """Sum the amounts held of each node over time; return the number of stays that do not fit at their start.

    ``row`` and ``kind`` are those of :func:`moments_of`; ``asked`` is what a stay holds of each resource on
    each of its nodes, ``capacity`` (nodes, resources) what nodes have. ``found`` receives the first breaches:
    stay, node, resource, held.
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
    """Judge that no node ever holds more than it has, of cores and of every other resource."""
    stays, jobs = run.records.occupancy, run.records.jobs
    if not run.is_on_machine:
        outside = (stays.node < 0) | (stays.count < 1) | (stays.node + stays.count > run.n_nodes)
        first = int(np.flatnonzero(outside)[0])
        last = stays.node[first] + stays.count[first] - 1
        text = f"holds nodes {stays.node[first]} to {last}, and there are {run.n_nodes}"
        breach = Breach(int(jobs.job_id[stays.job[first]]), float(stays.start[first]), text)
        return Verdict.of("capacity", f"{len(stays.job)} stays", [breach], int(outside.sum()))
    names, capacity, asked = _resources(run)
    found = np.empty((run_schedule.MOST_NAMED, 4), np.int64)
    row, kind = moments_of(stays.start, stays.end)
    count = _walk_nodes(row, kind, stays.node, stays.count, asked, capacity, found)
    breaches = [
        Breach(
            int(jobs.job_id[stays.job[stay]]),
            float(stays.start[stay]),
            f"node {place} ({run.records.nodes.name[place]}) holds {held} {names[r]} with it, and has "
            f"{capacity[place, r]}",
        )
        for stay, place, r, held in found[: min(count, run_schedule.MOST_NAMED)].tolist()
    ]
    what = f"{len(stays.job)} stays, {', '.join(names)} of {run.n_nodes} nodes"
    return Verdict.of("capacity", what, breaches, count)


def _resources(run: Schedule) -> tuple[list[str], Ints, Ints]:
    """Return the names of nodes' resources, the amount of each node, and what each stay holds per node.

    A job's totals are spread evenly over its nodes, or its cores where nodes are shared.
    """
    stays, jobs, own = run.records.occupancy, run.records.jobs, run.records.own.of
    names, capacity, asked, first = ["cores"], [run.records.nodes.cores], [stays.cores], 0
    groups, of_devices = run.scenario.platform.nodes, run.scenario.platform.device_names
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
        parts = DEVICE_PARTS if name in of_devices else 1
        total = np.rint(np.asarray(own[f"request_{name}"], np.float64) * parts).astype(np.int64)[stays.job]
        whole = np.maximum(run.units if run.is_exclusive else jobs.cores, 1)[stays.job]
        names.append(f"thousandths of {name}" if parts > 1 else name)
        capacity.append(parts * np.repeat(of_group, [group.count for group in groups]))
        asked.append(-(-total * (1 if run.is_exclusive else stays.cores) // whole))
        if parts == 1 or stays.devices is None:
            continue
        for k in range(max(of_group)):
            names.append(f"thousandths of {name} {k}")
            capacity.append(np.minimum(np.maximum(capacity[-1 - k] - k * parts, 0), parts))
            asked.append((stays.devices >> first & 1) * np.minimum(total, parts))
            first += 1
    return names, np.stack(capacity, axis=1).astype(np.int64), np.stack(asked, axis=1).astype(np.int64)


def judge_shared(run: Schedule) -> Verdict:
    """Judge that jobs never hold more of a machine-wide amount than there is."""
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


_ROUNDING: Final = 1e-6  # Part of the cap by which sums of powers may exceed it through rounding


@kernel
def _walk_power(
    row: Ints,
    kind: Ints,
    node: Ints,
    count: Ints,
    cores: Ints,
    is_outage: Mask,
    capacity: Ints,
    idle: Floats,
    busy: Floats,
    off: Floats,
) -> Floats:
    """Return the power of the machine after each start and end of stays and outages (W).

    A node in use takes idle + (busy - idle) x held / cores, an unallocated one out of use ``off``. An outage
    is a stay of no cores during which its node is out of use.
    """
    power, held, out = np.empty(len(row)), np.zeros_like(capacity), np.zeros_like(capacity)
    total = idle.sum()
    for k in range(len(row)):
        stay, sign = row[k], -1 if kind[k] == END else 1
        if kind[k] != INSTANT:
            for place in range(node[stay], node[stay] + count[stay]):
                for after in range(2):
                    one = idle[place] + (busy[place] - idle[place]) * held[place] / capacity[place]
                    if held[place] == 0 and out[place] > 0:
                        one = off[place]
                    total += one if after else -one
                    if not after and is_outage[stay]:
                        out[place] += sign
                    elif not after:
                        held[place] += sign * cores[stay]
        power[k] = total
    return power


def judge_cap(run: Schedule) -> Verdict:
    """Judge that the power of the machine never exceeds the cap after the starts of a time."""
    cap, power = run.scenario.batch.power_cap, run.records.nodes.power
    if cap is None or power is None:
        return not_judged("power cap", "there is none (batch.power_cap)")
    stays, jobs, outages = run.records.occupancy, run.records.jobs, run.records.outages
    n, more = len(stays.job), len(outages.node)
    start = np.concatenate([stays.start, outages.start])
    end = np.concatenate([stays.end, np.where(np.isnan(outages.end), np.inf, outages.end)])
    row, kind = moments_of(start, end)
    after = _walk_power(
        row,
        kind,
        np.concatenate([stays.node, outages.node]),
        np.concatenate([stays.count, np.ones(more, np.int64)]),
        np.concatenate([stays.cores, np.zeros(more, np.int64)]),
        np.repeat([False, True], [n, more]),
        run.records.nodes.cores,
        power.idle,
        power.busy,
        power.off,
    )
    time = np.where(kind == END, end[row], start[row])
    is_start = np.concatenate([stays.start == run.row_starts, np.zeros(more, np.bool_)])
    starts = np.flatnonzero((kind != END) & is_start[row])
    final = after[np.searchsorted(time, time[starts], side="right") - 1]
    times, levels = np.array([-np.inf, *(at for at, _ in cap)]), np.array([np.inf, *(w for _, w in cap)])
    limit = levels[np.searchsorted(times, time[starts], side="right") - 1]
    over = np.flatnonzero(final > limit * (1.0 + _ROUNDING))
    over = over[np.unique(stays.job[row[starts[over]]], return_index=True)[1]]  # a job may have many stays
    breaches = [
        Breach(
            int(jobs.job_id[stays.job[row[starts[k]]]]),
            float(time[starts[k]]),
            f"starts, and the machine takes {final[k]:.10g} W then; the cap is {limit[k]:.10g} W",
        )
        for k in over.tolist()
    ]
    return Verdict.of("power cap", f"{len(starts)} starts", breaches)


PROMISES: Final = ("easy", "conservative")  # that can be asked for whatever dispatcher made a schedule


_EVENTS: Final = {TieOrder.PER_EVENT: "submissions first", TieOrder.ENDS_FIRST: "ends first"}


def rule_of(run: Schedule, name: str) -> tuple[Rule, Reading]:
    """Return a rule of scheduling with the order, reservations and intervals of a run, and its reading."""
    batch = run.scenario.batch
    rule = Rule(
        name,
        batch.ordering if batch.ordering in RANKED else Policy.FCFS,
        batch.reservations,
        deadline_factor=batch.deadline_factor,
        interval=batch.pass_interval,
        backfill_interval=batch.backfill_interval,
        fills=batch.easy is EasyRule.STANDARD and batch.compression is Compression.FIXPOINT,
    )
    reading = replace(Reading.of(rule), events=_EVENTS.get(batch.ties, "together"))
    if name == "conservative" and batch.compression is Compression.ONE_ROUND:
        reading = replace(reading, reservations="once")
    return rule, reading


def judge_promise(run: Schedule, promise: str, asked: bool) -> Verdict:
    """Judge that each start keeps the reservations that a rule of backfilling makes."""
    law, batch = f"{'EASY' if promise == 'easy' else promise}'s promise", run.scenario.batch
    if not asked and not (batch.dispatcher == Dispatcher.QUEUE and batch.backfill.value == promise):
        return not_judged(law, f"backfill is not {promise}")
    if reason := next(obstacles(run, promise), ""):
        return not_judged(law, reason)
    rule, reading = rule_of(run, promise)
    found, _ = judge_rule(schedule_of_run(run), rule, run_schedule.MOST_NAMED, reading)
    breaches = [
        Breach(int(one.jobs[0]), one.time, one.text.removeprefix(f"job {one.jobs[0]} "))
        for one in found.described
        if one.kind != WARNING
    ]
    return Verdict.of(law, f"{int(run.ran.sum())} starts", breaches, found.faults)


def judge_laws(run: Schedule) -> tuple[Verdict, ...]:
    """Judge a run by the laws that hold for every dispatcher."""
    laws = [
        run_schedule.judge_arrivals,
        run_schedule.judge_walltimes,
        run_schedule.judge_stays,
        judge_nodes,
        judge_shared,
    ]
    laws += [judge_drains, judge_failures] + ([judge_cap] if run.is_on_machine else [])
    return tuple(law(run) for law in laws)


def judge(records: Records, scenario: Scenario, promise: str | None = None) -> tuple[Verdict, ...]:
    """Judge a run by every law; ``promise`` (of :data:`PROMISES`) is judged whatever the dispatcher."""
    run = Schedule(records, scenario)
    return (*judge_laws(run), *(judge_promise(run, each, each == promise) for each in PROMISES))
