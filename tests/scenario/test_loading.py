"""Scenario files: what is read, and that everything wrong is reported at once, with its place."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.scenario import BatchConfig, Policy, dump, load, loads
from mlsim.scenario.scenario_loading import overridden
from mlsim.scenario.words import Backfill

LEAST = """\
platform:
  nodes:
    - {name: nd, count: 2, cores: 4}
workload:
  path: log.swf
"""


def told(text: str) -> str:
    with pytest.raises(InputError) as info:
        loads(text, "study.yaml")
    return str(info.value)


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text("\ufeff" + LEAST + "seed: 7\nbatch: {policy: saf}\n", encoding="utf-8")
    scenario = load(file)
    assert (scenario.name, scenario.seed, scenario.batch.policy) == ("night", 7, Policy.SAF)
    assert (scenario.directory, scenario.source) == (tmp_path, str(file))


def test_where_a_scenario_was_read_makes_no_difference() -> None:
    one = loads(LEAST, "a/x.yaml", directory="a")
    other = loads(LEAST, "b/x.yaml", directory="b")
    assert one == other
    assert (str(one.directory), one.source, one.name) == ("a", "a/x.yaml", "x")


def test_five_mistakes_are_all_reported_in_the_order_of_the_file() -> None:
    text = """\
platform:
  nodes:
    - name: n
      count: 0
      cores: 4
  network:
    latency: 500 parsecs
workload:
  path: log.swf
batch:
  polcy: SAF
  backfill: eazy
application:
  technique: GSS
"""
    assert told(text).splitlines() == [
        "study.yaml: 5 problems",
        "study.yaml:4: platform.nodes.0.count: 0 is too small; allowed: a whole number, 1 to 10000000",
        "study.yaml:7: platform.network.latency: '500 parsecs' is not a time; "
        "allowed: ns, us, ms, s, min, h, d, w; e.g. '500 ns'",
        "study.yaml:11: batch.polcy: unknown key; did you mean 'policy'? "
        f"allowed: {', '.join(BatchConfig.model_fields)}",
        "study.yaml:12: batch.backfill: 'eazy' is not known; did you mean 'easy'? "
        f"allowed: {', '.join(Backfill)}",
        "study.yaml:14: application.technique: only a loop has this, and model is rigid; "
        "write model: loop, or take it out",
    ]


def test_rules_between_keys_are_reported_along_with_wrong_keys() -> None:
    text = """\
platform:
  nodes:
    - {name: a, count: 1, cores: 4, speed: 1e9, node_speed: 4e9}
    - {name: b, count: 1, cores: 8}
    - {name: b, count: many, cores: 8}
workload:
  path: log.swf
application:
  model: loop
  costs: {profile: normal, mean: 1 s}
