"""Real runs and loops alone read every key that they are given, or refuse it; nothing is started here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.cosim.simulation import loop_costs
from mlsim.errors import InputError
from mlsim.experiment import load_loop, loop_from_mapping
from mlsim.experiment.loops import run_loop, run_loops
from mlsim.mpi.loop_options import (
    RUN_KEYS,
    VALIDATE_KEYS,
    LoopOptions,
    check_scenario,
    check_set,
    left_aside,
    scenario_options,
)
from mlsim.scenario.scenario_keys import model_parameters, options
from tests.scenario.test_every_key import BASE, CASES, FILES, FLY, LOOP, PERTURBED, RANDOMLY, Keys, columns_of

LOOP_SECTIONS = ("name", "description", "seed", "platform", "application", "output")
ALL_KEYS = [option.key for option in (*options(), *model_parameters()) if not option.is_mapping]
KEYS = [key for key in ALL_KEYS if key.split(".")[0] in LOOP_SECTIONS]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that scenarios here name, with a loop in ``loop.yaml``."""
    place = tmp_path_factory.mktemp("loops")
    for name, text in FILES.items():
        (place / name).write_text(text)
    (place / "others.csv").write_text(FILES["links.csv"].replace("4 ms", "40 ms"))
    loop = {"platform": BASE["platform"], "application": {"technique": "GSS", "iterations": {"count": 40}}}
    loop["application"]["costs"] = {"profile": "exponential", "mean": "1 s"}
    (place / "loop.yaml").write_text(json.dumps(loop))
    return place


# Keys that show in one short loop with other values than in a run of jobs.
LOOP_CASES: dict[str, tuple[Keys, object]] = {
    "platform.network.groups": (
        LOOP
        | {"platform.network": FLY | {"groups": 4}, "platform.nodes.0.count": 8}
        | {"platform.network.latency": "10 ms"},
        6,
    ),
    "platform.perturbations.N.to": (PERTURBED, "5 s"),
    "platform.perturbations.N.mean_duration": (RANDOMLY, "0.1 s"),
}


def loop_keys(key: str) -> tuple[dict[str, object], object]:
    """Give what stands beside a key where a loop alone is simulated, and its value."""
    beside, value = LOOP_CASES.get(key) or (CASES[key].beside, CASES[key].value)
    kept = {name: item for name, item in beside.items() if name.split(".")[0] in LOOP_SECTIONS}
    return kept, value


