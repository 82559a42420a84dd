"""The models: defaults, what follows from what, and the rules that join several keys."""

import pickle

import pytest
from pydantic import ValidationError

from mlsim.errors import InputError
from mlsim.scenario import ApplicationConfig, PlatformConfig, Policy, Scenario, WorkloadConfig, from_mapping
from mlsim.scenario.amount_types import Quantity
from mlsim.scenario.application_section import IterationsConfig
from mlsim.scenario.costs_section import PROFILE_KEYS, CostsConfig
from mlsim.scenario.cp_section import CP_READERS
from mlsim.scenario.platform_section import NodeGroup
from mlsim.scenario.scenario_keys import warnings_of
from mlsim.scenario.words import (
    ApplicationModel,
    Backfill,
    CleaningRule,
    CostProfile,
    Dispatcher,
    ExecutionModel,
    Mapping,
    OverrunRule,
    ServiceOrder,
    Technique,
    TraceLevel,
)

LEAST = {"platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]}, "workload": {"path": "log.swf"}}


def scenario(**sections: object) -> Scenario:
    return from_mapping(LEAST | sections)


def broken(**sections: object) -> str:
    with pytest.raises(InputError) as info:
        scenario(**sections)
    return str(info.value)


def groups(*cores: int) -> dict[str, object]:
    return {"nodes": [{"name": f"g{c}", "count": 1, "cores": c} for c in cores]}


def test_defaults() -> None:
    least = scenario()
    assert (least.name, least.description, least.seed) == ("scenario", "", 0)
    assert least.platform.nodes[0].speed == 1e9
    assert least.platform.reference_speed == 1e9
    network = least.platform.network
    assert (network.bandwidth, network.latency, network.intra_node_latency) == (5e10, 5e-7, 1e-7)
    assert least.workload.mapping is Mapping.PACKED
    assert least.workload.cleaning.no_processors is CleaningRule.DROP
    batch = least.batch
    assert (batch.policy, batch.backfill) == (Policy.FCFS, Backfill.NONE)
    assert (batch.on_overrun, batch.deadline_factor) == (OverrunRule.KILL, 2.0)
    application = least.application
    assert application.model is ApplicationModel.RIGID
    assert application.iterations == IterationsConfig(per_pe=1)
    assert (application.technique, application.min_chunk) == (Technique.STATIC, 1)
    execution = application.execution
    assert (execution.model, execution.service_order) == (ExecutionModel.DCA, ServiceOrder.FIFO)
    assert (execution.message_size, execution.break_after) == (16.0, 1)
    assert least.coordination.rca is False
    assert least.coordination.latency is None
    assert least.output.trace is TraceLevel.NONE
    assert (least.output.pictures, least.output.csv) == (True, False)


def test_every_default_is_a_value_that_the_key_accepts() -> None:
    from mlsim.scenario.scenario_keys import model_parameters, options
    from mlsim.scenario.scenario_text import parse_value_text

    keys = {
        o.key: parse_value_text(o.default, o.key)
        for o in (*options(), *model_parameters())
        if o.default not in ("", "needed", "''") and ".N." not in o.key
    }
    # Keys that the others leave no room for: jobs are of a log or drawn, resampled weeks are counted, loop
    # keys need a loop, and each profile has its own costs.
    drawn = {"model": "lublin", "jobs": 9, "kinds": keys.pop("workload.generate.kinds")}
    from_mapping(LEAST, overrides={"workload.path": None, "workload.generate": drawn})
    resampled = {"weeks": 1, "by": keys.pop("workload.resample.by")}
    from_mapping(LEAST, overrides={"workload.resample": resampled})
    del keys["application.model"]
    costs = {key: keys.pop(key) for key in list(keys) if key.startswith("application.costs.")}
    keys["batch.weights.area"] = 1.0  # one of the weights has to count
    for key in [key for key in keys if key.startswith("batch.cp.")]:
        reader = CP_READERS.get(key.rpartition(".")[2], (Dispatcher.CP,))[0]
        from_mapping(LEAST, overrides={"batch.dispatcher": reader, key: keys.pop(key)})
    from_mapping(LEAST, overrides={"application.model": "loop"} | keys)
    assert costs.pop("application.costs.profile") == CostProfile.JOB
    needed = {"low": "1 s", "high": "2 s", "mean": "1 s"}
    for profile in (CostProfile.JOB, CostProfile.BIMODAL, CostProfile.MANDELBROT, CostProfile.PSIA):
        own = {f"application.costs.{key}" for key in PROFILE_KEYS[profile].possible}
        mine = {
            key: costs[key] for key in costs if any(key == one or key.startswith(f"{one}.") for one in own)
        }
        mine |= {
            f"application.costs.{key}": needed[key] for key in needed if f"application.costs.{key}" in own
        }
        overrides = {"application.model": "loop", "application.costs.profile": profile} | mine
        from_mapping(LEAST, overrides=overrides)
        costs = {key: value for key, value in costs.items() if key not in mine}
    assert costs == {}


def test_speed_of_a_node_is_shared_by_its_cores() -> None:
    platform = PlatformConfig(
        nodes=(
            NodeGroup(name="a", count=1, cores=4, node_speed="8 GFLOP/s"),
            NodeGroup(name="b", count=1, cores=4, speed=3e9),
        )
    )
    assert [group.speed for group in platform.nodes] == [2e9, 3e9]
    assert [group.core_speed for group in platform.nodes] == [2e9, 3e9]
    assert platform.reference_speed == 2e9


def test_models_are_frozen_hashable_and_picklable() -> None:
    one = scenario()
    with pytest.raises(ValidationError):
        one.batch.policy = Policy.SAF
    assert hash(one.workload) == hash(scenario().workload)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_model_made_in_python_is_checked_too() -> None:
    with pytest.raises(ValidationError, match="given together with node_speed"):
        NodeGroup(name="a", count=1, cores=4, node_speed=4e9, speed=1e9)
    with pytest.raises(ValidationError, match="whole number"):
        NodeGroup(name="a", count=0, cores=4)


def test_mappings_may_hold_models_and_paths() -> None:
    from pathlib import Path

    platform = PlatformConfig(nodes=(NodeGroup(name="a", count=1, cores=4),))
    made = from_mapping(
        {"platform": platform, "workload": {"path": Path("log.swf"), "mapping": Mapping.CORE}}
    )
    assert made.workload == WorkloadConfig(path="log.swf", mapping=Mapping.CORE)
    assert made.platform == platform


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"profile": "constant"}, "application.costs.mean: missing; profile: constant needs it"),
        ({"profile": "exponential"}, "application.costs.mean: missing; profile: exponential needs it"),
        ({"profile": "normal", "mean": "1 s"}, "application.costs.std: missing; profile: normal needs it"),
        ({"profile": "file"}, "application.costs.path: missing; profile: file needs it"),
        (
            {"mean": "1 s"},
            "application.costs.mean: not for profile: job, which takes variation, calibrate, calibrate_to; "
            "profiles with mean: constant, uniform, normal, exponential, gamma",
        ),
        (
            {"calibrate": "run-time"},
            "application.costs.calibrate: run-time; profile job has costs of this mean by itself; "
            "allowed: none, recorded",
        ),
        (
            {"profile": "constant", "mean": "1 s", "std": "1 s"},
            "application.costs.std: not for profile: constant, which takes mean, calibrate, calibrate_to; "
            "profiles with std: normal, gamma, lognormal, bimodal",
        ),
        (
            {"profile": "normal", "mean": "1 s", "std": "1 FLOP"},
            "application.costs.std: is in FLOP but mean is in s; allowed: one unit for both",
        ),
        ({"variation": 1}, "application.costs.variation: 1 is out of range"),
        ({"profile": "uniform"}, "application.costs.high: missing; profile: uniform needs it"),
        ({"profile": "bimodal", "high": 1}, "application.costs.low: missing; profile: bimodal needs it"),
        (
            {"profile": "increasing", "low": "2 s", "high": "1 s"},
            "application.costs.low: is more than high; allowed: high or less",
        ),
        (
            {"profile": "uniform", "low": "2 s", "high": "3 GFLOP"},
            "application.costs.low: is in s but high is in FLOP; allowed: one unit for both",
        ),
        (
            {"profile": "gamma", "mean": "1 ms", "std": "2 s"},
            "application.costs.std: is more than 1000 means; allowed: less",
        ),
        (
            {"profile": "mandelbrot"},
            "application.costs.mean: missing; profile: mandelbrot needs one of mean: 20 ms, unit_cost, and "
            "calibrate: run-time",
        ),
        (
            {"profile": "psia", "mean": "1 s", "unit_cost": "1 us"},
            "application.costs.unit_cost: given together with mean; give one of them",
        ),
        (
            {"profile": "psia", "mean": "1 s", "limit": 7},
            "application.costs.parameters.limit: not for profile: psia, which takes parameters.points, "
            "parameters.image_width, parameters.bin_size, parameters.support_angle, parameters.cloud_seed, "
            "parameters.scan_cost, mean, unit_cost, calibrate, calibrate_to; profiles with parameters.limit: "
            "mandelbrot",
        ),
        (
            {"profile": "mandelbrot", "mean": "1 s", "window": {"x_min": 1, "x_max": 1}},
            "application.costs.parameters.window.x_max: 1.0 is not above x_min, 1.0; allowed: more",
        ),
        (
            {"profile": "psia", "mean": "1 s", "support_angle": 114},
            "application.costs.parameters.support_angle: 114 is out of range; allowed: a number, more than 0 "
            "and at most 3.14159",
        ),
        ({"profile": "constant", "mean": 0}, "application.costs.mean: 0 is too small; allowed: more than 0"),
    ],
)
def test_each_profile_has_its_own_keys(costs: dict[str, object], message: str) -> None:
    assert message in broken(application={"model": "loop", "costs": costs})


