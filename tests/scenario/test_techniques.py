"""Techniques and their parameters in a scenario: names, weights, what is missing, and what nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlsim.application import simulate
from mlsim.errors import InputError
from mlsim.scenario import Scenario, dump, loads
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.scenario_keys import warnings_of
from mlsim.scenario.section_base import user_function
from mlsim.scenario.technique_section import ParametersConfig, split_technique
from mlsim.scenario.words import Technique, WeightSource

HEAD = """platform: {nodes: [{name: n, count: 2, cores: 4}]}
workload: {path: log.swf}
application:
  model: loop
"""


def scenario(text: str) -> Scenario:
    return loads(f"{HEAD}{text}\n  execution: {{model: hdca}}\n", "study.yaml")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("gss", "GSS"),
        ("MFSC", "mFSC"),
        ("wf2", "WF"),
        ("awf-c", "AWF-C"),
        ("gss+static", "GSS+STATIC"),
        ("WF2 + ss".replace(" ", ""), "WF+SS"),
        ("./mine.py:rule", "./mine.py:rule"),
        ("fac2+/a+b/mine.py:rule", "FAC2+/a+b/mine.py:rule"),
        ("./a.py:f+./b.py:g", "./a.py:f+./b.py:g"),
    ],
)
def test_names_of_techniques(written: str, name: str) -> None:
    read = scenario(f"  technique: {written}")
    assert read.application.technique == name
    assert loads(dump(read)) == read


def test_one_name_is_a_word() -> None:
    assert scenario("  technique: tfss").application.technique is Technique.TFSS


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("GSSS", "'GSSS' is not known; did you mean 'GSS'? allowed: STATIC, SS, FSC"),
        ("GSS+FACC", "'FACC' is not known; did you mean 'FAC'?"),
        ("GSS+SS+AF", "names 3 techniques; allowed: one, or two as X+Y"),
        ("GSS+", "'' is not known"),
        ("+GSS", "'+GSS' is not known"),
        ("7", "7 is no technique; allowed"),
        ("mine.py", "'mine.py' is not known"),
    ],
)
def test_names_that_are_none(written: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        scenario(f"  technique: {written}")
    text = str(error.value)
    assert text.startswith("study.yaml:5: application.technique: ")
    assert words in text


def test_splitting() -> None:
    assert split_technique("GSS+STATIC") == ("GSS", "STATIC")
    assert split_technique("./a+b.py:f") == ("./a+b.py:f",)
    assert split_technique("nonsense+SS") == ("nonsense+SS",)
    assert user_function("~/dir/my rules.py:size_2") == ("~/dir/my rules.py", "size_2")
    assert user_function("mine.py:2nd") is None


@pytest.mark.parametrize(
    ("technique", "parameters", "problem"),
    [
        (
            "FSC",
            "{sigma: 1 ms}",
            "parameters.overhead: missing; FSC needs the scheduling overhead of one chunk",
        ),
        ("FSC", "{overhead: 1 us}", "parameters.sigma: missing; FSC needs the standard deviation"),
        ("FSC", "{sigma: 0, overhead: 1 us}", "parameters.sigma: 0 s; FSC divides by it"),
        ("FSC", "{statistics: profiled, overhead: 0}", "parameters.overhead: 0 s; FSC"),
        (
            "GSS+TAP",
            "{sigma: 1 ms}",
            "parameters.mu: missing; TAP needs the mean of the iteration times, e.g. 5 ms",
        ),
        ("FAC", "{mu: 1}", "parameters.sigma: missing; FAC needs"),
    ],
)
def test_missing_parameters(technique: str, parameters: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        scenario(f"  technique: {technique}\n  parameters: {parameters}")
    text = str(error.value)
    assert text.startswith("study.yaml:6: application.parameters.")
    assert problem in text


def test_all_missing_parameters_are_named_where_there_is_no_section() -> None:
    with pytest.raises(InputError) as error:
        scenario("  technique: FSC")
    first, *problems = str(error.value).splitlines()
    assert first == "study.yaml: 2 problems"
    assert [line.split(": ")[1] for line in problems] == [
        "application.parameters.overhead",
        "application.parameters.sigma",
    ]


def test_profiled_statistics_need_no_sigma() -> None:
    read = scenario("  technique: FSC\n  parameters: {statistics: profiled, overhead: 1 us}")
    assert read.application.parameters.overhead == 1e-6


@pytest.mark.parametrize(
    ("written", "weights"),
    [("speed", WeightSource.SPEED), ("EQUAL", WeightSource.EQUAL), ("[1, 2.5]", (1.0, 2.5))],
)
def test_weights(written: str, weights: object) -> None:
    read = scenario(f"  technique: WF\n  parameters: {{weights: {written}}}")
    assert read.application.parameters.weights == weights
    assert loads(dump(read)) == read


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("[1, 0]", "0 is out of range"),
        ("[1, two]", "'two' is not a number"),
        ("fast", "'fast' is not known"),
        ("[]", "a list is not known"),
    ],
)
def test_weights_that_are_none(written: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        scenario(f"  technique: WF\n  parameters: {{weights: {written}}}")
    assert words in str(error.value)
    assert "allowed: speed, equal, or a list of numbers, each more than 0" in str(error.value)


def test_parameters_that_the_technique_does_not_read() -> None:
    read = scenario("  technique: GSS+PLS\n  parameters: {swr: 0.7, alpha: 2, weights: speed}")
    assert warnings_of(read) == [
        "application.parameters.alpha has no effect: only technique TAP reads it, and application.technique "
        "is GSS+PLS",
        "application.parameters.weights has no effect: only techniques WF, AWF, AWF-B, AWF-C, AWF-D, AWF-E "
        "read it, and application.technique is GSS+PLS",
    ]


def run(technique: str, costs: list[float], pes: int = 2, **told: Any) -> list[int]:
    prefix = np.concatenate([[0.0], np.cumsum(costs)])
    parameters = ParametersConfig(**told)
    rows = simulate(
        prefix, np.ones(pes), np.zeros(pes), technique, ExecutionConfig(), record=True, parameters=parameters
    ).rows
    assert rows is not None
    return rows.size.tolist()


def test_profiled_statistics_are_those_of_the_costs() -> None:
    costs = np.random.default_rng(1).exponential(2.0, 200).tolist()
    sigma, mu = float(np.std(costs)), float(np.mean(costs))
    for technique in ("FSC", "TAP", "FAC"):
        profiled = run(technique, costs, statistics="profiled", overhead=0.1)
        assert profiled == run(technique, costs, sigma=sigma, mu=mu, overhead=0.1)


@pytest.mark.parametrize(
    ("technique", "costs", "told", "words"),
    [
        (
            "FSC",
            [1.0] * 9,
            {"statistics": "profiled", "overhead": 1.0},
            "FSC on a loop of 9 iterations: all cost the",
        ),
        ("FAC", [0.0] * 9, {"statistics": "profiled"}, "FAC on a loop of 9 iterations: all cost 0"),
        ("WF", [1.0] * 9, {"weights": (1.0, 2.0, 3.0)}, "3 weights for technique WF in a loop on 2 PEs"),
        ("FAC", [1.0] * 9, {"sigma": 1.0}, "application.parameters.mu: missing; FAC needs"),
        ("GSS+SS", [1.0] * 9, {}, "names two, and model dca has one level"),
        ("GSSS", [1.0] * 9, {}, "'GSSS' is not known; allowed: STATIC, SS"),
    ],
)
def test_loops_that_cannot_be_scheduled(
    technique: str, costs: list[float], told: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        run(technique, costs, **told)
