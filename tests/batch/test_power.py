"""Energy by conservation laws, and power caps against a slow twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.analysis.machine_metrics import energy_metrics
from mlsim.batch.state import pool_state
from mlsim.errors import InputError
from mlsim.record import (
    Chunks,
    JobState,
    Loops,
    Messages,
    NodePower,
    Nodes,
    OutageKind,
    PEs,
    PowerSteps,
    Records,
    empty,
)
from mlsim.record.derived_times import job_energy, power_over_time, run_energy, run_span
from mlsim.scenario import from_mapping
from tests.batch.builders import block, simulate
from tests.batch.test_failures import assert_same, by_reference, job_lists, options, studies
from tests.reference.outages import Job, Rules, UnevenMachine

watts = st.sampled_from([0.0, 1.0, 2.5, 10.0])


@st.composite
def powered(draw, capped: bool):
    rules, jobs = draw(studies())
    off, idle, busy = np.cumsum([draw(watts), draw(watts), draw(watts.filter(lambda w: w > 0))]).tolist()
    rules = replace(rules, off=off, idle=idle, busy=busy)
    if not draw(st.booleans()):
        rules = replace(rules, outages=())
    if capped:
        highest = rules.nodes * busy
        level = st.integers(1, 16).map(
            lambda k: float(rules.nodes * idle + k / 16 * (highest - rules.nodes * idle))
        )
        times = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=3)))
        rules = replace(rules, caps=tuple((float(time), draw(level)) for time in times))
    return rules, jobs


def power_options(rules: Rules) -> dict[str, object]:
    power = {"idle": rules.idle, "busy": rules.busy, "off": rules.off}
    caps = {"power_cap": [list(level) for level in rules.caps]} if rules.caps else {}
    return options(rules) | {"power": power} | caps


def records_of(rules: Rules, batch, done, occupancy, groups: int = 1) -> Records:
    names = [f"n{k}" for k in range(rules.nodes)]
    columns = [np.full(rules.nodes, watt) for watt in (rules.idle, rules.busy, rules.off)]
    if groups > 1:  # power that differs from node to node
        columns = [column * (1 + np.arange(rules.nodes) % groups) for column in columns]
    nodes = Nodes(
        names,
        ["n"] * rules.nodes,
        np.full(rules.nodes, rules.cores),
        np.ones(rules.nodes),
        NodePower(*columns),
    )
    tables = (empty(table) for table in (Loops, Chunks, PEs, Messages))
    outages, attempts = batch.outage_rows(), batch.attempt_rows()
    return Records(nodes, done, occupancy, *tables, outages=outages, attempts=attempts)


def level_of(records: Records, stay: int, node: int, time: float) -> float:
    """Power of a node all of whose cores a stay's job holds: busy, or the step at its age."""
    held, steps = records.occupancy, records.power_steps
    own = np.flatnonzero(steps.job == held.job[stay])
    if not len(own):
        return records.nodes.power.busy[node]
    age = time - held.start[stay]
    if not np.isnan(steps.period[own[0]]):
        age %= steps.period[own[0]]
    return max((steps.time[row], steps.level[row]) for row in own if steps.time[row] <= age)[1]


def node_power(records: Records, node: int, time: float) -> tuple[float, float, float]:
    """Power of a node just after a time: of jobs, of its idle cores, and while it is off."""
    held, outages, power = records.occupancy, records.outages, records.nodes.power
    cores = records.nodes.cores[node]
    on_it = (held.node <= node) & (node < held.node + held.count) & (held.start <= time) & (time < held.end)
    used = held.cores[on_it].sum()
    is_out = (outages.node == node) & (outages.start <= time) & ~(outages.end <= time)
    if is_out.any() and not used:
        return 0.0, 0.0, power.off[node]
    stays = np.flatnonzero(on_it).tolist()
    of_jobs = sum(level_of(records, stay, node, time) * held.cores[stay] / cores for stay in stays)
    return of_jobs, power.idle[node] * (1 - used / cores), 0.0


@st.composite
def measured_jobs(draw, jobs: int) -> PowerSteps:
    """Steps of some jobs; times and periods that halves of seconds hold, so that ages are exact."""
    rows = []
    for job in sorted(draw(st.sets(st.integers(0, jobs - 1)))):
        times = sorted({0.0, *draw(st.sets(st.integers(1, 6).map(lambda k: k / 2), max_size=3))})
        period = draw(st.sampled_from([np.nan, 3.5, 5.0]))
        rows += [(job, time, draw(st.sampled_from([0.0, 3.0, 40.0])), period) for time in times]
    if not rows:
        return empty(PowerSteps)
    job, time, power, period = map(np.array, zip(*rows, strict=True))
    return PowerSteps(job, time, power, period)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(powered(capped=False), st.sampled_from([1, 3]), st.data())