coordination: {rcaa: on}
"""
    problems = told(text)
    assert "study.yaml:3: platform.nodes.0.speed: given together with node_speed" in problems
    assert "study.yaml:5: platform.nodes.2.count: 'many' is not a whole number" in problems
    assert "study.yaml:5: platform.nodes.2.name: 'b' is already the name of nodes.1" in problems
    assert "study.yaml:6: workload.mapping: packed needs nodes with equally many cores" in problems
    assert "study.yaml:10: application.costs.std: missing; profile: normal needs it" in problems
    assert "study.yaml:11: coordination.rcaa: unknown key; did you mean 'rca'?" in problems


def test_a_rule_that_reads_a_wrong_key_waits() -> None:
    text = LEAST + "application: {model: lop, technique: GSS}\ncoordination: {rca: on}\n"
    assert told(text) == (
        "study.yaml:6: application.model: 'lop' is not known; did you mean 'loop'? allowed: rigid, loop"
    )
    text = LEAST + "aplication: {model: loop}\ncoordination: {rca: on}\n"
    assert told(text).startswith("study.yaml:6: aplication: unknown key; did you mean 'application'?")
    assert "\n" not in told(text)


def test_a_misspelt_section_is_not_also_missing() -> None:
    text = told(LEAST.replace("workload", "worklaod"))
    assert text.startswith("study.yaml:4: worklaod: unknown key; did you mean 'workload'? allowed: name,")


def test_missing_keys() -> None:
    problems = told("platform:\n  nodes:\n    - cores: 4\n")
    assert (
        "study.yaml:3: platform.nodes.0.name: missing; "
        "allowed: a text on one line, not empty; e.g. name: xeon" in problems
    )
    assert "study.yaml:3: platform.nodes.0.count: missing; allowed: a whole number" in problems
    assert "study.yaml:1: workload: missing; its keys: path, format, lenient" in problems


def test_a_key_in_the_wrong_section() -> None:
    assert "study.yaml:6: policy: unknown key; did you mean 'batch.policy'?" in told(LEAST + "policy: SAF\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload: 3", "study.yaml:1: workload: 3 is not a mapping; its keys: path,"),
        ("platform: {nodes: {name: a}}", "study.yaml:1: platform.nodes: a mapping is not a list"),
        (
            "platform: {nodes: []}",
            "study.yaml:1: platform.nodes: empty; a list of entries with the keys: name,",
        ),
        ("platform: {nodes: [3]}", "study.yaml:1: platform.nodes.0: 3 is not a mapping"),
        ("3: 4", "study.yaml:1: 3: unknown key"),
        ("? [a]\n: 4", "study.yaml:1: ?: unknown key"),
    ],
)
def test_wrong_shapes(text: str, message: str) -> None:
    assert message in told(text)


def test_duplicate_keys_are_all_found() -> None:
    problems = told(LEAST + "batch:\n  policy: SAF\n  policy: LAF\nseed: 1\nseed: 2\n").splitlines()
    assert problems == [
        "study.yaml: 2 problems",
        "study.yaml:8: batch.policy: given twice, first on line 7; keep one of them",
        "study.yaml:10: seed: given twice, first on line 9; keep one of them",
    ]


def test_no_more_than_one_screen() -> None:
    lines = told(LEAST + "".join(f"key{i}: 1\n" for i in range(30))).splitlines()
    assert lines[0] == "study.yaml: 30 problems"
    assert len(lines) == 22
    assert lines[-1] == "and 10 more"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "study.yaml: empty; its keys: name, description, seed, platform,"),
        ("# nothing\n", "study.yaml: empty;"),
        ("- a", "study.yaml: a scenario is a mapping, this is a list;"),
        ("; SWF\n1 2 3", "study.yaml: a scenario is a mapping, this is '; SWF 1 2 3';"),
        ("a: [1,\nb: 2", "study.yaml:2: not valid YAML: expected ',' or ']'"),
        (
            "a:\n\tb: 1",
            "study.yaml:2: not valid YAML: found character '\\t' that cannot start any token (column 1)",
        ),
        ("a: b: c", "study.yaml:1: not valid YAML: mapping values are not allowed here (column 5);"),
        ("a: 1\n---\nb: 2", "a scenario file holds one document: split it at '---'"),
        ("a: 1\nb: \x00", "study.yaml:2: not valid YAML: special characters are not allowed"),
        ("a: *x", "study.yaml:1: not valid YAML: found undefined alias 'x'"),
        ("a: &x {b: *x}", "study.yaml:1: a.b: this alias repeats itself or too much"),
        ("a: &x {<<: *x}", "study.yaml:1: a.<<: this alias repeats itself or too much"),
        (
            "a: &x [1]\nb: {<<: *x}",
            "study.yaml:1: b.<<: merges no mapping; write <<: *NAME of a mapping &NAME",
        ),
        ("name: !!python/object:os 1", "study.yaml:1: name: the tag !!python/object:os is not understood"),
    ],
)
def test_what_is_no_scenario(text: str, message: str) -> None:
    assert message in told(text)


def test_aliases_do_not_blow_up() -> None:
    levels = "\n".join(f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9)}]" for i in range(1, 9))
    assert "this alias repeats itself or too much" in told(f"k0: &k0 [1]\n{levels}\n")
    merged = "\n".join(f"k{i}: &k{i} {{<<: [{', '.join([f'*k{i - 1}'] * 9)}]}}" for i in range(1, 9))
    assert "this alias repeats itself or too much" in told(f"k0: &k0 {{a: 1}}\n{merged}\n")


MERGED = """\
platform: {nodes: [&node {name: a, count: 2, cores: 4}, {<<: *node, name: b}]}
workload: {path: log.swf}
applications:
  base: &base {model: loop, steps: 3, costs: &costs {profile: constant, mean: 1 s}, iterations: {count: 64}}
  other: &other {<<: *base, technique: SS, steps: 5}
  both: {technique: GSS, <<: [*other, {technique: FAC2, min_chunk: 2}]}
  default: {<<: *other, steps: , costs: {<<: *costs, mean: 2 s}}
