"""A scenario as the text of a scenario file."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from functools import cache
from typing import Any

from mlsim.scenario.files.source import yaml_class
from mlsim.scenario.jobs.batch import BatchConfig
from mlsim.scenario.loop.application import ApplicationConfig
from mlsim.scenario.loop.costs import PROFILE_KEYS, CostsConfig
from mlsim.scenario.machine.network import OWN_KEYS, TOPOLOGY_KEYS, NetworkConfig
from mlsim.scenario.machine.platform import NodeGroup
from mlsim.scenario.values.section import Section
from mlsim.scenario.whole.schema import Scenario
from mlsim.scenario.words import ApplicationModel

__all__ = ["dump", "mapping_text", "plain"]


def dump(scenario: Scenario, only: Collection[str] | None = None) -> str:
    """Write a scenario, with every default that holds, as YAML.

    The text loads back to an equal scenario and is the same for equal scenarios. Paths stay as the user
    wrote them; where the scenario was read is not in it.

    Parameters
    ----------
    scenario
        What to write.
    only
        The sections to write; None for all.
    """
    written = plain(scenario).items()
    return mapping_text({key: value for key, value in written if only is None or key in only})


def mapping_text(content: Mapping[str, Any]) -> str:
    """Write mappings, lists, texts, numbers and booleans as YAML; the same content gives the same text."""
    text = io.StringIO()
    with redirect_stdout(io.StringIO()):  # ruamel.yaml prints the word at which a signal interrupts it
        try:
            _writer().dump(content, text)
        except BaseException:
            _writer.cache_clear()  # it stands in the middle of a text
            raise
    return text.getvalue()


@cache
def _writer() -> Any:
    yaml_kind = yaml_class()
    from ruamel.yaml.representer import SafeRepresenter

    class Representer(SafeRepresenter):
        """A class of its own: representers are registered with the class and not with the writer."""

    Representer.add_representer(str, _write_text)
    yaml: Any = yaml_kind(typ="safe", pure=True)
    yaml.Representer = Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 1_000_000
    yaml.sort_base_mapping_type_on_output = False
    return yaml


def _write_text(representer: Any, text: str) -> Any:
    """Write a text; line ends of all sorts are escaped, as some would not survive otherwise."""
    style = None if text.isprintable() else '"'
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def plain(section: Section) -> dict[str, Any]:
    """Return a section as plain mappings, lists, texts and numbers, shaped like a scenario file."""
    written = section.model_dump(mode="json", include=set(_keys_that_hold(section)))
    keys = {name: field.alias or name for name, field in type(section).model_fields.items()}
    content = {
        keys[name]: _inner(getattr(section, name), value)
        for name, value in written.items()
        if value is not None
    }
    if isinstance(section, BatchConfig) and section.cp is not None:
        unread = section.cp.unread(section.dispatcher)
        content["cp"] = {key: value for key, value in content["cp"].items() if key not in unread}
    return content


def _inner(value: object, written: Any) -> Any:
    if isinstance(value, Section):
        return plain(value)
    if isinstance(value, tuple) and all(isinstance(item, Section) for item in value):
        return [plain(item) for item in value]
    return written


def _keys_that_hold(section: Section) -> list[str]:
    """Return the keys a file may have: not those that only another choice would read."""
    keys = list(type(section).model_fields)
    if isinstance(section, ApplicationConfig) and section.model is ApplicationModel.RIGID:
        return ["model"]
    if isinstance(section, CostsConfig):
        return ["profile", *PROFILE_KEYS[section.profile].possible]
    if isinstance(section, NetworkConfig):
        own = TOPOLOGY_KEYS[section.topology][1]
        return [key for key in keys if key not in OWN_KEYS or (key in own and getattr(section, key))]
    if isinstance(section, NodeGroup) and section.node_speed is not None:
        keys.remove("speed")
    return keys