def test_energy_is_power_over_time_and_nothing_is_lost(study, groups, data):
    rules, jobs = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    records = records_of(rules, *simulate(rows, rules.nodes, **options(rules)), groups)
    if data.draw(st.booleans()):
        records = replace(records, power_steps=data.draw(measured_jobs(len(jobs))))
    begin, end = run_span(records)
    held, outages = records.occupancy, records.outages
    ages = np.arange(0, 200) / 2
    ticks = [] if not len(records.power_steps.job) else [start + ages for start in held.start]
    times = np.unique(
        np.concatenate([[begin, end], held.start, held.end, outages.start, outages.end, *ticks])
    )
    times = times[(times >= begin) & (times <= end)]
    sums = np.zeros(3)
    curve_times, curve = power_over_time(records)
    for time, length in zip(times[:-1].tolist(), np.diff(times).tolist(), strict=True):
        now = np.sum([node_power(records, node, time) for node in range(rules.nodes)], axis=0)
        sums += now * length
        at = np.searchsorted(curve_times, time, side="right") - 1
        assert curve[at] == pytest.approx(now.sum())
    energy = run_energy(records)
    assert [energy.jobs, energy.idle, energy.off] == pytest.approx(sums.tolist(), abs=1e-9)
    assert energy.total == pytest.approx(sums.sum(), abs=1e-9)
    assert job_energy(records).sum() == pytest.approx(energy.jobs)
    metrics = energy_metrics(records)
    if end > begin:
        assert metrics["mean_power"] * (end - begin) == pytest.approx(metrics["total"])
        assert metrics["max_power"] >= metrics["mean_power"] - 1e-9


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(powered(capped=True))
def test_a_cap_agrees_with_the_slow_twin(study):
    rules, jobs = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    batch, done, occupancy = simulate(rows, rules.nodes, **power_options(rules))
    assert_same(rules, by_reference(rules, rows), batch, done, occupancy)
    records = records_of(rules, batch, done, occupancy)
    for time in np.unique(occupancy.start[occupancy.end > occupancy.start]).tolist():
        cap = [level for at, level in rules.caps if at <= time][-1:]
        now = sum(sum(node_power(records, node, time)) for node in range(rules.nodes))
        assert not cap or now <= cap[0] + 1e-4


@settings(deadline=None, max_examples=50)
@given(job_lists(4), st.booleans())
def test_a_cap_that_never_binds_changes_nothing(jobs, easy):
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    power = {"idle": 100, "busy": 300}
    common = {"backfill": "easy" if easy else "none", "power": power}
    _, free, _ = simulate(rows, 4, **common)
    _, capped, _ = simulate(rows, 4, power_cap="1.2 kW", **common)
    assert free.start_time.tobytes() == capped.start_time.tobytes()


POWER = {"idle": 100, "busy": 300, "off": 10}


def test_energy_of_a_small_run():
    # 2 nodes of 2 cores for 10 s. Job 0: 3 cores for 4 s; job 1: 1 core for 10 s.
    jobs = block([0, 0], [4, 10], [4, 10], [3, 1])
    rules = Rules(2, 2, exclusive=False, idle=100, busy=300, off=10)
    records = records_of(rules, *simulate(jobs, 2, cores=2, mapping="core"))
    assert job_energy(records).tolist() == [3 * 150 * 4, 150 * 10]
    energy = energy_metrics(records)
    assert (energy["jobs"], energy["off"]) == (3300, 0)
    assert energy["idle"] == 3 * 50 * 6
    assert energy["total"] == 3300 + 900
    assert (energy["mean_power"], energy["max_power"]) == (420, 600)
    assert energy["per_job"]["mean"] == 1650


def test_a_drained_node_is_off_when_its_job_has_left_it():
    jobs = block([0, 0], [4, 10], [4, 10], [1, 1])
    rules = Rules(2, 1, exclusive=True, idle=100, busy=300, off=10)
    run = simulate(jobs, 2, drains=[{"nodes": 0, "start": 1, "end": 8}])
    records = records_of(rules, *run)
    assert records.outages.kind.tolist() == [OutageKind.DRAINED]
    energy = run_energy(records)
    assert (energy.jobs, energy.off, energy.idle) == (300 * 14, 10 * 4, 100 * 2)


def test_a_cap_is_one_more_resource_for_reservations():
    # 4 nodes, 400 W idle; 800 W leave 2. Job 0 has one to 10, job 1 wants 2, as power comes back at 10.
    # Job 2 would end by then; job 3 would not, though two nodes are idle.
    jobs = block([0, 1, 2, 2], [10, 5, 8, 9], [10, 5, 8, 9], [1, 2, 1, 1])
    _, done, _ = simulate(jobs, 4, backfill="easy", power=POWER, power_cap=800)
    assert done.start_time.tolist() == [0, 10, 2, 15]
    assert done.backfilled.tolist() == [False, False, True, False]
    _, done, _ = simulate(jobs, 4, backfill="none", power=POWER, power_cap=800)
    assert done.start_time.tolist() == [0, 10, 15, 15]
    # Without the cap there is room for all but the last.
    assert simulate(jobs, 4)[1].start_time.tolist() == [0, 1, 2, 6]