assign: [{default: base}]
"""


def test_mappings_are_merged_and_own_keys_win() -> None:
    scenario = loads(MERGED, "x.yaml")
    assert [(node.name, node.count, node.cores) for node in scenario.platform.nodes] == [
        ("a", 2, 4),
        ("b", 2, 4),
    ]
    found = {name: one.application for name, one in scenario.by_application.items()}
    assert {name: (one.time_steps, one.technique, one.min_chunk) for name, one in found.items()} == {
        "base": (3, "STATIC", 1),
        "other": (5, "SS", 1),
        "both": (5, "GSS", 2),
        "default": (1, "SS", 1),
    }
    assert [one.costs.mean.value for one in found.values()] == [1.0, 1.0, 1.0, 2.0]
    again = loads(dump(scenario), "x.yaml")
    assert again == scenario
    changed = overridden(MERGED, "x.yaml", {"applications.other.costs.mean": "5 s"})["applications"]
    assert [one["costs"]["mean"] for one in changed.values()] == ["1 s", "5 s", "1 s", "2 s"]
    wrong = MERGED.replace("steps: 3", "steps: 3, technique: SSS", 1)
    assert "study.yaml:4: applications.base.technique: 'SSS' is not known" in told(wrong)


def test_endless_nesting_is_told() -> None:
    assert told("[" * 5000 + "]" * 5000) == "study.yaml: nested too deeply; is this a scenario file?"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "night.yaml").write_text(LEAST)
    (tmp_path / "latin.yaml").write_bytes(b"name: a\nseed: \xe9\n")
    cases = {
        "nihgt.yaml": f"there is no such file; did you mean {tmp_path / 'night.yaml'}?",
        "no/night.yaml": f"there is no such file (and no directory {tmp_path / 'no'})",
        "": "is a directory; name a scenario file in it: latin.yaml, night.yaml",
        "latin.yaml": "latin.yaml:2: is not UTF-8 text (byte 0xe9)",
        "night.yaml/x": "there is no such file: a part of its path is no directory",
    }
    for name, message in cases.items():
        with pytest.raises(InputError) as info:
            load(tmp_path / name)
        assert message in str(info.value)
        assert info.value.exit_code == 2


def test_a_workload_is_no_scenario_file(tmp_path: Path) -> None:
    file = tmp_path / "log.swf"
    file.write_bytes(b"1 2 3\n" * 2_000_000)
    with pytest.raises(InputError, match="12 MB is too large for a scenario file"):
        load(file)


@pytest.mark.parametrize(("word", "value"), [("on", True), ("off", False), ("true", True), ("No", False)])
def test_switches_in_all_spellings(word: str, value: bool) -> None:
    text = LEAST + f"application: {{model: loop}}\ncoordination: {{rca: {word}}}\n"
    assert loads(text).coordination.rca is value
    assert loads("%YAML 1.1\n---\n" + text).coordination.rca is value


def test_no_value_means_the_default() -> None:
    scenario = loads(LEAST + "seed:\nbatch:\napplication: {model: ~}\nname: null\n", "x.yaml")
    assert (scenario.seed, scenario.name) == (0, "x")
    assert scenario.batch.policy is Policy.FCFS


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60))
def test_any_text_is_a_scenario_or_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        loads(text, "study.yaml")


def test_sections_that_were_read_before_are_the_same_as_read_anew() -> None:
    """Values that are equal in Python, such as 1 and true, are told apart; rules and errors stay."""
    first = loads(LEAST, overrides={"workload.select.weeks": 1, "batch.policy": "SAF"})
    again = loads(LEAST, overrides={"workload.select.weeks": 1, "batch.policy": "FCFS"})
    assert again.workload is first.workload
    assert (first.batch.policy, again.batch.policy) == (Policy.SAF, Policy.FCFS)
    assert loads(LEAST, overrides={"workload.select.weeks": "1-2"}).workload.select.weeks == (1, 2)
    for wrong in (True, 1.5, 0):
        with pytest.raises(InputError, match=r"--set workload.select.weeks: "):
            loads(LEAST, overrides={"workload.select.weeks": wrong})
    with pytest.raises(InputError, match=r"platform.nodes.0.count: ") as info:
        loads(LEAST.replace("count: 2", "count: true"), "study.yaml")
    assert str(info.value).startswith("study.yaml:3: ")
    with pytest.raises(InputError, match=r"coordination.rca: .*rigid"):
        loads(LEAST, overrides={"coordination.rca": True, "workload.select.weeks": 1})


def test_overrides_leave_the_text_as_it_was() -> None:
    before = loads(LEAST)
    changed = loads(LEAST, overrides={"platform.nodes.0.count": 9, "workload.mapping": "node"})
    assert changed.platform.nodes[0].count == 9
    assert loads(LEAST) == before
    given = overridden(LEAST, "scenario", {"platform.nodes.0.count": 9})
    assert given["platform"]["nodes"][0]["count"] == 9
    assert overridden(LEAST, "scenario", {})["platform"]["nodes"][0]["count"] == 2
