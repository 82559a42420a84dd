"""Problems of a scenario as messages for people; keys by other names, and beside the file by ``--set``."""

import copy
import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from mlsim.errors import InputError
from mlsim.scenario import section_base
from mlsim.scenario.field_types import nearest, shown
from mlsim.scenario.scenario_schema import Scenario
from mlsim.scenario.scenario_text import Path, Problem, parse_value_text


class Advice(NamedTuple):
    """Replacement for a key that scenarios do not have."""

    key: str  # the key here, dotted; empty where there is none
    text: str  # replacement or advice


_ADVICE_OF_WORDS = {
    "gpu gpus gres accelerators": Advice(
        "platform.nodes.0.resources",
        "write resources: {gpu: 4} in the node group; jobs ask for them by a column request_gpu, or "
        "workload.request.resources: {gpu: 1}",
    ),
    "license licenses licence licences": Advice(
        "platform.shared",
        "write platform.shared: {matlab: 20}; jobs ask for them by a column request_matlab, or "
        "workload.request.shared: {matlab: 1}",
    ),
    "feature features constraint constraints": Advice(
        "platform.nodes.0.resources",
        "constraints cannot be written yet; give the node groups a resource of that name with an amount "
        "(resources: {bigmem: 64}), and jobs a column request_bigmem",
    ),
    "partition partitions queues": Advice(
        "",
        "partitions cannot be written yet, every node serves every job; give the node groups a resource per "
        "partition (resources: {debug: 64}) and jobs a column request_debug, or simulate one partition's "
        "nodes and jobs alone",
    ),
    "preempt preemption preempt_mode preempt_type preemptmode preempttype": Advice(
        "", "preemption cannot be written yet, a job that has started keeps its nodes"
    ),
    "qos qoses": Advice(
        "",
        "classes of service are a column qos of the log, for tables of results; the order of jobs is "
        "batch.policy: fairshare, linear with batch.weights, or a class in a file (./mine.py:Name)",
    ),
    "priority priorities priority_type prioritytype multifactor": Advice(
        "batch.policy",
        "write batch.policy: linear with batch.weights, fairshare, or a class in a file (./mine.py:Name)",
    ),
    "reservation reservations maintenance maintenances downtime drain": Advice(
        "platform.drains", "write platform.drains: [{nodes: 0-7, start: 2 h, end: 4 h, announced: on}]"
    ),
    "log logs file swf joblog": Advice("workload.path", "write workload.path: FILE"),
    "mem ram realmemory real_memory": Advice(
        "platform.nodes.0.memory", "write memory: 257000 MiB in the node group"
    ),
    "cpu cpus cores_per_node cpus_per_node cpuspernode": Advice(
        "platform.nodes.0.cores", "write cores: 64 in the node group"
    ),
    "walltime walltimes time_limit timelimit max_time maxtime": Advice(
        "", "walltimes are read from the log; workload.estimates and batch.on_overrun say what they do"
    ),
    "scheduler algorithm schedulertype scheduler_type": Advice(
        "batch.policy", "write batch.policy: FCFS and batch.backfill: easy"
    ),
    "burst_buffer burst_buffers burstbuffer filesystem storage": Advice(
        "platform.shared", "write platform.shared: {burst_buffer: 400 TB, lustre: 2 TB/s}"
    ),
}
_ADVICE = {word: advice for words, advice in _ADVICE_OF_WORDS.items() for word in words.split()}


def advice_for(word: str) -> Advice | None:
    """Return what to write in place of a key; None where nothing is known of it."""
    return _ADVICE.get(word.casefold().replace("-", "_"))


_ROUNDS = 5
_VERY_LIKE = 0.9
"""Similarity from which a key is suggested for an unknown one, whatever the latter means elsewhere."""
_MANY = 100  # number of problems from which most are abbreviated, as long lists are not read