def test_profiles_with_their_keys() -> None:
    costs = CostsConfig(profile=CostProfile.NORMAL, mean="2 GFLOP", std="1 MFLOP")
    assert costs.mean == Quantity(2e9, "FLOP")
    file = scenario(application={"model": "loop", "costs": {"profile": "file", "path": "c.npy"}})
    assert file.application.iterations is None


def test_a_file_of_costs_says_how_long_the_loop_is() -> None:
    application = {"model": "loop", "costs": {"profile": "file"}, "iterations": {"count": 3}}
    text = broken(application=application)
    assert "application.iterations: not with costs.profile: file; the length of the file decides" in text
    assert "application.costs.path: missing" in text


@pytest.mark.parametrize(
    ("costs", "iterations", "message"),
    [
        (
            {},
            {"per_pe": 3},
            "iterations.per_pe: not with costs.profile: mandelbrot; give costs.parameters.size, or count",
        ),
        (
            {"size": 4},
            {"count": 17},
            "iterations.count: 17 is not costs.parameters.size², 4² = 16; give one of",
        ),
        ({}, {"count": 17}, "iterations.count: 17 is no square number"),
        ({}, {"count": 17}, "near are 16 = 4² and 25 = 5²"),
    ],
)
def test_iterations_of_an_image_are_its_pixels(
    costs: dict[str, object], iterations: dict[str, object], message: str
) -> None:
    image = {"profile": "mandelbrot", "mean": "20 ms"} | costs
    application = {"model": "loop", "costs": image, "iterations": iterations}
    assert message in broken(application=application)


