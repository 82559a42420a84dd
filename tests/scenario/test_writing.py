"""What is written about scenarios: dumps, the JSON schema, the catalogue, the reference page."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlsim.scenario
from mlsim.errors import StoppedError
from mlsim.scenario import Scenario, dump, from_mapping, loads, scenario_text
from mlsim.scenario.scenario_keys import json_schema, model_parameters, options
from mlsim.scenario.scenario_text import parse_text, plain
from mlsim.scenario.words import Dispatcher
from tools.site import reference

LEAST: dict[str, Any] = {
    "platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]},
    "workload": {"path": "log.swf"},
}
REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "reference" / "scenario-files.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"name": "null", "description": "two\nlines: and # more\n", "seed": 2**40},
    {"platform": {"nodes": [{"name": "on", "count": 1, "cores": 3, "node_speed": 1e10}]}},
    {"workload": {"path": "~/log.swf", "select": {"window": {"start": 0.1, "end": "3 d"}, "first": 3}}},
    {"application": {"model": "loop", "iterations": {"count": 77}}, "coordination": {"rca": True}},
    {"application": {"model": "loop", "costs": {"profile": "file", "path": "c.csv"}}},
    {"application": {"model": "loop", "costs": {"profile": "normal", "mean": "3 GFLOP", "std": "1 FLOP"}}},
    {"application": {"model": "loop", "costs": {"profile": "constant", "mean": 1 / 3}, "pes_per_node": 2}},
    {"application": {"model": "loop", "costs": {"profile": "mandelbrot", "mean": 1, "window": {"x_min": 0}}}},
    {
        "application": {
            "model": "loop",
            "costs": {"profile": "mandelbrot", "calibrate": "run-time"},
            "iterations": {"count": 4},
        }
    },
    {"application": {"model": "loop", "costs": {"profile": "psia", "unit_cost": "1 us", "bin_size": 0.1}}},
    {"application": {"model": "loop", "costs": {"profile": "bimodal", "low": 0, "high": "3 ms"}}},
]


VARIANTS += [
    {"batch": {"dispatcher": str(name), "cp": {"time_limit": "2 s", "extensions": 3}}}
    for name in Dispatcher
    if name.solves and name is not Dispatcher.LISTS
] + [{"batch": {"dispatcher": "lists", "cp": {"jobs": 7, "reserve": 0.3}}}]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_dump_loads_back_equal(variant: dict[str, Any]) -> None:
    scenario = from_mapping(LEAST | variant)
    text = dump(scenario)
    again = loads(text, "elsewhere.yaml", directory="elsewhere")
    assert again == scenario
    assert dump(again) == text
    assert from_mapping(plain(scenario)) == scenario


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@example("\x85", 1.0, 0.0)
@example("\u2028a\r\n b: #", 1.0, 0.0)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.floats(min_value=1e-300, max_value=1e30),
    st.floats(min_value=0, max_value=2.0**53),
)
def test_any_text_and_number_survives_a_dump(description: str, bandwidth: float, latency: float) -> None:
    overrides = {
        "description": description,
        "platform.network.bandwidth": bandwidth,
        "platform.network.latency": latency,
        "platform.nodes.0.speed": bandwidth,
    }
    scenario = from_mapping(LEAST, overrides=overrides)
    assert scenario.platform.network.latency == latency
    assert loads(dump(scenario)) == scenario


def test_a_dump_holds_every_default_and_no_directory() -> None:
    text = dump(loads(dump(from_mapping(LEAST)), "/some/where/x.yaml", directory="/some/where"))
    assert "/some" not in text
    assert "latency: 500 ns" in text
    assert "speed: 1 GFLOP/s" in text
    assert "policy: FCFS" in text
    assert "application:\n  model: rigid\ncoordination:" in text


def test_the_catalogue_has_every_key() -> None:
    listed = {option.key: option for option in (*options(), *model_parameters())}
    assert listed["batch.policy"].default == "FCFS"
    assert listed["batch.policy"].allowed.startswith("FCFS, LCFS")
    assert listed["platform.nodes.N.count"].default == "needed"
    assert listed["platform.network.bandwidth"].default == "50 Gbit/s"
    assert listed["output.pictures"].default == "on"
    assert listed["application.costs.mean"].default == ""
    assert all(option.allowed and option.description for option in listed.values())
    written = {re.sub(r"\.\d+\.", ".N.", key) for key in keys_of(plain(from_mapping(LEAST)), "")}
    assert written <= set(listed)


def keys_of(value: Any, prefix: str) -> list[str]:
    if isinstance(value, dict):
        return [key for name, inner in value.items() for key in keys_of(inner, f"{prefix}{name}.")]
    if isinstance(value, list):
        return [key for row, inner in enumerate(value) for key in keys_of(inner, f"{prefix}{row}.")]
    return [prefix[:-1]]


def accepts(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Check a value against the part of JSON schema that is used here, as an editor would."""
    if "$ref" in schema:
        return accepts(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], value, root)
    if "anyOf" in schema:
        return any(accepts(choice, value, root) for choice in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    match schema["type"]:
        case "integer" | "number" as kind:
            number = int if kind == "integer" else (int, float)
            low, above = schema.get("minimum", -1e999), schema.get("exclusiveMinimum", -1e999)
            below = schema.get("exclusiveMaximum", 1e999)
            high = schema.get("maximum", 1e999)
            if not isinstance(value, number) or isinstance(value, bool):
                return False
            return low <= value <= high and above < value < below
        case "string":
            return isinstance(value, str) and re.search(schema.get("pattern", ""), value) is not None
        case "array":
            fits = isinstance(value, list) and len(value) >= schema.get("minItems", 0)
            return fits and all(accepts(schema["items"], item, root) for item in value)
        case "object" if "patternProperties" in schema:
            ((names, inner),) = schema["patternProperties"].items()
            return isinstance(value, dict) and all(
                re.search(names, key) and accepts(inner, item, root) for key, item in value.items()
            )
        case "object" if "properties" not in schema:
            names = schema["propertyNames"]["pattern"]
            return isinstance(value, dict) and all(
                re.search(names, key) and accepts(schema["additionalProperties"], item, root)
                for key, item in value.items()
            )
        case "object":
            known = schema["properties"]
            fits = (
                isinstance(value, dict)
                and set(value) <= set(known)
                and set(schema.get("required", ())) <= set(value)
            )
            return fits and all(accepts(known[key], item, root) for key, item in value.items())
        case kind:
            return isinstance(value, kinds[kind])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_schema_accepts_what_is_right(variant: dict[str, Any]) -> None:
    schema = json_schema()
    assert accepts(schema, LEAST | variant, schema)
    assert accepts(schema, plain(from_mapping(LEAST | variant)), schema)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sed": 3},
        {"seed": -1},
        {"seed": "x"},
        {"batch": {"policy": "XX"}},
        {"batch": {"deadline_factor": 0}},
        {"platform": {"nodes": []}},
        {"platform": {"nodes": [{"name": "n", "count": 2}]}},
        {"platform": LEAST["platform"] | {"network": {"latency": "5 parsecs"}}},
        {"workload": {"path": ""} | {"format": 3}},
        {"coordination": {"rca": "maybe"}},
    ],
)
def test_the_schema_refuses_what_is_wrong(wrong: dict[str, Any]) -> None:
    schema = json_schema()
    assert not accepts(schema, LEAST | wrong, schema)


