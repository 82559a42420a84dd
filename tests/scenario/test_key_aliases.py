"""Other names of keys: they work everywhere, earlier ones with a note, and give the same scenario."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mlsim.errors import InputError
from mlsim.scenario import dump, from_mapping, loads
from mlsim.scenario import overrides as key_names
from mlsim.scenario.costs_section import SelectionConfig
from mlsim.scenario.scenario_keys import options
from mlsim.scenario.scenario_loading import overridden

BASE = """\
platform:
  nodes: [{name: n, count: 4, cores: 2}]
workload: {path: log.swf}
application:
  model: loop
  technique: auto
"""
OLD = BASE + "  selection: {method: exhaustive, threshold: 5}\n"
NEW = BASE + "  selection: {method: exhaustive, parameters: {threshold: 5}}\n"


@pytest.fixture(autouse=True)
def _notes_anew() -> None:
    key_names._note.cache_clear()


def test_an_old_name_gives_the_same_scenario_and_one_note(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="mlsim"):
        assert loads(OLD) == loads(NEW)
        assert loads(OLD, "again") == loads(NEW, "again")
    assert [record.message for record in caplog.records] == [
        "application.selection.threshold is now called application.selection.parameters.threshold; the old "
        "name still works"
    ]
    assert "parameters:\n      threshold: 5.0" in dump(loads(OLD))


def test_an_error_has_the_line_of_the_old_name() -> None:
    with pytest.raises(InputError, match=r"^s:8: application\.selection\.parameters\.threshold: -5 is"):
        loads(BASE + "  selection:\n    threshold: -5\n", "s")


def test_both_names_are_one_too_many() -> None:
    text = BASE + "  selection: {threshold: 5, parameters: {threshold: 5}}\n"
    with pytest.raises(InputError, match=r"selection\.threshold: given together with application\.s"):
        loads(text)


@pytest.mark.parametrize(
    "overrides",
    [
        {"application.selection.threshold": 7},
        {"application.selection": {"method": "exhaustive", "threshold": 7}},
        {"application": {"model": "loop", "technique": "auto", "selection": {"threshold": 7}}},
        {"application.selection.parameters.threshold": 7},
    ],
)
@pytest.mark.parametrize("text", [OLD, NEW, BASE])
def test_an_override_by_either_name_replaces_the_file(text: str, overrides: dict[str, Any]) -> None:
    selection = loads(text, overrides=overrides).application.selection
    assert selection is not None
    assert selection.parameters.threshold == 7
    assert overridden(text, "s", overrides)["application"]["selection"]["parameters"] == {"threshold": 7}


def test_a_key_that_moved_to_another_section_is_found_there() -> None:
    execution = {"first_chunk": 0.3, "pieces": 2}
    whole = {"model": "loop", "execution": execution}
    for overrides in ({"application.execution": execution}, {"application": whole}):
        application = loads(BASE, overrides=overrides).application
        assert (application.parameters.first_chunk, application.parameters.pieces) == (0.3, 2)


def test_words_of_the_field_are_the_same_key_without_a_note(caplog: pytest.LogCaptureFixture) -> None:
    text = "platform:\n  nodes: [{name: n, count: 2, cores: 2}]\n  maintenance: [{start: 1 h}]\n"
    text += "  licenses: {m: 2}\n"
    with caplog.at_level(logging.WARNING, logger="mlsim"):
        found = loads(text + "workload: {path: x.swf}\nbatch: {at_walltime: extend, backfill: first_fit}\n")
    assert not caplog.records
    assert found.platform.drains[0].start == 3600
    assert dict(found.platform.shares)["m"].value == 2
    assert (found.batch.on_overrun, found.batch.backfill) == ("extend", "greedy")


def test_sections_take_old_names_without_a_file() -> None:
    assert SelectionConfig.model_validate({"samples": 3}).parameters.samples == 3


def test_what_a_run_wrote_under_old_names_is_read_without_a_note(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from mlsim.scenario import load

    (tmp_path / "scenario.yaml").write_text(OLD)
    (tmp_path / "versions.json").write_text('{"read_in": [".."]}')
    with caplog.at_level(logging.WARNING, logger="mlsim"):
        load(tmp_path / "scenario.yaml")
    assert not caplog.records


def test_there_are_fewer_than_190_keys_and_each_alias_has_one() -> None:
    from mlsim.scenario.scenario_keys import dotted_keys

    known = dotted_keys()
    assert len(options()) < 190
    for alias in key_names.key_aliases():
        assert alias.key in known
        assert alias.name not in known


def test_mappings_are_checked_as_strictly_as_keys() -> None:
    with pytest.raises(InputError, match=r"parameters\.treshold: unknown key; did you mean 'threshold'\?"):
        from_mapping(loads_mapping({"parameters": {"treshold": 5}}))


def loads_mapping(selection: dict[str, Any]) -> dict[str, Any]:
    return overridden(BASE, "s", {"application.selection": selection})


def test_a_drain_may_have_the_words_of_slow_downs() -> None:
    def drains(spans: list[dict[str, object]]) -> object:
        nodes = [{"name": "n", "count": 4, "cores": 1}]
        platform = {"nodes": nodes, "drains": spans}
        return from_mapping({"platform": platform, "workload": {"path": "log.swf"}}).platform.drains

    spans = [{"nodes": "0-1", "start": "5 s", "end": "1 h", "announced": True}, {"start": "2 h"}]
    others = [{"nodes": "0-1", "from": "5 s", "until": "1 h", "announced": True}, {"from": "2 h"}]
    assert drains(others) == drains(spans)
    with pytest.raises(InputError, match="start"):
        drains([{"start": "1 s", "from": "2 s"}])


def test_a_window_by_its_ends_is_one_key_and_each_end_can_be_set() -> None:
    text = BASE.replace("{path: log.swf}", "{path: log.swf, select: {window: {start: 1 h, end: 2 h}}}")
    found = loads(text, overrides={"workload.select.window.end": "3 h"}).workload.select.window
    assert found is not None
    assert (found.start, found.end) == (3600.0, 10800.0)
    assert [option.key for option in options() if ".window" in option.key] == ["workload.select.window"]


def test_a_section_in_another_one_belongs_to_the_top_level() -> None:
    with pytest.raises(InputError, match=r"workload\.batch: unknown key; batch is a key of its own: move it"):
        loads(BASE.replace("{path: log.swf}", "{path: log.swf, batch: {policy: SAF}}"))


@pytest.mark.parametrize("key", ["batch.policy", "application.technique", "seed", "coordination.rca"])
def test_a_list_of_values_belongs_to_a_study(key: str) -> None:
    section, _, name = key.rpartition(".")
    values = {name: ["SS", "GSS"]}
    in_file = (
        from_mapping,
        {"platform": {"nodes": []}, "workload": {}} | ({section: values} if section else values),
    )
    for read, *given in (in_file, (loads, BASE, "s", {key: ["SS", "GSS"]})):
        with pytest.raises(InputError, match="A run takes one; a study compares several") as error:
            read(*given)
        assert f"vary: {{{key}: [...]}}" in str(error.value)
    with pytest.raises(InputError) as error:  # of two or more, which a study has nothing to do with
        loads(BASE, overrides={"application.selection.portfolio": ["SS"]})
    assert "vary" not in str(error.value)
