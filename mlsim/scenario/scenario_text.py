"""Text of a scenario file to plain values with lines, and back."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from mlsim.errors import InputError
from mlsim.scenario.application_section import ApplicationConfig
from mlsim.scenario.batch_section import BatchConfig
from mlsim.scenario.costs_section import PROFILE_KEYS, CostsConfig
from mlsim.scenario.platform_section import OWN_KEYS, TOPOLOGY_KEYS, NetworkConfig, NodeGroup
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.section_base import Section
from mlsim.scenario.words import ApplicationModel, Calibration

if TYPE_CHECKING:
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, Node, ScalarNode


Path = tuple[str | int, ...]
_TAG = "tag:yaml.org,2002:"
_MOST_VALUES = 100_000
_DEEPEST = 50


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a scenario."""

    key: Path  # keys and list positions
    message: str  # the value found, allowed values and advice
    line: int | None = None  # of the text, from 1, if it is known better than by the key


@dataclass
class Document:
    """Content of a YAML text."""

    value: Any = None  # mappings, lists, texts, numbers, booleans; mappings have no empty values
    lines: dict[Path, int] = field(default_factory=dict)  # from 1, of every key and list item
    problems: list[Problem] = field(default_factory=list)  # found in the text

    def line_of(self, key: Path) -> int | None:
        """Return the line of a key or, if it is not in the text, of the closest thing around it."""
        for end in range(len(key), -1, -1):
            if key[:end] in self.lines:
                return self.lines[key[:end]]
        return None


def parse_text(text: str, name: str, keeps_empty: Callable[[Path], bool] | None = None) -> Document:
    """Read one YAML document; ``keeps_empty`` selects keys whose empty value is kept, as None."""
    yaml = yaml_class()(typ="safe", pure=True)
    node = _compose(yaml, text, name)
    document = Document()
    if node is not None:
        document.lines[()] = node.start_mark.line + 1
        document.value = _Builder(document, yaml, keeps_empty or (lambda _: False)).build(node, ())
    return document


def yaml_class() -> type[YAML]:
    """Return the YAML class of ruamel.yaml, without the warning filters that its import sets."""
    with warnings.catch_warnings():
        from ruamel.yaml import YAML
    return YAML


def parse_value_text(text: str, name: str) -> Any:
    """Read a short YAML text, such as the value of an option, as a plain value."""
    document = parse_text(text, name)
    if document.problems:
        raise InputError(f"{name}: {document.problems[0].message}")
    return document.value


def _compose(yaml: YAML, text: str, name: str) -> Node | None:
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        node: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark is not None else name
        column = f" (column {mark.column + 1})" if mark is not None else ""
        what = str(error.problem or error.context).removeprefix("but ")
        raise InputError(f"{place}: not valid YAML: {what}{column}{_advice(what)}") from error
    except RecursionError as error:
        raise InputError(f"{name}: nested too deeply; is this a scenario file?") from error
    except YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        what = getattr(error, "reason", "it cannot be read")
        raise InputError(f"{name}:{line}: not valid YAML: {what}; is this a scenario file?") from error
    return node


def _advice(problem: str) -> str:
    if "\\t" in problem:
        return "; indent with spaces, not tabs"
    if "another document" in problem:
        return "; a scenario file holds one document: split it at '---'"
    if "mapping values are not allowed" in problem:
        return "; is the indentation right, or does a text with ': ' in it need quotes?"
    return ""


