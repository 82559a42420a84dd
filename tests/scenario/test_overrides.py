"""Values given beside the file: what they do, and how wrong ones are told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.scenario import Policy, dump, loads, parse_overrides
from mlsim.scenario.overrides import parse_override
from mlsim.scenario.words import Technique

LEAST = """\
platform:
  nodes:
    - {name: nd, count: 2, cores: 4}
workload:
  path: log.swf
"""


def told(text: str, overrides: dict[str, object]) -> str:
    with pytest.raises(InputError) as info:
        loads(text, "study.yaml", overrides)
    return str(info.value)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(
    [
        *("name", "platform", "platform.nodes", "platform.nodes.0", "platform.nodes.0.cores", "x.y"),
        *("workload.select", "batch", "batch.policy", "application.costs", "application.costs.mean"),
        "application.iterations",
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(keys, plain, min_size=1, max_size=4))
def test_whatever_is_put_in_gives_a_scenario_or_an_input_error(overrides: dict[str, object]) -> None:
    said = ""
    try:
        loads(LEAST, "study.yaml", overrides)
    except InputError as error:
        said = str(error)
    assert not said or "--set " in said


def test_overrides_are_put_in_before_anything_is_checked() -> None:
    text = LEAST + "batch: {policy: SAFF}\n"
    scenario = loads(
        text,
        overrides={
            "batch.policy": "LAF",
            "platform.nodes.0.count": 8,
            "application.model": "loop",
            "application.technique": "gss",
            "workload.select": {"first": 10},
        },
    )
    assert scenario.batch.policy is Policy.LAF
    assert scenario.platform.nodes[0].count == 8
    assert scenario.application.technique is Technique.GSS
    assert scenario.workload.select.first == 10


@pytest.mark.parametrize("seed", [0, 7, 7.0, 2**63 - 1])
def test_scenarios_that_differ_in_the_seed_are_those_of_a_text_with_that_seed(seed: float, tmp_path) -> None:
    others = {"batch.policy": "SAF", "platform.nodes.0.count": 3}
    for _ in range(2):
        found = loads(LEAST + "seed: wrong\n", "night.yaml", {"seed": seed, **others}, tmp_path)
        whole = loads(LEAST + f"seed: {int(seed)}\n", "night.yaml", others, tmp_path)
        assert found == whole
        assert (found.seed, found.directory, found.source) == (seed, tmp_path, "night.yaml")
        assert dump(found) == dump(whole)


def test_what_is_no_seed_is_said_as_ever() -> None:
    for seed in (-1, 1.5, "x", [1], True):
        for _ in range(2):
            assert "--set seed: " in told(LEAST, {"seed": seed})
    assert "--set batch.policy: " in told(LEAST, {"seed": 3, "batch.policy": "SAFF"})
    assert "--set batch.policy: " in told(LEAST, {"seed": 4, "batch.policy": "SAFF"})


def test_an_empty_override_takes_the_key_out() -> None:
    text = LEAST + "seed: 7\nname: night\n"
    scenario = loads(text, "x.yaml", {"seed": None, "name": None})
    assert (scenario.seed, scenario.name) == (0, "x")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"batch.polcy": "SAF"}, "--set batch.polcy: unknown key; did you mean 'policy'?"),
        ({"batch.policy": "SFA"}, "--set batch.policy: 'SFA' is not known; did you mean 'SAF'?"),
        (
            {"platform.nodes.5.count": 3},
            "--set platform.nodes.5.count: platform.nodes is a list of 1; "
            "allowed: platform.nodes.0 to platform.nodes.0",
        ),
        ({"platform.nodes.x.count": 3}, "--set platform.nodes.x.count: platform.nodes is a list of 1;"),
        ({"name.x": 3}, "--set name.x: name is 'study' and holds no keys"),
        ({"batch.policy.x": 3}, "--set batch.policy.x: batch.policy: a mapping is not known"),
        ({"platform.nodes.0.name": None}, "--set platform.nodes.0.name: missing;"),
        ({"platform": {"nodes": [{}]}}, "--set platform.nodes.0.count: missing;"),
        ({"application.0": 3}, "--set application.0: unknown key;"),
        ({"batch.polcy": None}, "--set batch.polcy: unknown key; did you mean 'policy'?"),
        ({"bacth.policy": None}, "--set bacth.policy: unknown key;"),
        ({"": None}, "empty key;"),
        ({"": 3}, "empty key; expected one such as batch.policy"),
    ],
)
def test_wrong_overrides(overrides: dict[str, object], message: str) -> None:
    assert message in told(LEAST, overrides)


def test_problems_of_the_file_come_before_those_of_overrides() -> None:
    lines = told(LEAST + "seed: -1\n", {"batch.policy": "XXXX"}).splitlines()
    assert lines[0] == "study.yaml: 2 problems"
    assert lines[1].startswith("study.yaml:6: seed:")
    assert lines[2].startswith("--set batch.policy:")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch.policy=SAF", "SAF"),
        ("k.a=8", 8),
        ("k.a=50 Gbit/s", "50 Gbit/s"),
        ("k.a=a=b", "a=b"),
        ("k.a=on", "on"),
        ("k.a=true", True),
        ("k.a=", None),
        ("k.a=[1, x]", [1, "x"]),
        ("k.a={x: 1e-3}", {"x": 1e-3}),
    ],
)
def test_override_texts(text: str, value: object) -> None:
    assert parse_override(text) == (text.partition("=")[0], value)


def test_several_override_texts() -> None:
    assert parse_overrides(["a=1", "b.c=x", "a=2"]) == {"a": 2, "b.c": "x"}


@pytest.mark.parametrize("text", ["batch.policy", "=3", "a..b=3", "", "a=[1", "a=!x 3"])
def test_wrong_override_texts(text: str) -> None:
    with pytest.raises(InputError, match="--set"):
        parse_override(text)


def test_values_of_overrides_stay_as_they_are() -> None:
    costs: dict[str, object] = {"profile": "constant", "mean": 3, "std": None}
    overrides = {"application": {"model": "loop", "costs": costs}, "application.costs.mean": 5}
    assert loads(LEAST, overrides=overrides).application.costs.mean == (5.0, "s")
    assert costs == {"profile": "constant", "mean": 3, "std": None}