def test_a_cap_that_changes():
    # 2 nodes at first, 1 from 4 on, all from 20 on. What runs goes on.
    cap = [["0 s", "800 W"], [4, 600], [20, "1.2 kW"]]
    jobs = block([0, 1, 2], [10, 10, 3], [10, 10, 3], [2, 1, 2])
    _, done, _ = simulate(jobs, 4, power=POWER, power_cap=cap)
    assert done.start_time.tolist() == [0, 10, 20]


def test_a_node_that_is_off_leaves_its_power_to_others():
    # 3 nodes idle: 300 W; a cap of 650 W leaves one busy node, and with one node off 440 / 200 = 2.
    jobs = block([0, 0], [5, 5], [5, 5], [1, 1])
    _, done, _ = simulate(jobs, 3, power=POWER, power_cap=650)
    assert done.start_time.tolist() == [0, 5]
    _, done, _ = simulate(jobs, 3, power=POWER, power_cap=650, failures=[{"node": 2, "at": 2}])
    assert done.start_time.tolist() == [0, 2]


def test_a_job_beyond_the_cap_is_rejected():
    _, done, _ = simulate(block([0, 0], [5, 5], [5, 5], [3, 2]), 4, power=POWER, power_cap=800)
    assert done.state.tolist() == [JobState.REJECTED, JobState.COMPLETED]


def group(name: str, **keys):
    return {"name": name, "count": 2, "cores": 4} | keys


@pytest.mark.parametrize(
    ("nodes", "cap", "mapping", "words"),
    [
        ([group("a")], 800, "node", "needs the power of the nodes"),
        ([group("a", power=POWER)], 399, "node", "too little for any job: the idle machine takes 200 W"),
        ([group("a", power=POWER), group("b")], None, "node", "other groups give theirs"),
        ([group("a", power=POWER | {"idle": 301})], None, "node", "is less than idle"),
        ([group("a", power=POWER | {"off": 101})], None, "node", "is more than idle"),
        ([group("a", power=POWER)], [[5, 800], [5, 900]], "node", "not in order of time"),
        ([group("a", power=POWER)], "5 parsecs", "node", "is not a power"),
    ],
)
def test_what_is_wrong_is_told(nodes, cap, mapping, words):
    scenario = {"platform": {"nodes": nodes}, "workload": {"path": "log.swf", "mapping": mapping}}
    if cap is not None:
        scenario["batch"] = {"power_cap": cap}
    with pytest.raises(InputError, match=words):
        from_mapping(scenario)


def test_unequal_power_goes_with_one_reservation_only():
    power = [POWER, POWER | {"busy": 400}]
    with pytest.raises(InputError, match="backfill none, greedy, or easy with one reservation only"):
        simulate(block([0], [1], [1], [1]), 2, power=power, power_cap=800, backfill="conservative")


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(powered(capped=True))
def test_a_cap_is_the_same_in_both_states(study):
    rules, jobs = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    _, done, held = simulate(rows, rules.nodes, **power_options(rules))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_state, "needs_resources", lambda *_: True)
        _, done_there, held_there = simulate(rows, rules.nodes, **power_options(rules))
    for name in ("state", "start_time", "end_time", "backfilled"):
        np.testing.assert_array_equal(getattr(done, name), getattr(done_there, name), name)
    for name in ("job", "node", "count", "start", "end"):
        np.testing.assert_array_equal(getattr(held, name), getattr(held_there, name), name)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(powered(capped=True), st.data())
def test_nodes_of_unequal_power_agree_with_the_slow_twin(study, data):
    rules, jobs = study
    scale = [data.draw(st.sampled_from([1.0, 1.0, 2.0, 4.0])) for _ in range(rules.nodes)]
    rules = replace(rules, off=min(rules.off, rules.idle))
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    given_options = power_options(rules)
    given_options["power"] = [
        {"idle": rules.idle * factor, "busy": rules.busy * factor, "off": rules.off} for factor in scale
    ]
    batch, done, occupancy = simulate(rows, rules.nodes, **given_options)
    twins = [
        Job(int(i), float(r), float(p), float(e), int(q))
        for i, r, p, e, q in zip(
            rows.job_id, rows.submit_time, rows.run_time, rows.estimate, rows.processors, strict=True
        )
    ]
    UnevenMachine(rules, scale).simulate(twins)
    assert_same(rules, twins, batch, done, occupancy)