def test_an_image_may_say_its_size_or_its_pixels() -> None:
    costs = {"profile": "mandelbrot", "mean": "20 ms"}
    for extra, iterations in (({"size": 512}, None), ({}, {"count": 512**2}), ({"size": 2}, {"count": 4})):
        application: dict[str, object] = {"model": "loop", "costs": costs | extra}
        if iterations is not None:
            application["iterations"] = iterations
        made = scenario(application=application).application
        assert (made.iterations is None) is (iterations is None)


@pytest.mark.parametrize(
    ("iterations", "message"),
    [
        ({"per_pe": 1, "count": 2}, "application.iterations.count: given together with per_pe"),
        ({}, "application.iterations: empty; give per_pe"),
        ({"count": -1}, "application.iterations.count: -1 is too small"),
    ],
)
def test_iterations_are_given_in_exactly_one_way(iterations: dict[str, int], message: str) -> None:
    assert message in broken(application={"model": "loop", "iterations": iterations})


def test_a_rigid_job_has_no_loop() -> None:
    text = broken(application={"technique": "GSS", "iterations": {"per_pe": 3}})
    assert "application.model: missing, and so rigid; only a loop has iterations, technique; write" in text
    text = broken(application={"technique": "GSS"})
    assert "application.technique: only a loop has this, and model is rigid; write model: loop" in text
    with pytest.raises(ValidationError, match="only a loop has this"):
        ApplicationConfig(technique=Technique.GSS)


