"""Parameters of the user's own code: given in a scenario, checked, kept, varied."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario import from_mapping, load
from mlsim.scenario.section_base import CodeName, parameters_of

CODE = """\
from dataclasses import dataclass
import numpy as np
from mlsim.batch.view import Start

@dataclass
class Sign:
    factor: float
    by: str = "estimate"
    def key(self, now, jobs):
        return self.factor * getattr(jobs, self.by)

class Place:
    def __init__(self, *, last=False):
        self.last = last
    def allocate(self, units, request, free, capacity):
        nodes = [n for n in range(len(free)) if (free[n] >= request).all()]
        chosen = nodes[-units:] if self.last else nodes[:units]
        return chosen if len(chosen) == units else None

class One:
    def __init__(self, **anything):
        self.row = anything.get("row", 0)
    def dispatch(self, view):
        if not len(view.running):
            yield Start(self.row if self.row < len(view.waiting) else 0)

class Fixed:
    def __init__(self, seconds):
        self.seconds = seconds
    def predict(self, job):
        return self.seconds
    def learn(self, job, run_time):
        pass

def rule(n, p, remaining, step, pe, share=2, sizes=(4, 2)):
    return sizes[step] if step < len(sizes) else max(1, remaining // (share * p))
"""
LOG = "job_id,submit_time,run_time,walltime,processors\n1,0,5,9,2\n2,0,3,4,2\n3,0,7,8,2\n"
MACHINE = "platform: {nodes: [{name: n, count: 2, cores: 1}]}\nworkload: {path: log.csv, mapping: node}\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path


def run(here: Path, batch: str, *more: str) -> tuple[pl.DataFrame, Path]:
    out = here / f"out{sum(1 for _ in here.glob('out*'))}"
    (here / "s.yaml").write_text(f"{MACHINE}batch: {batch}\noutput: {{pictures: off}}\n")
    words = [word for each in more for word in ("--set", each)]
    done = CliRunner().invoke(app, ["run", str(here / "s.yaml"), "--out", str(out), *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return pl.read_parquet(out / "jobs.parquet"), out


def starts(jobs: pl.DataFrame) -> list[float]:
    return jobs.sort("job_id")["start_time"].to_list()


def test_parameters_reach_the_constructor_and_stand_in_the_resolved_scenario(here: Path) -> None:
    jobs, out = run(here, "{policy: {class: './mine.py:Sign', parameters: {factor: -1}}}")
    assert starts(jobs) == [0.0, 12.0, 5.0]
    resolved = YAML(typ="safe").load(out / "scenario.yaml")
    assert resolved["batch"]["policy"] == {"class": "./mine.py:Sign", "parameters": {"factor": -1}}
    again = load(out / "scenario.yaml").batch.policy
    assert again == CodeName("./mine.py:Sign", {"factor": -1})
    assert again not in ("./mine.py:Sign", CodeName("./mine.py:Sign", {"factor": 1}))


def test_set_varies_them_and_gives_them_to_a_plain_name(here: Path) -> None:
    short, _ = run(here, "{policy: './mine.py:Sign'}", "batch.policy.parameters.factor=1")
    assert starts(short) == starts(run(here, "{policy: SPF}")[0])
    given = "{policy: {class: './mine.py:Sign', parameters: {factor: 1, by: estimate}}}"
    long, _ = run(here, given, "batch.policy.parameters.factor=-1", "batch.policy.parameters.by=")
    assert starts(long) == starts(run(here, "{policy: LPF}")[0])


def test_a_study_varies_them(here: Path) -> None:
    (here / "s.yaml").write_text(
        MACHINE + "batch: {policy: {class: './mine.py:Sign', parameters: {factor: 1}}}\n"
    )
    (here / "study.yaml").write_text(
        "of: runs\nbase: s.yaml\nvary:\n  batch.policy.parameters.factor: [1, -1]\n"
        "metrics: {wait: wait_time.mean}\n"
    )
    done = CliRunner().invoke(app, ["study", str(here / "study.yaml"), "--out", str(here / "out")])
    assert done.exit_code == 0, (done.output, done.exception)
    table = pl.read_csv(next((here / "out").glob("*.csv")))
    assert table["wait"].n_unique() == 2


def test_every_family_takes_them(here: Path) -> None:
    rows, _ = run(here, "{dispatcher: {class: './mine.py:One', parameters: {row: 2}}}")
    assert starts(rows)[2] == 0.0
    placed, _ = run(here, "{allocator: {class: './mine.py:Place', parameters: {last: on}}}")
    assert placed["nodes"].to_list() == ["0-1"] * 3
    _, out = run(
        here, "{predictor: {class: './mine.py:Fixed', parameters: {seconds: 2}}, on_overrun: extend}"
    )
    assert pl.read_parquet(out / "jobs.parquet").height == 3


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (
            "{policy: {class: './mine.py:Sign', parameters: {factr: 1}}}",
            "mine.py:Sign: batch.policy.parameters.factr: is not known; did you mean 'factor'? "
            "it takes: factor, by = 'estimate'",
        ),
        (
            "{policy: {class: './mine.py:Sign', parameters: {by: units}}}",
            "mine.py:Sign: batch.policy.parameters.factor: is missing; it takes: factor, by = 'estimate'",
        ),
        ("{policy: './mine.py:Sign'}", "cannot be made: TypeError"),
        ("{policy: {class: SAF, parameters: {a: 1}}}", "SAF is one of mlsim's own and takes no parameters"),
        ("{policy: {clas: './mine.py:Sign'}}", "'clas' is not known here; did you mean 'class'?"),
        ("{policy: {parameters: {a: 1}}}", "class is missing"),
        ("{policy: {class: './mine.py:Sign', parameters: [1]}}", "parameters is a list; allowed: a mapping"),
        ("{policy: {class: './mine.py:Sign', parameters: {a b: 1}}}", "'a b' cannot be the name of one"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(here: Path, batch: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        run(here, batch)
    assert told in str(caught.value)


def loop(here: Path, technique: object, *more: str) -> str:
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 2}]},
        "workload": {"path": "log.csv"},
        "application": {
            "model": "loop",
            "costs": {"profile": "constant", "mean": "1 s"},
            "iterations": {"count": 40},
            "technique": technique,
        },
    }
    (here / "l.yaml").write_text(json.dumps(scenario))
    words = [word for each in more for word in ("--set", each)]
    done = CliRunner().invoke(app, ["loop", str(here / "l.yaml"), "--json", *words])
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_techniques_take_them(here: Path) -> None:
    plain = loop(here, "./mine.py:rule")
    halves = loop(here, "./mine.py:rule", "application.technique.parameters.sizes=[1, 1, 1, 1]")
    assert plain != halves
    same = loop(here, {"function": "./mine.py:rule", "parameters": {"sizes": [1, 1, 1, 1]}})
    assert same == halves
    with pytest.raises(InputError, match=r"application.technique.parameters.siz: is not known"):
        loop(here, {"function": "./mine.py:rule", "parameters": {"siz": 1}})
    with pytest.raises(InputError, match=r"parameters.share: \{\} cannot be compiled; allowed: a number"):
        loop(here, {"function": "./mine.py:rule", "parameters": {"share": {}}})
    with pytest.raises(InputError, match="names no function of your own"):
        loop(here, {"function": "GSS", "parameters": {"share": 1}})


def test_two_levels_give_them_to_the_function_alone() -> None:
    from mlsim.scenario.technique_section import split_technique

    config = from_mapping(
        {
            "platform": {"nodes": [{"name": "n", "count": 1, "cores": 2}]},
            "workload": {"path": "log.csv"},
            "application": {
                "model": "loop",
                "technique": {"function": "GSS+./mine.py:rule", "parameters": {"share": 3}},
                "execution": {"model": "hdca"},
            },
        }
    )
    outer, inner = split_technique(config.application.technique)
    assert (parameters_of(outer), parameters_of(inner)) == ({}, {"share": 3})


PROBE = """\
from mlsim.application.kit import execution_model

class Told:
    '''Any class of the user: it says what it got.'''
    def __init__(self, switch):
        raise RuntimeError(f"got {switch!r}")
    key = allocate = dispatch = predict = learn = size = read = write = run = jobs = generate = None

class Plain:
    dispatch = print

def told(path, switch):
    raise RuntimeError(f"got {switch!r}")

Model = execution_model(levels=1)(Told)
"""
LOOP = {
    "model": "loop",
    "costs": {"profile": "constant", "mean": "1 s"},
    "iterations": {"count": 40},
    "technique": "GSS",
}
KINDS: dict[str, tuple[str, str, dict[str, object]]] = {
    "policy": ("batch.policy", "class", {}),
    "allocator": ("batch.allocator", "class", {}),
    "dispatcher": ("batch.dispatcher", "class", {}),
    "data": ("batch.data", "class", {"batch": {"dispatcher": "./mine.py:Plain"}}),
    "predictor": ("batch.predictor", "class", {}),
    "technique": ("application.technique", "function", {"application": LOOP}),
    "execution model": ("application.execution.model", "class", {"application": LOOP}),
    "workload format": ("workload.format", "function", {}),
    "workload model": ("workload.generate.model", "class", {}),
    "writer": ("output.writers.0", "function", {}),
}
"""Key of each kind of code, what its mapping calls the name, and what a scenario with it needs besides."""


def nested(keys: dict[str, object]) -> dict[str, object]:
    whole: dict[str, object] = {}
    for key, value in keys.items():
        *above, last = key.split(".")
        place = whole
        for part in above:
            place = place.setdefault(part, {})  # type: ignore[assignment]
        place[last] = value
    return whole


def test_every_kind_of_code_is_in_the_test_below() -> None:
    from mlsim.application.user_code import USER_MODELS
    from mlsim.batch.user_dispatch import FAMILIES
    from mlsim.experiment.run_directory import WRITERS
    from mlsim.workload.user_workloads import GENERATORS, READERS

    families = [*FAMILIES.values(), USER_MODELS, WRITERS, GENERATORS, READERS]
    keys = {key.removesuffix(".0") for key, _, _ in KINDS.values()}
    assert keys == {family.key for family in families} | {"application.technique"}


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (kind, way)
        for kind in KINDS
        for way in ("file", "set", "mapping", "study")
        if (kind, way) != ("writer", "study")  # runs of a study write no further files
    ],
)
def test_off_is_the_boolean_for_every_kind_of_code(here: Path, kind: str, way: str) -> None:
    key, names, besides = KINDS[kind]
    name = {"execution model": "Model", "workload format": "told"}.get(kind, "Told")
    (here / "mine.py").write_text(PROBE)
    given = {names: f"./mine.py:{name}", "parameters": {"switch": "off"}}
    content: dict[str, object] = {
        "platform.nodes": [{"name": "n", "count": 2, "cores": 1}],
        "workload.path": "log.csv",
        "workload.mapping": "node",
        "output.pictures": False,
    }
    if kind == "workload model":
        content["workload.generate.jobs"] = 3
    whole = nested({**content, **besides})
    place = whole
    *above, last = key.removesuffix(".0").split(".")
    for part in above:
        place = place.setdefault(part, {})  # type: ignore[assignment]
    place[last] = [given] if key.endswith(".0") else given
    if kind == "workload model":
        del whole["workload"]["path"]  # type: ignore[attr-defined]
    text = json.dumps(whole)
    (here / "s.yaml").write_text(text.replace('"off"', "off"))
    words: list[str] = ["run", str(here / "s.yaml"), "--out", str(here / "out")]
    if way == "mapping":
        from mlsim.experiment import run as simulated

        with pytest.raises(InputError, match="got False"):
            simulated(from_mapping(whole, directory=here), out=here / "out")
        return
    if way == "set":
        (here / "s.yaml").write_text(text.replace('"off"', "on"))
        words += ["--set", f"{key}.parameters.switch=off"]
    if way == "study":
        vary = f"{{{key}.parameters.switch: [off]}}"
        (here / "study.yaml").write_text(f"of: runs\nbase: s.yaml\nvary: {vary}\n")
        words = ["study", str(here / "study.yaml"), "--out", str(here / "out")]
    done = CliRunner().invoke(app, words)
    assert "got False" in f"{done.output} {done.exception}"


@pytest.mark.parametrize(
    ("signature", "given", "got"),
    [
        ("a", "off", False),
        ("a", "Yes", True),
        ("a=True", "off", False),
        ("a='fast'", "off", "off"),
        ("a: str", "off", "off"),
        ("a: 'str | None' = None", "no", "no"),
        ("a: 'bool | str' = 'auto'", "off", False),
        ("a: bool", "no", False),
        ("a", ["on", "off"], [True, False]),
        ("a", ["no", "se"], ["no", "se"]),
        ("a: 'list[str]'", ["no"], ["no"]),
        ("a", {"deep": [{"b": "off"}]}, {"deep": [{"b": False}]}),
        ("a", "fast", "fast"),
        ("a", 0, 0),
        ("**a", "off", False),
    ],
)
def test_the_signature_says_whether_a_word_is_a_switch(signature: str, given: object, got: object) -> None:
    from mlsim.plugins import resolve_parameters

    names: dict[str, object] = {}
    exec(f"def code({signature}): ...", names)
    (value,) = resolve_parameters("it", "key", names["code"], {"a": given}).values()  # type: ignore[arg-type]
    assert value == got
    assert type(value) is type(got)


def test_a_declared_boolean_takes_no_other_word() -> None:
    from mlsim.plugins import resolve_parameters

    def code(shortest: bool) -> None: ...

    with pytest.raises(InputError, match=r"key.parameters.shortest: 'of' is neither on nor off; allowed: on"):
        resolve_parameters("it", "key", code, {"shortest": "of"})
    assert resolve_parameters("it", "key", code, {"shortest": 1}) == {"shortest": 1}


def test_a_compiled_function_gets_a_boolean(here: Path) -> None:
    (here / "mine.py").write_text(
        CODE + "\ndef halves(n, p, remaining, step, pe, small=True):\n    return 1 if small else n\n"
    )
    steps = [
        json.loads(loop(here, {"function": "./mine.py:halves", "parameters": {"small": value}}))
        for value in ("off", False, "on")
    ]
    assert steps[0] == steps[1] != steps[2]
