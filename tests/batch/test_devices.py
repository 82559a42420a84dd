"""Devices of nodes: schedules against the slow reference, and what must hold whatever happens."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.batch.columns.job_columns import NUMBER
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.room.unit_requests import PowerCap
from mlsim.errors import InputError
from mlsim.platform.machine import PowerColumns
from mlsim.record import JobState
from mlsim.scenario import from_mapping
from tests.batch.builders import RigidApplications
from tests.batch.hardware import jobs_with_requests, machine, simulate, system
from tests.batch.pairs import BACKFILLS
from tests.batch.test_announced import KEYS, assert_same, entries, lengths, options, outages_of, quarters
from tests.effort import examples
from tests.reference.allocators import ALLOCATORS
from tests.reference.devices import PARTS, DeviceNodes, DeviceSystem
from tests.reference.planning import Job, Rules
from tests.verify.test_laws import broken, with_column

GPUS = machine(
    (1, 8, 16, {"gpu": "2 devices"}),
    (1, 8, 12, {"gpu": "3 devices", "npu": "1 device"}),
    (2, 4, 4, {"mic": 1}),
    network={"topology": "star"},
)
"""Columns: cores, memory, gpu, npu, mic; devices: three of gpu, one of npu."""
LINKS = [GPUS.network.links_from(node, GPUS.n_nodes).tolist() for node in range(GPUS.n_nodes)]
OF = [2, 2, 2, 3]
COUNTS = np.array([[2, 0], [3, 1], [0, 0], [0, 0]])


def nodes() -> DeviceNodes:
    devices = [[PARTS * (k < gpu) for k in range(3)] + [PARTS * npu] for gpu, npu in COUNTS.tolist()]
    return DeviceNodes(np.hstack([GPUS.capacity, devices]), OF, LINKS)


@st.composite
def jobs_of(draw):
    """A job: submit, run, estimate, units, and what a unit asks for, of devices in parts."""
    gpu = draw(st.sampled_from([300, 400, 500, 600, 600, 700, 999, 0, 1000, 1000, 2000]))
    npu = draw(st.sampled_from([0, 0, 0, 0, 400, 600, 1000]))
    units = draw(st.integers(1, 3)) if gpu % PARTS == 0 and npu % PARTS == 0 else 1
    amounts = (draw(st.integers(1, 2)), draw(st.integers(0, 3)), gpu, npu, draw(st.sampled_from([0, 0, 1])))
    submit = draw(st.integers(0, 16)) / 4
    return submit, draw(quarters), draw(lengths), units, amounts


job_lists = st.lists(jobs_of(), min_size=1, max_size=22)


def rows_of(jobs):
    submit, run, estimate, units, asked = zip(*jobs, strict=True)
    asked = np.array(asked)
    logged = asked.copy()
    logged[:, 2:4] = -(-asked[:, 2:4] // PARTS)
    rows = jobs_with_requests(GPUS, submit, run, estimate, units, logged)
    order = np.lexsort((np.arange(len(submit)), submit))
    parts = {
        name: np.where(asked[order, r] % PARTS > 0, asked[order, r], 0)
        for name, r in (("gpu", 2), ("npu", 3))
    }
    return replace(rows, asked=replace(rows.asked, parts=parts)), asked[order]


def twins_of(rows, asked) -> list[Job]:
    columns = (rows.submit_time, rows.run_time, rows.estimate, rows.asked.units, asked)
    return [
        Job(n, float(r), float(p), float(e), int(u), tuple(map(int, each)))
        for n, (r, p, e, u, each) in enumerate(zip(*columns, strict=True))
    ]


def assert_devices(twins, held) -> None:
    """Stays have the devices of the reference, those of the last attempt."""
    for twin in twins:
        there: dict[int, int] = {}
        for place in twin.nodes if twin.stays else ():
            there[int(place)] = there.get(int(place), 0) + sum(1 << device for device in place.devices)
        found = {}
        for row in np.flatnonzero((held.job == twin.number) & (held.start == twin.start)):
            for node in range(held.node[row], held.node[row] + held.count[row]):
                found[node] = int(held.devices[row])
        if len(twin.stays) == 1 and twin.end > twin.start:
            assert found == there


def assert_held(asked, held) -> None:
    """No device is held beyond its parts."""
    events = []
    for row in range(len(held.job)):
        request = asked[held.job[row]]
        taken = [(held.devices[row] >> k & 1) * min(request[of], PARTS) for k, of in enumerate(OF)]
        assert all(part >= 0 for part in taken)
        for node in range(held.node[row], held.node[row] + held.count[row]):
            units = held.cores[row] // request[0]
            for r in (2, 3):
                of_r = sum(part for part, of in zip(taken, OF, strict=True) if of == r)
                assert of_r == units * request[r]
            if held.end[row] > held.start[row]:
                events += [(held.start[row], 1, node, taken), (held.end[row], 0, node, taken)]
    used = np.zeros((GPUS.n_nodes, len(OF)), np.int64)
    for _, begins, node, taken in sorted(events, key=lambda event: event[:3]):
        used[node] += np.array(taken) * (1 if begins else -1)
        assert (used[node] <= np.array(nodes().capacity[node])[-len(OF) :]).all()


@st.composite
def studies(draw, backfills=BACKFILLS):
    rule = draw(st.sampled_from(backfills))
    rules = Rules(
        rule["backfill"],
        rule.get("reservations", 1),
        kill=draw(st.booleans()),
        restart=draw(st.booleans()),
        max_restarts=draw(st.sampled_from([1, 5])),
        one_round=rule.get("compression", "") == "one-round",
        ties=draw(st.sampled_from(["drained", "per-event", "ends-first"])),
    )
    batch = rule | {"on_overrun": "kill" if rules.kill else "extend", "ties": rules.ties}
    batch |= {"on_failure": "restart", "max_restarts": rules.max_restarts} if rules.restart else {}
    listed = draw(st.lists(entries(), max_size=4)) if draw(st.booleans()) else []
    return draw(job_lists), listed, rules, batch


RULES = [rule for rule in (*BACKFILLS, {"backfill": "none"}) if rule.get("compression") != "every-end"]


@settings(deadline=None, max_examples=examples(250))
@given(studies(RULES), st.sampled_from(sorted(ALLOCATORS)), st.sampled_from(sorted(KEYS)))
def test_agrees_with_the_slow_reference(study, allocator, policy):
    """All allocators and backfillings, with outages of all kinds, restarts and announced drains."""
    jobs, listed, rules, batch = study
    rows, asked = rows_of(jobs)
    batch |= {"allocator": allocator, "policy": policy} | options(listed)
    _, done, held = simulate(GPUS, rows, **batch)
    twins = twins_of(rows, asked)
    there = nodes()
    DeviceSystem(
        there, there.with_devices(ALLOCATORS[allocator]), rules, outages_of(listed), KEYS[policy]
    ).run(twins)
    assert_same(twins, done, held, False)
    assert_devices(twins, held)
    assert_held(asked, held)


@settings(deadline=None, max_examples=examples(80))
@given(
    studies([{"backfill": "none"}, {"backfill": "greedy"}, {"backfill": "easy"}]),
    st.sampled_from(["first-fit", "best-fit", "worst-fit"]),
    st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.5, 8.0])] * 3), min_size=4, max_size=4),
    st.integers(1, 16),
)
def test_a_power_cap_agrees_with_the_slow_reference(study, allocator, watts, level):
    jobs, listed, rules, batch = study
    rows, asked = rows_of(jobs)
    power = tuple((off + idle, off + idle + busy, off) for off, idle, busy in watts)
    idle, busy, off = (np.array(column) for column in zip(*power, strict=True))
    caps = ((1.0, float(idle.sum() + level / 16 * (busy - idle).sum() + 0.125)),)
    rules = replace(rules, power=power, caps=caps)
    cap = PowerCap(PowerColumns(idle, busy, off), GPUS.cores, False, caps)
    batch |= {"allocator": allocator} | options(listed)
    _, done, held = simulate(GPUS, rows, cap=cap, **batch)
    twins = twins_of(rows, asked)
    there = nodes()
    DeviceSystem(there, there.with_devices(ALLOCATORS[allocator]), rules, outages_of(listed)).run(twins)
    assert_same(twins, done, held, False)
    assert_held(asked, held)


class Releasing(RigidApplications):
    """Jobs release nodes, but the first one, of those that they have."""

    def launch(self, slot, at):
        table = self.batch.state.table
        number, rows = int(table.ints[NUMBER, slot]), int(table.column("rows")[slot])
        self.releases[number] = self.releases.get(number, [])[: rows - 1]
        return super().launch(slot, at)


@settings(deadline=None, max_examples=examples(60))
@given(
    job_lists,
    st.sampled_from([*BACKFILLS, {"dispatcher": "recorded"}]),
    st.sampled_from(["demand-aware", "first-fit", "worst-fit"]),
    st.sampled_from([{}, {"ties": "per-event"}, {"pass_interval": 1.5}]),
    st.sampled_from([None, "any", "short-first"]),
    st.lists(entries(), max_size=3),
    st.data(),
)
def test_no_device_is_held_twice(jobs, rule, allocator, more, released, listed, data):
    """Whatever the rules: nodes that loops release early, recorded starts, passes at intervals, outages."""
    rows, asked = rows_of(jobs)
    starts = np.ceil(rows.submit_time).astype(np.int64) + data.draw(st.integers(0, 5))
    batch = rule | options(listed)
    if "dispatcher" not in rule:  # recorded starts have first-fit
        reserve = {"reserve": 0.5} if allocator == "demand-aware" else {}
        batch |= {"allocator": allocator} | reserve | more
    releases, log = {}, None
    if released is not None:
        batch["coordination"], log = {"rca": True, "released_nodes": released}, MessageLog(0.0)
        parts = st.lists(st.sampled_from([0.25, 0.5, 0.5, 1.0]), max_size=3).map(sorted)
        releases = {n: [part * run for part in data.draw(parts)] for n, run in enumerate(rows.run_time)}
    rows = replace(rows, recorded_start=starts)
    made = system(GPUS, rows, log=log, **batch)
    made.run([rows], Releasing(made, releases))
    done, held = made.jobs(), made.occupancy_rows()
    assert_held(asked, held)
    if not listed and rule.get("dispatcher") != "recorded":
        assert not np.isnan(done.end_time[done.state != JobState.REJECTED]).any()


HEAD = "job_id,submit_time,run_time,processors,node_count,request_gpu\n"
NODES = [{"name": "n", "count": 2, "cores": 8, "resources": {"gpu": "2 devices"}}]


ONE_NODE = [NODES[0] | {"count": 1}]


def scenario_of(path, nodes=NODES, request=None, mapping="core", **batch):
    return {
        "platform": {"nodes": nodes},
        "workload": {"path": str(path), "mapping": mapping, "request": request or {}},
        "batch": batch if "dispatcher" in batch else {"backfill": "easy"} | batch,
        "output": {"pictures": "off"},
    }


def run(tmp_path, lines: str, out=None, **others):
    path = tmp_path / "jobs.csv"
    path.write_text(HEAD + lines)
    return mlsim.run(scenario_of(path, **others), out=out)


def test_parts_of_several_devices_do_not_add_up(tmp_path):
    """0.4 of each device is free, and a job of 0.5 waits; one of 0.3 gets the device with the least left."""
    lines = "1,0,9,1,1,0.6\n2,0,9,1,1,0.6\n3,1,9,1,1,0.5\n4,2,9,1,1,0.3\n"
    done = run(tmp_path, lines, nodes=ONE_NODE)
    assert done.jobs["start_time"].to_list() == [0, 0, 9, 2]
    assert done.occupancy["devices"].to_list() == [1, 2, 1, 1]
    assert done.jobs["request_gpu"].to_list() == [0.6, 0.6, 0.5, 0.3]


def test_whole_devices_of_several_nodes_and_without_devices(tmp_path):
    lines = "1,0,9,4,2,4\n2,0,9,1,1,0.001\n3,0,9,1,1,\n"
    done = run(tmp_path, lines)
    assert done.jobs["start_time"].to_list() == [0, 9, 0]
    assert done.occupancy.sort("job_id")["devices"].to_list() == [3, 1, 0]
    counted = [NODES[0] | {"resources": {"gpu": 2}}]
    done = run(tmp_path, lines.replace("0.001", "1"), nodes=counted)
    assert done.jobs["start_time"].to_list() == [0, 9, 0]
    assert "devices" not in done.occupancy.columns
    assert done.jobs["request_gpu"].to_list() == [4, 1, 0]


def test_whole_nodes_come_with_their_devices(tmp_path):
    done = run(tmp_path, "1,0,9,1,1,0.5\n2,0,9,1,1,0.5\n3,0,9,1,1,0.5\n", mapping="node")
    assert done.jobs["start_time"].to_list() == [0, 0, 9]


def test_a_share_for_all_jobs_is_of_the_job(tmp_path):
    lines = "1,0,9,4,,\n2,0,9,2,1,\n3,0,9,1,,2\n4,0,9,4,2,\n"
    done = run(tmp_path, lines, request={"resources": {"gpu": 0.5}})
    assert done.jobs["request_gpu"].to_list()[:3] == [0.5, 0.5, 2.0]
    assert done.jobs["start_time"].to_list()[:3] == [0, 0, 0]
    assert done.jobs["state"].to_list() == ["completed"] * 3 + ["rejected"]
    reason = "asks for 0.5 gpu for each of 2 units; a job of one unit may ask for a share of one device"
    assert reason in done.jobs["reason"].to_list()[3]


def test_a_run_is_a_workload_again_and_obeys_the_laws(tmp_path):
    first = run(tmp_path, "1,0,9,1,1,0.6\n2,0,9,4,2,4\n3,1,5,1,1,0.5\n4,2,5,1,1,0.3\n", out=tmp_path / "a")
    second = mlsim.run(scenario_of(tmp_path / "a"))
    assert second.occupancy.equals(first.occupancy)
    assert second.jobs["request_gpu"].equals(first.jobs["request_gpu"])
    assert broken(first.records, first.scenario) == {}
    held = first.records.occupancy
    row = int(np.flatnonzero(held.job == 2)[0])
    planted = with_column(first.records, "occupancy", "devices", row, 1)
    breach = broken(planted, first.scenario)["capacity"].breaches[0]
    assert "holds 1100 thousandths of gpu 0 with it, and has 1000" in str(breach)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("1,0,9,1,1,1.5", "jobs.csv:2: broken line: request_gpu is '1.5'; expected a whole number, a share"),
        ("1,0,9,1,1,0.0001", "request_gpu is '0.0001'; expected a whole number, a share"),
        (
            "1,0,9,2,2,0.5",
            "csv:2: broken line: request_gpu is '0.5'; expected whole devices of a job of several",
        ),
    ],
)
def test_amounts_that_no_device_has_are_told_with_the_line(tmp_path, line, told):
    with pytest.raises(InputError, match=re.escape(told)):
        run(tmp_path, line + "\n")


def test_a_share_of_what_is_counted_is_told(tmp_path):
    counted = [NODES[0] | {"resources": {"gpu": 2}}]
    with pytest.raises(InputError, match=r"job 7: request_gpu is 0.5, .* counts gpu(.|\n)*gpu: 8 devices"):
        run(tmp_path, "7,0,9,1,1,0.5\n", nodes=counted)
    with pytest.raises(InputError, match="a share is of a device; the platform counts gpu"):
        run(tmp_path, "7,0,9,1,1,\n", nodes=counted, request={"resources": {"gpu": 0.5}})


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ([{"gpu": "2 devices"}, {"gpu": 1}], "gpu: 1, and other groups have devices; write gpu: 1 devices"),
        ([{"gpu": "40 devices", "npu": "23 devices"}], "63 devices on a node; allowed: at most 62"),
        ([{"gpu": "two devices"}], "gpu"),
        ([{"gpu": 0.5}], "gpu"),
    ],
)
def test_platforms_that_make_no_sense_are_told(resources, told):
    groups = [
        {"name": f"n{k}x", "count": 1, "cores": 1, "resources": each} for k, each in enumerate(resources)
    ]
    with pytest.raises(InputError, match=told):
        from_mapping({"platform": {"nodes": groups}, "workload": {"path": "x.swf"}})


def test_jobs_that_no_node_holds_are_rejected_in_devices(tmp_path):
    done = run(tmp_path, "1,0,9,1,1,3\n2,0,9,10,10,10\n", nodes=[NODES[0] | {"cores": 16}])
    assert done.jobs["reason"].to_list() == [
        "asks for 3 gpu on one node; the largest has 2",
        "asks for 10 gpu; the machine has 4",
    ]


def test_planners_reject_devices(tmp_path):
    with pytest.raises(InputError, match="amounts of nodes, and gpu of this platform is of devices"):
        run(tmp_path, "1,0,9,1,1,1\n", dispatcher="lists")


OWN = """
import numpy as np
from mlsim.batch.view import Start

