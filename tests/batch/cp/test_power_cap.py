"""Planners under a power cap: what the machine takes, whatever happens to it, and what they plan with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mlsim.batch.cp.instance import POWER_CAP, Instance
from mlsim.batch.cp.planning_dispatcher import watching
from mlsim.errors import InputError
from mlsim.record import JobState
from tests.batch.builders import block, simulate
from tests.batch.test_failures import job_lists
from tests.batch.test_power import POWER, node_power, power_options, powered, records_of
from tests.effort import examples

QUICK = {"time_limit": 0.01, "time_limit_max": 0.01, "jobs": 8}


def by(name: str, options: dict) -> dict:
    """The options, for a dispatcher that plans; what the queue reads is left out."""
    kept = {key: value for key, value in options.items() if key not in ("backfill", "policy")}
    limits = {key: value for key, value in QUICK.items() if name != "lists" or key == "jobs"}
    return kept | {"dispatcher": name, "cp": limits}


def beyond(batch) -> list[int]:
    """Jobs that ask for more than a cap ever leaves."""
    found = batch.rejections()
    return [
        job
        for job, code in zip(found.job.tolist(), found.reason.tolist(), strict=True)
        if "the power cap leaves" in found.reasons[code]
    ]


@pytest.mark.parametrize("name", ["lists", "cp", "hcp19", "pcp4"])
@settings(deadline=None, max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
@given(powered(capped=True))
def test_no_start_takes_the_machine_above_the_cap(name: str, study):
    """Caps rise and fall, nodes fail and come back; who could never run is rejected, as by the queue."""
    rules, jobs = study
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    batch, done, held = simulate(rows, rules.nodes, **by(name, power_options(rules)))
    records = records_of(rules, batch, done, held)
    for time in np.unique(held.start[held.end > held.start]).tolist():
        cap = [level for at, level in rules.caps if at <= time][-1:]
        now = sum(sum(node_power(records, node, time)) for node in range(rules.nodes))
        assert not cap or now <= cap[0] + 1e-4
    queue, _, _ = simulate(rows, rules.nodes, **power_options(rules))
    assert beyond(batch) == beyond(queue)
    # Others are left only where a cap or failures leave too little in the end.
    if rules.caps[0][0] == 0 and len(rules.caps) == 1 and not rules.outages:
        assert (done.state == JobState.REJECTED).sum() == len(beyond(batch))


@pytest.mark.parametrize("name", ["lists", "cp"])
@settings(deadline=None, max_examples=20)
@given(job_lists(4))
def test_a_cap_that_never_binds_changes_no_plan(name: str, jobs):
    rows = block(*(np.array(column) for column in zip(*jobs, strict=True)))
    options = by(name, {"power": {"idle": 100, "busy": 300}})
    _, free, _ = simulate(rows, 4, **options)
    _, capped, _ = simulate(rows, 4, power_cap="1.2 kW", **options)
    assert free.start_time.tobytes() == capped.start_time.tobytes()


@pytest.mark.parametrize("name", ["lists", "cp"])
def test_plans_make_way_for_power_that_comes_back(name: str):
    """Four nodes, power for two. Job 1 wants both and is planned for 10, when job 0 gives its back.

    Job 2 ends by then, and starts; job 3 would not, though there are a node and power for it.
    """
    jobs = block([0, 1, 2, 2], [10, 5, 8, 9], [10, 5, 8, 9], [1, 2, 1, 1])
    options = by(name, {"power": POWER, "power_cap": 800})
    starts = simulate(jobs, 4, **options)[1].start_time.tolist()
    assert starts == [0, 10, 2, 15]


def seen_instances(*given, **options) -> list[Instance]:
    seen: list[Instance] = []
    with watching(seen.append):
        simulate(*given, **options)
    return seen


@pytest.mark.parametrize(("cores", "mapping", "asks"), [(1, "node", [1, 2]), (4, "core", [3, 7])])
def test_a_cap_is_counted_in_nodes_or_cores(cores: int, mapping: str, asks: list[int]):
    """Four nodes take 400 W when idle; 800 W leave 400: two nodes, or eight cores of such of four."""
    rows = block([0, 1], [10, 5], [10, 5], asks)
    options = by("lists", {"power": POWER, "power_cap": 800})
    first, second = seen_instances(rows, 4, cores=cores, mapping=mapping, **options)[:2]
    assert first.shared.names == ()  # the cap cannot keep any that wait from starting
    assert second.shared.names == (POWER_CAP,)
    assert second.shared.asked.tolist() == [[asks[1]]]
    assert second.shared.held.tolist() == [[asks[0]]]
    assert second.shared.free.tolist() == [2 * cores - asks[0]]
    assert second.shared.capacity.tolist() == [2 * cores]


SEEING = """
from mlsim.batch.view import Start


class Mine:
    def dispatch(self, view):
        assert view.power_units == 2 - len(view.running)
        yield from (Start(k, [k + len(view.running)]) for k in range({most}))
"""


@pytest.mark.parametrize("most", ["min(len(view.waiting), view.power_units)", "len(view.waiting)"])
def test_a_plugin_sees_what_the_cap_leaves_and_cannot_take_more(tmp_path, most: str):
    file = tmp_path / "own.py"
    file.write_text(SEEING.format(most=most))
    rows = block([0, 0, 0], [5, 5, 5], [5, 5, 5], [1, 1, 1])
    options = {"dispatcher": f"{file}:Mine", "power": POWER, "power_cap": 800}
    if "power_units" not in most:
        with pytest.raises(InputError, match="job 3 at 0 s: adds 200 W, and the power cap leaves 0 W"):
            simulate(rows, 4, **options)
        return
    assert simulate(rows, 4, **options)[1].start_time.tolist() == [0, 0, 5]