def find_problems(value: dict[str, Any]) -> list[Problem]:
    """List everything that is wrong with a scenario.

    Rules between keys are checked only when each key is right by itself. So that they are reported along
    with the rest, wrong keys are taken out (needed ones get an example value) and the check is repeated;
    a rule that reads such a key is left for the next time.
    """
    problems: list[Problem] = []
    wrong: list[Path] = []
    value = copy.deepcopy(value)
    for _ in range(_ROUNDS):
        details = _errors(value)
        if len(details) > _MANY:
            return problems + _in_short(details)
        known = wrong + [meant for detail in details if (meant := _meant(detail)) is not None]
        problems += [_as_problem(detail) for detail in details if not _depends_on(detail, known)]
        wrong = known + [detail["loc"] for detail in details]
        wrong += [mended for detail in details if (mended := _mend(value, detail["loc"]))]
        if not details:
            break
    return problems


def _in_short(details: list[ErrorDetails]) -> list[Problem]:
    """Report the first problems in full, and of the others only their kind."""
    rest = [
        Problem(detail["loc"], "unknown key" if detail["type"] == "extra_forbidden" else detail["msg"])
        for detail in details[_MANY:]
    ]
    return [*map(_as_problem, details[:_MANY]), *rest]


def _errors(value: dict[str, Any]) -> list[ErrorDetails]:
    try:
        Scenario.model_validate(value)
    except ValidationError as error:
        return [detail for detail in error.errors() if detail["type"] != "default_factory_not_called"]
    return []


def _depends_on(detail: ErrorDetails, wrong: list[Path]) -> bool:
    """Return whether an error may be there only because other keys are wrong."""
    key, context = detail["loc"], detail.get("ctx", {})
    base = key[: len(key) - context.get("depth", 0)]
    keys = [key, *(base + section_base.split_key(part) for part in context.get("involved", ()))]
    return any(_overlap(key, bad) for key in keys for bad in wrong)


def _overlap(key: Path, other: Path) -> bool:
    shorter = min(len(key), len(other))
    return key[:shorter] == other[:shorter]


def _mend(value: dict[str, Any], key: Path) -> Path:
    """Remove a key or set it to an example value; if it is missing, do so with its section.

    Returns the key that was changed: what is wrong below it later on is none of the user's.
    """
    place: Any = value
    for part in key[:-1]:
        # a section that is not there has its defaults
        place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
    holder, field = look_up(key)
    if not key or holder is None:
        return key
    if _is_entry(key):
        place[key[-1]] = section_base.minimal(holder)
    elif field is not None and field.is_required():
        place[key[-1]] = section_base.example(field)
    elif key[-1] in place:
        del place[key[-1]]
    elif field is not None and field.examples:
        place[key[-1]] = section_base.example(field)
    else:
        return _mend(value, key[:-1])
    return key


def look_up(key: Path) -> tuple[type[section_base.Section] | None, FieldInfo | None]:
    """Return the section that holds a key, and its field; None for what no scenario has."""
    holder: type[section_base.Section] | None = Scenario
    is_name = False  # whether the next part is a name of the user's own
    for part in key[:-1]:
        if is_name:
            is_name = False
        elif isinstance(part, str) and holder is not None:
            field = section_base.fields_by_key(holder).get(part)
            holder = section_base.field_section(field)[0] if field is not None else None
            is_name = field is not None and section_base.holds_named(field)
    last = key[-1] if key else 0
    if holder is None or is_name or isinstance(last, int):
        return holder, None
    return holder, section_base.fields_by_key(holder).get(last)


def _is_entry(key: Path) -> bool:
    """Whether a key is a place in a list, or a name of the user's own."""
    _, field = look_up(key[:-1])
    named = field is not None and section_base.holds_named(field)
    return bool(key) and (isinstance(key[-1], int) or named)


def _as_problem(detail: ErrorDetails) -> Problem:
    key, kind = detail["loc"], detail["type"]
    if kind in ("value", "rule"):
        text, a_list = detail["ctx"]["text"], shown([])
        if isinstance(detail["input"], list) and text.startswith(a_list) and text.count(a_list) == 1:
            text += ". A run takes one; a study compares several: `mlsim init study`, and in it "
            text += f"vary: {{{'.'.join(map(str, key))}: [...]}}"
        return Problem(key, text)
    if kind == "extra_forbidden":
        return Problem(key, unknown_key(key))
    if kind == "missing":
        return Problem(key, f"missing; {_wanted(key)}")
    if kind in ("model_type", "tuple_type"):
        return Problem(key, f"{shown(detail['input'])} is not {_wanted_shape(key)}; {_wanted(key)}")
    return Problem(key, detail["msg"])