def read(key: str, names: tuple[str, ...]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def placed(key: str) -> str:
    return key.replace(".N.", ".0.")


@pytest.mark.parametrize("key", ALL_KEYS)
def test_a_real_run_reads_what_is_set_or_refuses_it(key: str) -> None:
    """What a run reads shows in its options, its costs or its ranks: see the tests below."""
    for keys, command in ((RUN_KEYS, "mlsim mpi run"), (VALIDATE_KEYS, "mlsim mpi validate")):
        for given in ({placed(key): 1}, nested(placed(key), 1)):
            if read(key, keys) or key in ("platform.nodes.N.name", "application.model"):
                check_set(given, keys, command)
            else:
                with pytest.raises(InputError, match=f"--set .*: {command} does not read it; "):
                    check_set(given, keys, command)


def nested(key: str, value: object) -> dict[str, object]:
    """Give a value as its section would be set: the first part alone, with mappings below it."""
    first, *parts = key.split(".")
    inner: object = value
    for part in reversed(parts):
        inner = [inner] if part == "0" else {part: inner}
    return {first: inner}


class Started:
    """Takes the place of what starts ranks, and keeps what they would be told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program: list[str] = []
        self.ranks = 0
        self.plan: dict[str, Any] = {}
        monkeypatch.setattr("mlsim.mpi.launch.launch", self._launch)
        monkeypatch.setattr("mlsim.mpi.real_validation.launch", self._launch)
        monkeypatch.setattr("mlsim.mpi.launch.launcher_of", self._launcher)

    def _launcher(self, words: list[str], ranks: int) -> None:
        self.ranks = ranks

    def _launch(self, _: object, program: list[str], **__: object) -> str:
        self.program = list(program)
        if program[1] == "mlsim.mpi.calibrate":
            plan = json.loads(Path(program[2]).read_text())
            self.plan = {"costs": np.load(plan["costs"]).tolist(), "loops": plan["loops"]}
            told = {"t_loop": 1.0, "steps": 1, "imbalance": 0.0}
            machine = {"ranks": 8, "machines": 1, "library": "none", **MACHINE}
            loops = [[told] * plan["repetitions"] for _ in plan["loops"]]
            Path(plan["out"]).write_text(json.dumps({"machine": machine, "loops": loops}))
        return ""


MACHINE = {"message": 1e-3, "noticed": 2e-3, "recursive": 1e-3, "straightforward": 1e-3, "atomic": 1e-3}
MACHINE |= {"break": 1e-3, "body": 1e-3, "spins": False}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def called(*words: object) -> str:
    """Call the command; give its message if it was refused."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        if not isinstance(done.exception, InputError):
            raise done.exception
        return str(done.exception)
    assert done.exit_code == 0, done.output
    return ""


def overrides_as_words(overrides: Keys) -> list[str]:
    return [w for k, v in overrides.items() for w in ("--set", f"{k}={'' if v is None else json.dumps(v)}")]


def real_run(directory: Path, overrides: Keys) -> tuple[object, ...]:
    """Give all that ranks of ``mlsim mpi run`` make of a scenario."""
    loop = load_loop(directory / "loop.yaml", overrides)
    costs = loop_costs(loop).tolist()
    pes = sum(group.count * (loop.application.pes_per_node or group.cores) for group in loop.platform.nodes)
    return repr(scenario_options(loop)), costs, pes


RUN_READ = [key for key in KEYS if read(key, RUN_KEYS)]
# What a real run reads only where the simulator reads it, by another case than the simulator's.
REAL: dict[str, tuple[Keys, object]] = {
    "application.costs.variation": ({}, None),
    "application.costs.calibrate": ({}, None),
    "application.parameters.statistics": ({}, "profiled"),
    "application.parameters.weights": ({"application.technique": "WF"}, [1, 2, 3, 4]),
    "application.execution.injected_delay": ({}, "1 s"),
    "platform.nodes.N.speed": ({"application.costs.mean": "1 GFLOP"}, "4 GFLOP/s"),
    "platform.nodes.N.node_speed": ({"application.costs.mean": "1 GFLOP"}, "4 GFLOP/s"),
    "platform.reference_speed": ({"application.costs.mean": "1 GFLOP"}, "4 GFLOP/s"),
    "platform.nodes.N.count": ({}, 5),
    "application.selection.parameters.threshold": (
        {"application.technique": "auto", "application.selection.method": "exhaustive"},
        5,
    ),
    "platform.nodes.N.cores": ({}, 3),
    "application.parameters.swr": ({"application.technique": "PLS"}, 0.7),
}
NEEDS_A_RUN_TIME = (
    "application.costs.variation",
    "application.costs.calibrate",
    "application.costs.calibrate_to",
)


@pytest.mark.parametrize("key", [key for key in RUN_READ if not read(key, NEEDS_A_RUN_TIME)])
def test_what_a_real_run_reads_changes_it(key: str, directory: Path) -> None:
    beside, value = REAL.get(key) or loop_keys(key)
    # A real run repeats its loop (--repetitions), and a scenario that says how often is refused.
    beside = {name: item for name, item in beside.items() if name != "application.time_steps"}
    before = real_run(directory, beside)
    if key == "application.parameters.statistics":
        with pytest.raises(InputError, match="profiled needs costs that are known before"):
            real_run(directory, {**beside, key: value})
    else:
        assert real_run(directory, {**beside, placed(key): value}) != before


def test_costs_of_a_run_time_are_refused(directory: Path) -> None:
    for changes in ({"application.costs": {"profile": "job"}}, {"application.costs.calibrate": "run-time"}):
        with pytest.raises(InputError, match="takes the costs from a job's run time"):
            real_run(directory, changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"application.time_steps": 3}, "time_steps: 3; a real run executes a loop once"),
        ({"platform.perturbations": [{"factor": 0.5}]}, "perturbations: a real run cannot slow its nodes"),
        (
            {
                "application.technique": "WF",
                "platform.nodes": [
                    {"name": "a", "count": 1, "cores": 2, "speed": 1e9},
                    {"name": "b", "count": 1, "cores": 2, "speed": 2e9},
                ],
            },
            "weights: a real run does not know how fast",
        ),
    ],
)
def test_what_a_real_run_cannot_do_is_refused(
    changes: dict[str, Any], message: str, directory: Path, started: Started
) -> None:
    with pytest.raises(InputError, match=message):
        check_scenario(load_loop(directory / "loop.yaml", changes))
    file = directory / "changed.yaml"
    content = json.loads((directory / "loop.yaml").read_text())
    for key, value in changes.items():
        section, name = key.split(".")
        content[section][name] = value
    file.write_text(json.dumps(content))
    for command in ("run", "validate"):
        assert message.split(": ", 1)[1] in called("mpi", command, file)
    assert not started.program