def test_coordination_needs_loops() -> None:
    text = broken(coordination={"rca": "on"})
    assert (
        "coordination.rca: on, but a rigid job has no idle nodes to release; write application.model: loop"
        in text
    )
    assert scenario(coordination={"rca": "on"}, application={"model": "loop"}).coordination.rca


def test_packed_needs_equal_nodes() -> None:
    text = broken(platform=groups(4, 8))
    assert "workload.mapping: packed needs nodes with equally many cores" in text
    assert "the groups have 4, 8; try mapping: core" in text
    assert scenario(platform=groups(4, 8), workload={"path": "x", "mapping": "core"})
    assert scenario(platform=groups(4, 8), workload={"path": "x", "mapping": "node"})


def test_group_names_are_unique() -> None:
    text = broken(platform=groups(4, 4))
    assert "platform.nodes.1.name: 'g4' is already the name of nodes.0" in text


def test_no_more_pes_than_cores() -> None:
    text = broken(application={"model": "loop", "pes_per_node": 5})
    assert "application.pes_per_node: 5 is more than any node has cores; allowed: 1 to 4" in text


def test_selections() -> None:
    window = {"start": "1 d", "end": "2 d"}
    both = {"path": "x", "select": {"window": window, "most_intensive": "24 h"}}
    assert "workload.select.most_intensive: given together with window" in broken(workload=both)
    turned = {"path": "x", "select": {"window": {"start": "2 d", "end": "1 d"}}}
    assert "workload.select.window.end: is not after start" in broken(workload=turned)


def test_keys_without_effect_are_remarked() -> None:
    quiet = scenario(application={"model": "loop"})
    assert warnings_of(quiet) == []
    noisy = scenario(
        batch={"deadline_factor": 3},
        coordination={"latency": "1 us"},
        application={
            "model": "loop",
            "execution": {"break_after": 2, "service_order": "lowest-rank"},
            "parameters": {"first_chunk": 0.5},
        },
    )
    keys = [line.split()[0] for line in warnings_of(noisy)]
    assert keys == [
        "batch.deadline_factor",
        "coordination.latency",
        "application.execution.break_after",
        "application.execution.service_order",
        "application.parameters.first_chunk",
    ]
    execution = {"model": "cca", "break_after": 2}
    learning = {"technique": "AF", "execution": execution, "parameters": {"first_chunk": 0.5}}
    used = scenario(
        batch={"deadline_factor": 3, "policy": "EDF"},
        coordination={"latency": "1 us", "rca": "on"},
        application={"model": "loop", **learning},
    )
    assert warnings_of(used) == []