def _wanted_shape(key: Path) -> str:
    _, field = look_up(key)
    return (
        "a list (entries start with '- ')" if field and section_base.field_section(field)[1] else "a mapping"
    )


def _wanted(key: Path) -> str:
    """Return what is allowed at a key."""
    holder, field = look_up(key)
    kind = section_base.field_kind(field) if field is not None else None
    if field is not None and kind is not None:
        return f"allowed: {kind.allowed}; e.g. {key[-1]}: {section_base.example(field)}"
    section, is_list = section_base.field_section(field) if field is not None else (holder, False)
    keys = ", ".join(section_base.fields_by_key(section)) if section is not None else ""
    if field is not None and section_base.holds_named(field):
        return f"names of your own, each with the keys: {keys}"
    return f"a list of entries with the keys: {keys}" if is_list else f"its keys: {keys}"


def unknown_key(key: Path) -> str:
    """Return that a key is not known, and which are."""
    holder, _ = look_up(key)
    fields = list(section_base.fields_by_key(holder)) if holder is not None else []
    meant = nearest(str(key[-1]), fields, _VERY_LIKE)
    if not meant and (advice := advice_for(str(key[-1]))) is not None:
        meant = f" {advice.text};"
    elsewhere = [name for name in _known_keys() if name.split(".")[-1] == key[-1]]
    if not meant and len(elsewhere) != 1:  # else it is one of another section
        meant = nearest(str(key[-1]), fields)
    if not meant and elsewhere == [key[-1]] and len(key) > 1:
        meant = f" {key[-1]} is a key of its own: move it to the top level of the file;"
    elif not meant and elsewhere:
        meant = f" did you mean {' or '.join(map(repr, elsewhere[:3]))}?"
    return f"unknown key;{meant} allowed: {', '.join(fields)}"


@cache
def _known_keys() -> tuple[str, ...]:
    """Return the dotted keys that scenarios may have."""
    return tuple(_all_keys(Scenario, ""))


def _all_keys(section: type[section_base.Section], prefix: str) -> Iterator[str]:
    for key, field in section_base.fields_by_key(section).items():
        inner, is_list = section_base.field_section(field)
        yield prefix + key
        if inner is not None and not section_base.holds_named(field):
            yield from _all_keys(inner, f"{prefix}{key}.{'0.' * is_list}")


def _meant(detail: ErrorDetails) -> Path | None:
    """Return the key that an unknown one was probably meant to be."""
    key = detail["loc"]
    if detail["type"] != "extra_forbidden":
        return None
    holder, _ = look_up(key)
    fields = section_base.fields_by_key(holder) if holder is not None else {}
    advice = None if nearest(str(key[-1]), fields, _VERY_LIKE) else advice_for(str(key[-1]))
    if advice is not None:
        return section_base.split_key(advice.key) or None
    hint = nearest(str(key[-1]), fields)
    return next(((*key[:-1], field) for field in fields if repr(field) in hint), None)