def test_mpi_run_hands_its_options_on(directory: Path, started: Started) -> None:
    file = directory / "loop.yaml"

    def told(*words: str) -> tuple[list[str], int]:
        assert called("mpi", "run", file, *words) == ""
        return started.program, started.ranks

    plain = told()
    for words in (
        ("--ranks", "3"),
        ("--out", str(directory / "out")),
        ("--work", "spin"),
        ("--repetitions", "2"),
        ("--check",),
        ("--json",),
        ("--set", "application.min_chunk=3"),
    ):
        assert told(*words) != plain, words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "FILE", "--set", "application.execution.atomic_service=1us"), "a real run has the costs"),
        (("run", "FILE", "--set", "application.execution={lock_retry: 1us}"), "execution.lock_retry: "),
        (("run", "FILE", "--set", "application.time_steps=3"), "give --repetitions"),
        (("run", "FILE", "--set", "output.trace=jobs"), "if --out is given"),
        (("run", "FILE", "--ranks", "2", "--", "mpiexec"), "-- mpiexec -n 2"),
        (("calibrate", "--ranks", "2", "--", "mpiexec"), "-- mpiexec -n 2"),
        (("validate", "FILE", "--set", "application.technique=SS"), "give --technique"),
        (("validate", "FILE", "--set", "application.execution.model=cca"), "give --model"),
        (("validate", "FILE", "--set", "application.execution.chunk_calculation=1us"), "does not read it"),
        (("validate", "FILE", "--option", "technique=SS"), "give --technique"),
        (("validate", "FILE", "--option", "nothing=1"), "nothing"),
        (("validate", "FILE", "--option", "break_after=0"), "break_after: 0; allowed"),
        (("validate", "FILE", "--model", "dca", "--ranks-per-node", "4"), "only models of two levels"),
    ],
)
def test_options_without_effect_are_refused(
    words: tuple[str, ...], message: str, directory: Path, started: Started
) -> None:
    assert message in called("mpi", *(str(directory / "loop.yaml") if w == "FILE" else w for w in words))
    assert not started.program


def test_costs_are_not_scaled_where_iterations_compute(directory: Path, started: Started) -> None:
    file = directory / "mandelbrot.yaml"
    costs = {"profile": "mandelbrot", "size": 8, "limit": 50, "mean": "1 us"}
    file.write_text(json.dumps({"platform": BASE["platform"], "application": {"costs": costs}}))
    mean = ("--set", "application.costs.mean=1ms")
    assert "iterations compute" in called("mpi", "run", file, *mean)
    assert called("mpi", "run", file, *mean, "--work", "sleep") == ""
    assert called("mpi", "run", file, "--set", "application.costs.parameters.limit=20") == ""


def test_keys_of_a_file_that_only_a_simulation_reads_are_named(directory: Path) -> None:
    loop = load_loop(directory / "loop.yaml")
    assert left_aside(loop, RUN_KEYS) == []
    keys = ["application.execution.atomic_service", "output.csv", "platform.network.latency"]
    changes = dict(zip(keys, ("1 us", True, "1 us"), strict=True))
    assert left_aside(load_loop(directory / "loop.yaml", changes), RUN_KEYS) == keys


def validated(directory: Path, started: Started, *words: str) -> tuple[object, ...]:
    """Give what real loops are told, and what is simulated beside them."""
    from mlsim.mpi import real_validation as module

    told: list[object] = []
    original = module.simulated

    def seen(prefix: Any, machine: Any, ranks: int, per_node: int, chosen: LoopOptions) -> Any:
        outcome = original(prefix, machine, ranks, per_node, chosen)
        told.append((outcome.t_loop, outcome.steps, outcome.finish.tolist()))
        return outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "simulated", seen)
        assert called("mpi", "validate", directory / "loop.yaml", "--repetitions", "1", *words) == ""
    return started.plan, told