def test_the_schema_tells_editors_what_they_show() -> None:
    schema = json_schema()
    policy = schema["$defs"]["BatchConfig"]["properties"]["policy"]
    assert policy["default"] == "FCFS"
    assert {"enum": [*mlsim.scenario.Policy, "SJF", "LJF"]} in policy["anyOf"]
    assert schema["$defs"]["NetworkConfig"]["properties"]["latency"]["default"] == "500 ns"
    assert schema["additionalProperties"] is False
    assert all("description" in part or "$ref" in part for part in properties(schema))
    assert accepts(policy, "saf", schema)


def properties(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        part for section in [schema, *schema["$defs"].values()] for part in section["properties"].values()
    ]


def test_the_reference_page_is_up_to_date() -> None:
    pages = [text for name, text in reference.pages().items() if name.startswith("reference/keys/")]
    lines = [line for text in pages for line in text.splitlines() if line.startswith("| `")]
    rows = {line.split("|")[1].strip(" `"): line for line in lines}
    listed = (*options(), *model_parameters())
    assert sorted(rows) == sorted(option.key for option in listed)
    assert len(rows) == len(lines)
    for option in listed:
        told = re.sub(r"\]\([^)]*\)", "]", rows[option.key].split(" | ")[-1])
        assert _words(told) == _words(re.sub(r"[\w/]+/([\w-]+)\.md", r"\1", option.description))
        assert f"| `{option.default}` |" in rows[option.key] or not option.default


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]{4,}", text)


def test_the_example_of_the_reference_page_is_a_scenario() -> None:
    scenario = loads(EXAMPLE)
    assert isinstance(scenario, Scenario)
    assert loads(dump(scenario)) == scenario
    schema = json_schema()
    assert accepts(schema, parse_text(EXAMPLE, "x").value, schema)


def test_the_errors_of_the_reference_page_are_those_one_gets() -> None:
    text = """\
platform:
  nodes: [{name: n, count: 1, cores: 1}]
  network:
    topology: fully-connected
    bandwidth: 50 Gbit/s
    latency: 500 parsecs
workload: {path: log.swf}
batch:
  ties: draind
application:
  technique: GSS
"""
    with pytest.raises(mlsim.scenario.scenario_loading.InputError) as info:
        loads(text, "study.yaml")
    assert str(info.value) in PAGE


def test_writing_that_is_interrupted_prints_nothing_and_can_begin_anew(monkeypatch, capsys):
    class Interrupted(io.StringIO):
        def write(self, text):
            if text == "seed":
                raise StoppedError(2)
            return super().write(text)

    scenario = from_mapping(LEAST)
    whole = dump(scenario)
    with monkeypatch.context() as patched:
        patched.setattr(scenario_text.io, "StringIO", Interrupted)
        with pytest.raises(StoppedError):
            dump(scenario)
    assert capsys.readouterr().out == ""
    assert dump(scenario) == whole