class _Builder:
    """Turns YAML nodes into plain values and notes lines and problems."""

    def __init__(self, document: Document, yaml: YAML, keeps_empty: Callable[[Path], bool]) -> None:
        self._document = document
        self._yaml = yaml
        self._keeps_empty = keeps_empty
        self._open: set[int] = set()
        self._built = 0

    def build(self, node: Node, key: Path) -> Any:
        """Return the value of a node; the value of a node that holds itself is None."""
        from ruamel.yaml.nodes import MappingNode, ScalarNode

        self._built += 1
        if id(node) in self._open or self._built > _MOST_VALUES:
            self._refuse(node, key, "this alias repeats itself or too much; write the values out")
            return None
        if len(self._open) >= _DEEPEST:
            self._refuse(node, key[:3], f"nested too deeply; allowed: {_DEEPEST} levels")
            return None
        if isinstance(node, ScalarNode):
            return self._scalar(node, key)
        self._open.add(id(node))
        value = self._mapping(node, key) if isinstance(node, MappingNode) else self._list(node, key)
        self._open.discard(id(node))
        return value

    def _refuse(self, node: Node, key: Path, message: str) -> None:
        self._document.problems.append(Problem(key, message, node.start_mark.line + 1))

    def _list(self, node: Node, key: Path) -> list[Any]:
        values = []
        for row, item in enumerate(node.value):
            self._document.lines[*key, row] = item.start_mark.line + 1
            values.append(self.build(item, (*key, row)))
        return values

    def _mapping(self, node: MappingNode, key: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        lines = self._document.lines
        first: dict[str, int] = {}
        for key_node, value_node in self._pairs(node, key):
            name = str(key_node.value) if isinstance(key_node.value, str) else "?"
            line = key_node.start_mark.line + 1
            if name in first:
                message = f"given twice, first on line {first[name]}; keep one of them"
                self._document.problems.append(Problem((*key, name), message, line))
                continue
            first[name] = lines[*key, name] = line
            value = self.build(value_node, (*key, name))
            if value is not None or self._keeps_empty((*key, name)):
                values[name] = value
        return values

    def _pairs(self, node: MappingNode, key: Path) -> list[tuple[Node, Node]]:
        """Return the nodes of keys and values; before them those that ``<<`` merges and it has not itself."""
        from ruamel.yaml.nodes import MappingNode, SequenceNode

        own = [pair for pair in node.value if pair[0].tag != f"{_TAG}merge"]
        names = {str(name.value) for name, _ in own}
        merged: list[tuple[Node, Node]] = []
        for merge in (value for name, value in node.value if name.tag == f"{_TAG}merge"):
            for one in merge.value if isinstance(merge, SequenceNode) else [merge]:
                self._built += 1
                if not isinstance(one, MappingNode):
                    self._refuse(merge, (*key, "<<"), "merges no mapping; write <<: *NAME of a mapping &NAME")
                elif id(one) in self._open or self._built > _MOST_VALUES:
                    self._refuse(
                        merge, (*key, "<<"), "this alias repeats itself or too much; write the values out"
                    )
                else:
                    self._open.add(id(one))
                    found = [pair for pair in self._pairs(one, key) if str(pair[0].value) not in names]
                    self._open.discard(id(one))
                    names |= {str(name.value) for name, _ in found}
                    merged += found
        return merged + own

    def _scalar(self, node: ScalarNode, key: Path) -> Any:
        tag = str(node.tag).removeprefix(_TAG)
        if tag in ("str", "timestamp"):
            return str(node.value)
        if tag not in ("null", "bool", "int", "float"):
            self._refuse(
                node, key, f"the tag {str(node.tag).replace(_TAG, '!!')} is not understood; take it out"
            )
            return None
        try:
            return self._yaml.constructor.construct_object(node)
        except (ValueError, OverflowError):
            self._refuse(node, key, f"'{str(node.value)[:40]}' is not a number that can be used")
            return None


def dump(scenario: Scenario, only: Collection[str] | None = None) -> str:
    """Write a scenario, with every default that holds, as YAML.

    The text loads back to an equal scenario and is the same for equal scenarios. Paths stay as the user
    wrote them; where the scenario was read is not in it. ``only``: the sections to write; None for all.
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
        unread = section.cp.unread_by(section.dispatcher)
        content["cp"] = {key: value for key, value in content["cp"].items() if key not in unread}
    if isinstance(section, CostsConfig) and "parameters" in content:
        own = PROFILE_KEYS[section.profile].possible
        inside = content["parameters"].items()
        content["parameters"] = {key: value for key, value in inside if f"parameters.{key}" in own}
    return content


def _inner(value: object, written: Any) -> Any:
    if isinstance(value, Section):
        return plain(value)
    if isinstance(value, tuple) and all(isinstance(item, Section) for item in value):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return written


def _keys_that_hold(section: Section) -> list[str]:
    """Return the keys a file may have: not those that only another choice would read."""
    keys = list(type(section).model_fields)
    if isinstance(section, Scenario) and section.applications is not None:
        keys.remove("application")
    if isinstance(section, ApplicationConfig) and section.model is ApplicationModel.RIGID:
        return ["model"]
    if isinstance(section, CostsConfig):
        possible = PROFILE_KEYS[section.profile].possible
        if section.calibrate is not Calibration.RECORDED:
            possible = tuple(key for key in possible if key != "calibrate_to")
        return ["profile", *dict.fromkeys(key.split(".")[0] for key in possible)]
    if isinstance(section, NetworkConfig):
        own = TOPOLOGY_KEYS[section.topology][1]
        return [key for key in keys if key not in OWN_KEYS or (key in own and getattr(section, key))]
    if isinstance(section, NodeGroup) and section.node_speed is not None:
        keys.remove("speed")
    return keys