@pytest.mark.parametrize(
    ("technique", "model", "key", "value"),
    [
        ("GSS", "cca", "application.execution.break_after", "7"),
        ("SS", "cca", "application.execution.master", "dedicated"),
        ("SS", "cca", "application.execution.service_order", "lowest-rank"),
        ("SS", "cca", "application.execution.request_ahead", "1"),
        ("GSS", "hdca", "application.execution.global_p", "pes"),
        ("AF", "dca", "application.execution.lock", "polling"),
        ("AF", "cca", "application.parameters.first_chunk", "0.5"),
        ("AF", "cca", "application.parameters.pieces", "1"),
        ("GSS", "dca", "application.execution.injected_delay", "1 s"),
        ("GSS", "dca", "application.min_chunk", "4"),
        ("RND", "dca", "seed", "5"),
        ("FSC", "dca", "application.parameters.sigma", "3 s"),
        ("FSC", "dca", "application.parameters.overhead", "3 s"),
        ("TAP", "dca", "application.parameters.mu", "3 s"),
        ("TAP", "dca", "application.parameters.alpha", "3"),
        ("FISS", "dca", "application.parameters.batches", "5"),
        ("VISS", "dca", "application.parameters.growth", "geometric"),
        ("AWF-C", "dca", "application.parameters.awf_chunk", "batch"),
        ("RND", "dca", "application.parameters.random_from", "0.9"),
        ("RND", "dca", "application.parameters.random_to", "0.3"),
        ("AF", "dca", "application.parameters.compat", "lb4mpi"),
        ("PLS", "dca", "application.parameters.swr", "0.9"),
        ("WF", "dca", "application.parameters.weights", "[8, 1, 1, 1, 1, 1, 1, 1]"),
        ("GSS", "dca", "application.costs.mean", "2 s"),
        ("GSS", "dca", "application.iterations.count", "50"),
    ],
)
def test_validate_sets_real_and_simulated_loops_alike(
    technique: str, model: str, key: str, value: str, directory: Path, started: Started
) -> None:
    needed = {"FSC": ("sigma", "overhead"), "TAP": ("sigma", "mu")}.get(technique, ())
    words = ["--technique", technique, "--model", model]
    words += [word for name in needed for word in ("--set", f"application.parameters.{name}=1 s")]
    if key == "application.parameters.pieces":  # parts differ where chunks are long, and iterations differ
        for more in ("costs={profile: exponential, mean: 1 s}", "iterations.count=400"):
            words += ["--set", f"application.{more}"]
    real, simulated_ = validated(directory, started, *words)
    other_real, other_simulated = validated(directory, started, *words, "--set", f"{key}={value}")
    assert real != other_real
    assert simulated_ != other_simulated


def test_every_key_of_parameters_and_execution_is_tried_in_validate() -> None:
    test = test_validate_sets_real_and_simulated_loops_alike
    (mark,) = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    tried = {row[2] for row in mark.args[1]}
    needed = {
        key
        for key in KEYS
        if read(key, VALIDATE_KEYS) and key.split(".")[1:2] in (["parameters"], ["execution"], ["min_chunk"])
    }
    assert needed - tried == {"application.parameters.statistics"}  # refused, as the tests above say


def test_masters_choose_their_breaks_in_both_unless_told(directory: Path, started: Started) -> None:
    words = ("--technique", "GSS", "--model", "cca")
    # iterations take 25 us on average: a master looks after three
    fine = ("--set", "application.costs.mean=25us")
    chosen, simulated_ = validated(directory, started, *words, *fine)
    told, alike = validated(directory, started, *words, *fine, "--set", "application.execution.break_after=3")
    assert [loop["break_after"] for loop in chosen["loops"]] == [None]
    assert [loop["break_after"] for loop in told["loops"]] == [3]
    assert simulated_ == alike