def parse_override(text: str) -> tuple[str, object]:
    """Split ``key=value``, a dotted key and a YAML scalar, list or mapping; InputError for anything else.

    Places in lists are numbers from 0. An empty value means the key's default.

    Examples
    --------
    >>> parse_override("platform.nodes.0.count=8")
    ('platform.nodes.0.count', 8)
    >>> parse_override("application.costs={profile: constant, mean: 2 ms}")
    ('application.costs', {'profile': 'constant', 'mean': '2 ms'})
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise InputError(f"--set {text}: expected KEY=VALUE, e.g. --set batch.policy=SAF")
    return key, parse_value_text(value, f"--set {key}")


def parse_overrides(texts: Iterable[str]) -> dict[str, object]:
    """Split several ``key=value``; the last of a key counts, and other names of keys become their own."""
    return renamed_overrides(dict(map(parse_override, texts)))


def apply_overrides(
    value: dict[str, Any], overrides: Mapping[str, object]
) -> tuple[dict[Path, str], list[Problem]]:
    """Set dotted keys in plain mappings, in place (None: reset); return their texts, and problems."""
    given: dict[Path, str] = {}
    problems = []
    for text, new in overrides.items():
        key = section_base.split_key(text)
        given[key] = text
        message = "empty key; expected one such as batch.policy"
        if key:
            message = _misplaced(value, key)
            message = message or (_put(value, key, new) if new is not None else _take_out(value, key))
        if message:
            problems.append(Problem(key, message))
    return given, problems


def _misplaced(value: dict[str, Any], key: Path) -> str:
    """Return an error message for a key of one application in a scenario of several, or an empty text."""
    named = value.get(_NAMED)
    if not isinstance(named, dict) or len(key) < 2:
        return ""
    names = ", ".join(named)
    if f"{key[0]}." == _ALL:
        rest = ".".join(map(str, key[1:]))
        return f"the scenario has several applications; write {_NAMED}.NAME.{rest}, with a name of: {names}"
    if key[0] == _NAMED and len(key) > 2 and str(key[1]) not in named:
        return f"there is no application {str(key[1])!r};{nearest(str(key[1]), named)} allowed: {names}"
    return ""


def _put(value: dict[str, Any], key: Path, new: object) -> str:
    """Set one override; return an error message or an empty text."""
    _open_code(value, key)
    place: Any = value
    for depth, part in enumerate(key):
        name = ".".join(map(str, key[:depth])) or "the scenario"
        if isinstance(place, list):
            if not isinstance(part, int) or part >= len(place):
                return f"{name} is a list of {len(place)}; allowed: {name}.0 to {name}.{len(place) - 1}"
        elif isinstance(place, dict):
            part = str(part)
        else:
            return f"{name} is {shown(place)} and holds no keys"
        if depth == len(key) - 1:
            place[part] = new
        elif isinstance(place, dict):
            place = place.setdefault(part, {})
        else:
            place = place[part]
    return ""


def _code_kind(key: Path) -> tuple[Path, section_base.CodeType] | None:
    """Return the key of the name of code that a key is about the parameters of, and its kind."""
    for depth in (place for place, part in enumerate(key) if part == section_base.PARAMETERS and place):
        named = key[:depth]
        _, field = look_up(named[:-1] if isinstance(named[-1], int) else named)
        kind = None if field is None else section_base.field_kind(field)
        if isinstance(kind, section_base.CodeList) and isinstance(named[-1], int):
            return named, kind.each
        if isinstance(kind, section_base.CodeType):
            return named, kind
    return None


def _open_code(value: dict[str, Any], key: Path) -> None:
    """Write the plain name of code as a mapping, where a key is about its parameters."""
    found = _code_kind(key)
    if found is None:
        return
    (*above, last), kind = found
    place = _at(value, tuple(above))
    if _holds(place, last) and isinstance(place[last], str):
        place[last] = {kind.key: place[last]}


def _at(value: Any, key: Path) -> Any:
    """Return what nested mappings and lists hold at a key; None where there is nothing."""
    for part in key:
        if not _holds(value, part):
            return None
        value = value[part]
    return value


def _holds(place: object, part: str | int) -> bool:
    """Whether a mapping has a key, or a list has an index."""
    if isinstance(place, list):
        return isinstance(part, int) and part < len(place)
    return isinstance(place, dict) and part in place


def _take_out(value: dict[str, Any], key: Path) -> str:
    """Reset one key to its default; return an error message or an empty text."""
    _, field = look_up(key)
    named = _is_entry(key) and isinstance(key[-1], str)
    if field is None and not named and _code_kind(key) is None:
        return unknown_key(key)
    place = _at(value, key[:-1])
    if isinstance(place, dict):
        place.pop(key[-1], None)
    return ""


class KeyAlias(NamedTuple):
    """A key that has another name."""

    name: str  # the other name, dotted
    key: str  # dotted
    old: bool  # whether it is an earlier name: using it prints a note


@cache
def key_aliases() -> tuple[KeyAlias, ...]:
    """List the other names of keys, as the sections declare them."""
    return tuple(_declared(Scenario, ""))


def _declared(section: type[section_base.Section], prefix: str) -> Iterator[KeyAlias]:
    for names, old in ((section.old_keys, True), (section.other_names, False)):
        for name, key in names.items():
            yield KeyAlias(prefix + name, prefix + key, old)
    for key, field in section_base.fields_by_key(section).items():
        inner, is_list = section_base.field_section(field)
        if inner is not None and not is_list and not section_base.holds_named(field):
            yield from _declared(inner, f"{prefix}{key}.")


_ALL, _NAMED = "application.", "applications"


def _aliases_with(names: Iterable[str]) -> tuple[KeyAlias, ...]:
    """Add the other names of keys of several applications to those of all scenarios."""
    of_all = [alias for alias in key_aliases() if alias.name.startswith(_ALL)]
    places = [f"{_NAMED}.{name}." for name in names]
    own = [
        alias._replace(name=place + alias.name.removeprefix(_ALL), key=place + alias.key.removeprefix(_ALL))
        for place in places
        for alias in of_all
    ]
    return (*key_aliases(), *own)


def _aliases_of(value: Mapping[str, Any]) -> tuple[KeyAlias, ...]:
    """Return the other names of the keys that a scenario's mapping may have."""
    named = value.get(_NAMED) if isinstance(value, Mapping) else None
    return _aliases_with(map(str, named if isinstance(named, Mapping) else ()))