class OnNode:
    def dispatch(self, view):
        assert view.resources == ("cores", "gpu")
        assert view.capacity.tolist() == [[8, 2000], [8, 2000]]
        assert view.free.shape == (2, 2)
        yield Start(0, nodes=[0])

class FirstNode:
    def allocate(self, units, request, free, capacity):
        assert free.shape == capacity.shape == (2, 2)
        fits = (free >= request).all(axis=1)
        return [int(np.argmax(fits))] if fits.any() else None
"""


def own(tmp_path, name: str) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path / 'own.py'}:{name}"


def test_a_dispatcher_of_ones_own_sees_sums(tmp_path):
    batch = {"dispatcher": own(tmp_path, "OnNode")}
    done = run(tmp_path, "1,0,9,1,1,0.6\n2,1,9,1,1,0.6\n", **batch)
    assert done.occupancy["devices"].to_list() == [1, 2]
    with pytest.raises(InputError, match="do not fit on node 0"):
        run(tmp_path, "1,0,9,1,1,0.6\n2,1,9,1,1,0.6\n3,2,9,1,1,0.5\n", **batch)


@pytest.mark.parametrize("backfill", ["none", "greedy", "easy", "conservative"])
def test_an_allocator_of_ones_own_sees_sums(tmp_path, backfill):
    """Where it names a node of which no device has the share, the job waits; EASY sees that others have."""
    lines = "1,0,9,1,1,0.6\n2,1,9,1,1,0.6\n3,2,9,1,1,0.5\n4,3,9,1,1,2\n"
    done = run(tmp_path, lines, allocator=own(tmp_path, "FirstNode"), backfill=backfill)
    assert done.jobs["start_time"].to_list() == [0, 1, 9, 3 if backfill in ("greedy", "conservative") else 9]
    assert done.occupancy.sort("job_id")["node"].to_list() == [0, 0, 0, 1]