def test_options_of_validate_reach_both(directory: Path, started: Started) -> None:
    words = ("--technique", "GSS", "--model", "cca")
    plain = validated(directory, started, *words)
    assert validated(directory, started, *words, "--option", "break_after=7") != plain
    assert validated(directory, started, *words, "--delay", "1s") != plain
    real, _ = validated(directory, started, *words, "--option", "pieces=0")  # of real loops alone
    assert real != plain[0]


def loop_results(overrides: Keys, directory: Path, out: Path | None = None) -> object:
    """Give what ``mlsim loop`` tells of a loop; with a directory, its files."""
    loop = load_loop(directory / "loop.yaml", overrides)
    if out is None:
        result = run_loop(loop)
        return repr(result.facts), columns_of(result.records)
    run_loops([loop], out=out)
    files = (file for file in out.rglob("*") if file.is_file() and file.name != "versions.json")
    return {file.name: file.read_bytes() for file in files}


LOOP_REFUSES = (
    "platform.failures",
    "platform.random_failures",
    "platform.drains",
    "output.trace_jobs",
    "output.passes",
    "output.batsim",
    "output.writers",
)
LOOP_LEAVES = (
    "platform.nodes.N.memory",
    "platform.nodes.N.resources",
    "platform.nodes.N.power",
    "platform.shared",
)
LOOP_TRACED = ("output.trace_details", "output.trace_apart", "output.trace_window", "output.trace_rows")
LOOP_FILES = ("name", "description", "output.trace", *LOOP_TRACED, "output.pictures", "output.csv")
# A loop alone is a loop, so that its model says nothing more.
LOOP_MODEL = ("application.model",)
LOOP_OWN = (*LOOP_MODEL, "output.trace")


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_a_loop_alone_reads_what_is_set_or_refuses_it(key: str, directory: Path, tmp_path: Path) -> None:
    beside, value = loop_keys(key)
    if read(key, (*LOOP_REFUSES, *LOOP_LEAVES)):
        with pytest.raises(InputError, match="a loop alone does not read it"):
            load_loop(directory / "loop.yaml", {placed(key): value})
        return
    if key in LOOP_MODEL:
        return
    if key in LOOP_FILES:
        traced = {"output.trace": "chunks"} if key in LOOP_TRACED else {}
        before = {"output.pictures": key == "output.pictures"} | traced
        before = loop_results(before, directory, tmp_path / "before")
        changed = {"output.pictures": False, key: value} | traced
        assert loop_results(changed, directory, tmp_path / "after") != before
        return
    if read(key, NEEDS_A_RUN_TIME):
        return
    beside = {name: item for name, item in beside.items() if name not in LOOP_OWN}
    before, after = (loop_results(options, directory) for options in (beside, {**beside, placed(key): value}))
    # What a loop alone cannot do is noted (tests/scenario/test_selection_warnings.py).
    assert (after == before) is (key == "application.selection.learns_over")


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("platform", "failures", [{"node": 0, "at": 5}]),
        ("platform", "random_failures", [{"mtbf": 100, "mttr": 1}]),
        ("platform", "drains", [{"start": 5}]),
        ("output", "trace_jobs", [1]),
        ("output", "passes", True),
        ("output", "writers", ["./mine.py:write"]),
    ],
)
def test_a_file_says_nothing_that_a_loop_leaves_out(section: str, name: str, value: object) -> None:
    content: dict[str, Any] = {"platform": dict(BASE["platform"]), "application": {}}
    content["application"]["costs"] = {"profile": "constant", "mean": 1}
    content.setdefault(section, {})[name] = value
    if name == "trace_jobs":
        content["output"]["trace"] = "jobs"
    with pytest.raises(InputError, match=f"{section}.{name}: a loop alone does not have it"):
        loop_from_mapping(content)
    loop_from_mapping(content, {f"{section}.{name}": None})


def test_loop_tells_of_keys_that_no_loop_reads(directory: Path) -> None:
    def notes(*words: str) -> str:
        done = CliRunner().invoke(app, ["loop", str(directory / "loop.yaml"), *words])
        assert done.exit_code == 0, done.exception
        return done.stderr

    assert "break_after has no effect" in notes("--model", "dca", "--break-after", "3")
    assert "break_after" not in notes("--model", "dca,cca", "--break-after", "3")
    assert "--run-time" in called("loop", directory / "loop.yaml", "--run-time", "5 s")
