"""Words of other schedulers as keys: the message names our key, or says what to use instead."""

from __future__ import annotations

from typing import Any

import pytest

from mlsim.errors import InputError
from mlsim.scenario import from_mapping
from mlsim.scenario.overrides import _ADVICE_OF_WORDS, look_up
from mlsim.scenario.section_base import split_key


def told(**changes: Any) -> str:
    scenario: dict[str, Any] = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]},
        "workload": {"path": "x.swf"},
    }
    for section, keys in changes.items():
        scenario[section] = scenario.get(section, {}) | keys if isinstance(keys, dict) else keys
    with pytest.raises(InputError) as caught:
        from_mapping(scenario)
    return str(caught.value)


@pytest.mark.parametrize(
    ("section", "word", "hint"),
    [
        ("platform", "partitions", "partitions cannot be written yet"),
        ("platform", "gpus", "write resources: {gpu: 4} in the node group"),
        ("workload", "licenses", "write platform.shared: {matlab: 20}"),
        ("platform", "Features", "constraints cannot be written yet"),
        ("batch", "maintenance", "write platform.drains:"),
        ("platform", "reservations", "write platform.drains:"),
        ("batch", "preempt", "preemption cannot be written yet"),
        ("batch", "qos", "batch.policy: fairshare"),
        ("batch", "priority", "write batch.policy: linear with batch.weights"),
        ("workload", "file", "write workload.path: FILE"),
        ("batch", "reservation", "did you mean 'reservations'?"),
        ("output", "traces", "did you mean 'trace'?"),
    ],
)
def test_words_of_the_world_are_understood(section: str, word: str, hint: str) -> None:
    found = told(**{section: {word: 2}})
    assert found.startswith(f"scenario: {section}.{word}: unknown key; ")
    assert hint in found


def test_every_key_of_the_advice_is_one() -> None:
    for words, advice in _ADVICE_OF_WORDS.items():
        assert words
        assert not advice.key or look_up(split_key(advice.key))[1] is not None, advice


@pytest.mark.parametrize(
    "workload",
    [{"generat": {"model": "lublin", "jobs": 5}}, {"generate": "lublin"}, {"log": "x.swf"}, {"pth": "x.swf"}],
)
def test_a_log_that_was_meant_is_not_missing_as_well(workload: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        from_mapping({"platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]}, "workload": workload})
    assert "missing" not in str(caught.value)
    assert "problems" not in str(caught.value)
