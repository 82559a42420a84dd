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
from mlsim.scenario import CodeName, from_mapping, load, parameters_of

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
    from mlsim.scenario import split_technique

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
