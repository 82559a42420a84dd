"""One mistake in a scenario is one problem: nothing else is blamed for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from mlsim.errors import InputError
from mlsim.scenario import from_mapping
from mlsim.scenario.scenario_text import parse_text
from tests.cli.conftest import REPOSITORY

Key = tuple[str | int, ...]
DELETED = object()
RENAMED = object()


def keys(value: Any, above: Key = ()) -> Iterator[Key]:
    """Yield the keys of mappings and of lists of mappings, sections too."""
    if isinstance(value, dict):
        items: Any = value.items()
    else:
        items = enumerate(value) if isinstance(value, list) and isinstance(value[0], dict) else ()
    for key, inner in items:
        yield (*above, key)
        yield from keys(inner, (*above, key))


def problems(scenario: dict[str, Any], key: Key, wrong: object) -> list[str]:
    """Return the problems of a scenario with one thing wrong; none where it is right all the same."""
    changed = copy.deepcopy(scenario)
    place: Any = changed
    for part in key[:-1]:
        place = place[part]
    if wrong is DELETED:
        del place[key[-1]]
    elif wrong is RENAMED:
        place[f"{key[-1]}q"] = place.pop(key[-1])
    else:
        place[key[-1]] = wrong
    try:
        from_mapping(changed)
    except InputError as error:
        lines = str(error).splitlines()
        return lines[1:] or lines
    return []


@pytest.mark.parametrize("name", ["quickstart", "maintenance", "licences"])
def test_one_mistake_is_one_problem(name: str) -> None:
    scenario = parse_text((REPOSITORY / f"scenarios/{name}.yaml").read_text(), name).value
    tried = 0
    for key in keys(scenario):
        wrongs: list[object] = ["zz zz", -1, DELETED, RENAMED] if isinstance(key[-1], str) else ["zz zz"]
        for wrong in wrongs:
            found = problems(scenario, key, wrong)
            assert len(found) <= 1, (key, wrong, found)
            tried += bool(found)
    assert tried > 40


def test_a_missing_key_of_the_platform_blames_no_workload() -> None:
    scenario = parse_text((REPOSITORY / "scenarios/quickstart.yaml").read_text(), "quickstart").value
    assert problems(scenario, ("platform", "nodes", 0, "cores"), DELETED) == [
        "scenario: platform.nodes.0.cores: missing; allowed: a whole number, 1 to 1000000; e.g. cores: 20"
    ]