def uses_aliases(value: Mapping[str, Any]) -> bool:
    """Whether a scenario's mapping names a key by another name."""
    return any(
        section_base.holds_key(value, section_base.split_key(alias.name)) for alias in _aliases_of(value)
    )


def rename_keys(value: dict[str, Any], lines: dict[Path, int], *, notes: bool) -> list[Problem]:
    """Rename aliases to key names, in place; return problems where both names are used.

    ``lines`` of keys in the file move with them. With ``notes``, each old name is noted once per process.
    """
    problems = []
    for alias in _aliases_of(value):
        name, key = section_base.split_key(alias.name), section_base.split_key(alias.key)
        if not section_base.holds_key(value, name):
            continue
        if not section_base.move_key(value, name, key):
            message = f"given together with {alias.key}, of which it is another name; take it out"
            problems.append(Problem(name, message))
            continue
        for path in [path for path in lines if path[: len(name)] == name]:
            lines[key + path[len(name) :]] = lines[path]
        if notes:
            _note(alias)
    return problems


@cache
def _note(alias: KeyAlias) -> None:
    if alias.old:
        logger = logging.getLogger("mlsim")
        logger.warning("%s is now called %s; the old name still works", alias.name, alias.key)


def renamed_overrides(overrides: Mapping[str, object]) -> dict[str, object]:
    """Return overrides in which every key, also inside a value, has its own name; the order stays."""
    found: dict[str, object] = {}
    names = [key.split(".")[1] for key in overrides if key.startswith(f"{_NAMED}.")]
    aliases = (
        (*_aliases_with(dict.fromkeys(names)), *_aliases_of(overrides)) if names else _aliases_of(overrides)
    )
    for key, value in overrides.items():
        for name, part in _renamed(key, value, aliases):
            found.pop(name, None)
            found[name] = part
    return found


def _renamed(key: str, value: object, aliases: Iterable[KeyAlias]) -> Iterator[tuple[str, object]]:
    apart: list[tuple[str, object]] = []
    for alias in aliases:
        if key == alias.name or key.startswith(f"{alias.name}."):
            _note(alias)
            key = alias.key + key.removeprefix(alias.name)
        elif alias.name.startswith(f"{key}.") and isinstance(value, dict):
            inside = section_base.split_key(alias.name.removeprefix(f"{key}."))
            if section_base.holds_key(value, inside):
                _note(alias)
                value, part = _without(value, inside)
                apart.append((alias.key, part))
    yield key, value
    yield from apart


def _without(value: dict[str, Any], key: Path) -> tuple[dict[str, Any], object]:
    """Return a copy of a mapping without one key, and what stood there."""
    first, *rest = key
    if not rest:
        return {name: part for name, part in value.items() if name != first}, value[str(first)]
    inner, part = _without(value[str(first)], tuple(rest))
    return {**value, str(first): inner}, part
