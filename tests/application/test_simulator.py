"""One loop as the batch level sees it: forecasts, messages, kills, nodes' speeds, routes and slow-downs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import CostProfiles
from mlsim.application.application_simulator import LoopApplication, LoopJob, place_pes
from mlsim.coordination import Kill, NodeSet
from mlsim.platform import Machine, build_machine
from mlsim.record import Chunks, ChunkStore, StoredChunks
from mlsim.scenario import ApplicationConfig, PlatformConfig
from tests.reference.routes import factor_at, slow_downs

GROUPS = [
    {"name": "fast", "count": 3, "cores": 2, "speed": "2 GFLOP/s"},
    {"name": "slow", "count": 5, "cores": 4, "speed": "1 GFLOP/s"},
]
COMBINATIONS = [
    *(
        (technique, model)
        for technique in ("STATIC", "SS", "GSS", "TSS", "FAC2", "AF")
        for model in ("cca", "dca")
    ),
    *((technique, model) for technique in ("STATIC", "GSS+SS", "AF+FAC2") for model in ("hmw", "hdca")),
    *((technique, "mpi+openmp") for technique in ("STATIC", "GSS+SS", "FAC2+STATIC")),
]
UNEVEN = {"profile": "exponential", "mean": 1.0}


@dataclass
class Setting:
    """A loop on some nodes of a machine of eight, all of which may be changed."""

    nodes: tuple[int, ...] = (1, 3, 6)
    technique: str = "GSS"
    iterations: int = 60
    costs: dict[str, Any] = field(default_factory=lambda: UNEVEN)
    execution: dict[str, Any] = field(default_factory=dict)
    network: dict[str, Any] = field(default_factory=dict)
    perturbations: tuple[dict[str, Any], ...] = ()
    seed: int = 1
    job_id: int = 5
    pes_per_node: int | None = None

    def machine(self) -> Machine:
        config = {"nodes": GROUPS, "network": self.network, "perturbations": self.perturbations}
        return build_machine(PlatformConfig.model_validate(config), self.seed)

    def application(self, record: bool = True) -> LoopApplication:
        config = ApplicationConfig.model_validate(
            {
                "model": "loop",
                "technique": self.technique,
                "iterations": {"count": self.iterations},
                "costs": self.costs,
                "execution": {"chunk_calculation": "10 ms", **self.execution},
                "pes_per_node": self.pes_per_node,
            }
        )
        machine = self.machine()
        costs = CostProfiles(config.costs, config.iterations, machine.reference_speed, self.seed)
        store = ChunkStore() if record else None
        return LoopApplication(LoopJob(self.job_id, 10.0), config, costs, machine, store, self.seed)

    def node_set(self) -> NodeSet:
        nodes = np.array(self.nodes, np.int64)
        return NodeSet(nodes, self.machine().cores[nodes])

    def started(self, at: float = 0.0, record: bool = True) -> LoopApplication:
        application = self.application(record)
        application.start(at, self.node_set())
        return application


def rows_of(application: LoopApplication) -> Chunks:
    chunks = application.chunks()
    assert chunks is not None
    return next(StoredChunks(chunks.store, [(0.0, 0, chunks)]).blocks(chunks.rows))


def table(application: LoopApplication) -> list[tuple[float, ...]]:
    r = rows_of(application)
    return list(zip(r.start, r.pe, r.step, r.first, r.size, r.requested, r.end, strict=True))


def test_pes_fill_one_node_after_the_other() -> None:
    nodes = NodeSet(np.array([4, 7, 9]), np.array([2, 1, 3]))
    assert place_pes(nodes, None).tolist() == [0, 0, 1, 2, 2, 2]
    assert place_pes(nodes, 2).tolist() == [0, 0, 1, 2, 2]
    assert place_pes(nodes, 1).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("technique", "model"), COMBINATIONS)
def test_the_forecast_ends_when_the_last_pe_is_told(technique: str, model: str) -> None:
    application = Setting(technique=technique, execution={"model": model}).application()
    forecast = application.start(100.0, Setting().node_set())
    outcome = application.outcome
    assert forecast == application.forecast
    assert forecast.end == 100.0 + outcome.notified_at.max()
    assert outcome.notified_at.max() >= outcome.finish.max() > 0.0
    times = [message.time for message in forecast.idle]
    assert times == sorted(times)
    assert sorted(message.node for message in forecast.idle) == [1, 3, 6]
    assert {message.job for message in forecast.idle} == {5}
    assert times[-1] == forecast.end
    for message in forecast.idle:
        pes = application.node_of_pe == (1, 3, 6).index(message.node)
        assert message.time == 100.0 + outcome.notified_at[pes].max()


def test_pes_have_the_speeds_of_the_nodes_they_are_on() -> None:
    """STATIC, 10 iterations of 1 s on 2 PEs of speed 1 and 8 of half of it."""
    costs = {"profile": "constant", "mean": 1.0}
    application = Setting(technique="STATIC", iterations=10, costs=costs).started()
    rows = rows_of(application)
    lengths = (rows.end - rows.start)[np.argsort(rows.pe)]
    assert lengths == pytest.approx([1.0] * 2 + [2.0] * 8)


def test_fewer_pes_than_cores() -> None:
    assert Setting(pes_per_node=3).started().node_of_pe.tolist() == [0, 0, 1, 1, 1, 2, 2, 2]


def first_starts(application: LoopApplication) -> list[float]:
    rows = rows_of(application)
    return [rows.start[rows.pe == pe].min() for pe in range(len(application.node_of_pe))]


def test_messages_take_the_routes_of_the_network() -> None:
    """DCA without other costs: a PE starts after two atomics, each a message there and one back.

    The network is a ring of eight nodes: 3 is two links from 1, 6 is three.
    """
    network = {"topology": "torus", "dimensions": "8", "latency": 1.0, "intra_node_latency": 0.25}
    costs = {"profile": "constant", "mean": 1.0}
    free = {"chunk_calculation": 0.0, "message_size": 0.0}
    application = Setting(network=network, costs=costs, technique="SS", execution=free).started()
    assert first_starts(application) == [0.0, 1.0] + [8.0] * 4 + [12.0] * 4


def test_larger_messages_take_longer() -> None:
    network = {"topology": "star", "latency": 1.0, "bandwidth": 8.0}
    execution = {"chunk_calculation": 0.0, "message_size": 3.0}
    costs = {"profile": "constant", "mean": 100.0}
    application = Setting(network=network, costs=costs, technique="SS", execution=execution).started()
    assert first_starts(application)[2:] == [4 * (2.0 + 3.0)] * 8


def left_at(application: LoopApplication, setting: Setting, time: float) -> tuple[int, float]:
    """Count iterations and cost not finished some time after the start, by walking through all chunks."""
    machine = setting.machine()
    costs = np.diff(application.costs)
    iterations, work = 0, 0.0
    rows = rows_of(application)
    for pe, first, size, begin in zip(rows.pe, rows.first, rows.size, rows.start, strict=True):
        node = setting.nodes[application.node_of_pe[pe]]
        now = application.began + begin
        steps = machine.perturbations.steps(node, application.began, application.forecast.end + 1.0)
        for cost in costs[first : first + size]:
            executed, now = executed_until(cost, now, application.began + time, machine.speed[node], steps)
            iterations += now > application.began + time
            work += cost - executed
    return iterations, work


def executed_until(cost: float, now: float, time: float, speed: float, steps: Any) -> tuple[float, float]:
    """Give how much of an iteration that begins now is executed by a time, and when it is finished."""
    changes = [moment for moment in steps.time.tolist() if moment > now]
    left, executed = cost, 0.0
    stretches = slow_downs(steps.time.tolist(), steps.factor.tolist())
    for change in [*changes, math.inf]:
        rate = speed * factor_at(stretches, now)
        until = min(change, now + left / rate)
        executed += rate * max(min(until, time) - now, 0.0)
        left -= rate * (until - now)
        now = until
        if now < change:
            break
    return executed, now


SLOW_DOWNS: list[tuple[dict[str, Any], ...]] = [
    (),
    (
        {"nodes": "1", "from": 103.0, "factor": 0.5},
        {"nodes": "3-6", "from": 101.5, "to": 104.0, "factor": 0.25},
    ),
    ({"factor": [0.1, 0.5], "mean_time_between": 2.0, "mean_duration": 1.0},),
]


@pytest.mark.parametrize("perturbations", SLOW_DOWNS)
@pytest.mark.parametrize(("technique", "model"), COMBINATIONS)
def test_idle_messages_tell_what_is_left(
    technique: str, model: str, perturbations: tuple[dict[str, Any], ...]
) -> None:
    execution = {"model": model, "break_after": 1000}  # masters serve after their chunks, not within
    setting = Setting(technique=technique, perturbations=perturbations, execution=execution)
    application = setting.started(100.0)
    for message in application.forecast.idle:
        iterations, work = left_at(application, setting, message.time - 100.0 + 1e-9)
        assert message.remaining_iterations == iterations
        assert message.remaining_work == pytest.approx(work, abs=1e-6)
    assert application.forecast.idle[-1].remaining_iterations == 0


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(COMBINATIONS), st.sampled_from(SLOW_DOWNS), st.floats(0.01, 1.2))
def test_a_kill_leaves_the_past_as_it_was(
    combination: tuple[str, str], perturbations: tuple[dict[str, Any], ...], share: float
) -> None:
    technique, model = combination
    application = Setting(
        technique=technique, perturbations=perturbations, execution={"model": model}
    ).started(100.0)
    before, rows, told = application.forecast, table(application), application.outcome.notified_at
    at = 100.0 + share * (before.end - 100.0)
    forecast = application.apply_change(at, Kill())
    assert forecast == application.forecast
    assert forecast.end == at
    assert forecast.idle == tuple(message for message in before.idle if message.time <= at)
    kept = {row[:6] for row in rows if row[0] < at - 100.0}
    after = table(application)
    assert {row[:6] for row in after} == kept
    ends = {row[:6]: row[6] for row in rows}
    assert all(row[6] == min(ends[row[:6]], at - 100.0) for row in after)
    assert application.outcome.notified_at.tolist() == np.minimum(told, at - 100.0).tolist()


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(COMBINATIONS),
    st.sampled_from(["0-3", "fast", "6", "2"]),
    st.floats(0.0, 10.0),
    st.sampled_from([0.1, 0.5, 3.0]),
)
def test_a_slow_down_changes_only_what_comes_after(
    combination: tuple[str, str], nodes: str, begin: float, factor: float
) -> None:
    technique, model = combination
    entry = {"nodes": nodes, "from": 50.0 + begin, "factor": factor}
    execution = {"model": model}
    plain = Setting(technique=technique, execution=execution).started(50.0)
    slowed = Setting(technique=technique, execution=execution, perturbations=(entry,)).started(50.0)
    past = [{row for row in table(each) if row[6] < begin} for each in (plain, slowed)]
    assert past[0] == past[1]
    if nodes == "2":
        assert table(plain) == table(slowed)  # the loop is not on node 2
    elif technique == "STATIC" and model == "dca":
        wanted = np.sign(1.0 - factor)
        assert wanted * (slowed.forecast.end - plain.forecast.end) >= -1e-9


def test_half_speed_takes_twice_as_long() -> None:
    """One iteration of 10 s a PE of speed 1; half speed from 104 to 110: 4 s + 6·½ s, and 3 s after it."""
    costs = {"profile": "constant", "mean": 10.0}
    entry = {"from": 104.0, "to": 110.0, "factor": 0.5}
    application = Setting(
        nodes=(0, 1),
        technique="STATIC",
        iterations=4,
        costs=costs,
        execution={"chunk_calculation": 0.0},
        network={"latency": 0.0, "intra_node_latency": 0.0, "bandwidth": 1e30},
        perturbations=(entry,),
    ).started(100.0)
    assert application.outcome.finish == pytest.approx([13.0] * 4)
    assert application.outcome.busy == pytest.approx([13.0] * 4)


@pytest.mark.parametrize("technique", ["GSS", "AF"])
def test_times_of_slow_downs_are_those_of_the_scenario(technique: str) -> None:
    """A job that starts 64 s later meets slow-downs that come 64 s later, and so runs the same."""

    def at(start: float) -> list[tuple[float, ...]]:
        entries = (
            {"nodes": "1", "from": start + 2.0, "to": start + 5.0, "factor": 0.5},
            {"nodes": "slow", "to": start + 3.0, "factor": 0.25},
        )
        return table(Setting(technique=technique, perturbations=entries).started(start))

    assert at(0.0) == at(64.0)


def test_a_random_process_reaches_to_the_end_of_the_loop() -> None:
    """As far as slow-downs are drawn does not show, even where they make a loop a thousand times as long."""
    process = {"factor": 1e-3, "mean_time_between": 0.5, "mean_duration": 1000.0}
    setting = Setting(perturbations=(process,))
    application = setting.started(10.0)
    drawn_far = setting.application()
    drawn_far._machine.perturbations.steps(0, 0.0, 1e7)
    drawn_far.start(10.0, setting.node_set())
    assert table(application) == table(drawn_far)
    rows = rows_of(application)
    machine = setting.machine()
    for pe, first, size, start, end in zip(rows.pe, rows.first, rows.size, rows.start, rows.end, strict=True):
        node = setting.nodes[application.node_of_pe[pe]]
        cost = application.costs[first + size] - application.costs[first]
        steps = machine.perturbations.steps(node, 10.0, 1e6)
        _, finished = executed_until(cost, 10.0 + start, 1e9, machine.speed[node], steps)
        assert 10.0 + end == pytest.approx(finished)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(COMBINATIONS), st.sampled_from(SLOW_DOWNS))
def test_the_same_loop_runs_the_same(
    combination: tuple[str, str], perturbations: tuple[dict[str, Any], ...]
) -> None:
    technique, model = combination
    setting = Setting(technique=technique, execution={"model": model}, perturbations=perturbations)
    first, second = setting.started(100.0), setting.started(100.0)
    assert first.forecast == second.forecast
    assert table(first) == table(second)
    unrecorded = setting.started(100.0, record=False)
    assert unrecorded.outcome.rows is None
    assert unrecorded.forecast == first.forecast
