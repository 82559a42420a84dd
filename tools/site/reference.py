"""The reference of the site, written from the code each time that the site is built."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

__all__ = ["pages"]

_SECTIONS = {
    "": ("general", "General keys", "The name of a scenario and its seed."),
    "platform": ("platform", "platform", "Nodes, resources, network, power, failures and slow-downs."),
    "workload": ("workload", "workload", "Where jobs come from: a log, a model, a selection, a resample."),
    "batch": ("batch", "batch", "Policy, backfilling, allocator, estimates: the dispatcher."),
    "application": ("application", "application", "What jobs execute: loops, techniques, execution models."),
    "coordination": ("coordination", "coordination", "What the two levels tell each other (RCA)."),
    "output": ("output", "output", "What a run writes."),
}
_FAMILIES = (
    ("policies", "Policies", "`batch.policy`: the key that orders the queue."),
    ("backfilling", "Backfilling", "`batch.backfill`: who may start ahead of the head of the queue."),
    ("allocators", "Allocators", "`batch.allocator`: which nodes a job gets."),
    ("dispatchers", "Dispatchers", "`batch.dispatcher`: in place of policy, backfilling and allocator."),
    ("predictors", "Predictors", "`batch.predictor`: what the dispatcher takes for run times."),
    ("models", "Execution models", "`application.execution.model`: who computes chunks and where."),
    ("profiles", "Cost profiles", "`application.costs.profile`: what iterations cost."),
    ("topologies", "Topologies", "`platform.network.topology`."),
    ("formats", "Formats of logs", "`workload.format`."),
    ("workloads", "Models of workloads", "`workload.generate.model`, and `mlsim workload generate`."),
)


def pages() -> dict[str, str]:
    """Return every page of the reference that is written from the code: address to text."""
    made = {f"reference/keys/{name}.md": text for name, text in _keys()}
    made["reference/commands.md"] = _commands()
    made["reference/techniques.md"] = _techniques()
    made["reference/choices.md"] = _choices()
    made["reference/api.md"] = _api()
    return made


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ").replace("<", "&lt;").replace("*", r"\*")


def _linked(text: str, directory: str) -> str:
    """Return a text in which names of pages of the repository are links from a page of this directory."""

    def link(page: re.Match[str]) -> str:
        return f"[{page[1]}]({os.path.relpath(page[0], f'docs/{directory}')})"

    return re.sub(r"(?:docs|mlsim|scenarios)/(?:[\w-]+/)*([\w-]+)\.md", link, text)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _keys() -> Iterable[tuple[str, str]]:
    from mlsim.scenario.scenario_keys import model_parameters, options

    rows = []
    for option in options():
        inside = [one for one in model_parameters() if one.key.startswith(f"{option.key}.")]
        rows += [tuple(one[:4]) for one in (option, *(inside if option.is_mapping else ()))]
    for section, (name, title, meaning) in _SECTIONS.items():
        mine = [row for row in rows if _section_of(row[0]) == section]
        if not mine:
            raise ValueError(f"no key of the section {section!r}: tools/site/reference.py lists them")
        table = _table(
            ("key", "allowed", "default", "meaning"),
            (
                (
                    f"`{key}`",
                    _cell(allowed),
                    f"`{default}`" if default else "",
                    _linked(_cell(text), "reference/keys"),
                )
                for key, allowed, default, text in mine
            ),
        )
        yield (
            name,
            f"# Scenario keys: {title}\n\n{meaning} How files are written, units and overrides: [scenario files](../scenario-files.md). `N` is the place in a list, from 0; keys whose default is empty say in their meaning what holds without them.\n\n{table}",
        )
    unknown = {_section_of(row[0]) for row in rows} - set(_SECTIONS)
    if unknown:
        raise ValueError(f"sections without a page: {', '.join(sorted(unknown))}")


def _section_of(key: str) -> str:
    """Return the section on whose page a key is."""
    first, dot, _ = key.partition(".")
    return "application" if first in ("applications", "assign") else first if dot else ""


def _commands() -> str:
    from typer.main import get_command

    from mlsim.cli.commands import program

    parts = [
        "# Commands\n\nAs `mlsim COMMAND --help` prints them. Exit codes: 0 done; 1 not everything could be written, or an internal error; 2 bad input; 129 closed terminal, 130 Ctrl-C, 143 SIGTERM.\n"
    ]
    _describe(get_command(program()), ("mlsim",), parts)
    return "\n".join(parts)


def _describe(command: Any, names: tuple[str, ...], parts: list[str]) -> None:
    known = getattr(command, "commands", {})
    if len(names) > 1:
        parts.append(f"{'#' * min(len(names), 4)} {' '.join(names)}\n")
        parts.append(_cell(" ".join((command.help or "").replace("\b", "").split())) + "\n")
    if not known:
        parts.append(_parameters(command))
    for name, inner in known.items():
        _describe(inner, (*names, name), parts)


def _parameters(command: Any) -> str:
    types = get_type_hints(inspect.unwrap(command.callback))
    rows = []
    for parameter in command.params:
        if parameter.name not in types or getattr(parameter, "hidden", False):
            continue
        if parameter.opts[0].startswith("-"):
            name = ", ".join([*parameter.opts, *parameter.secondary_opts])
        else:
            name = parameter.metavar or parameter.name.rstrip("_").upper()
        meaning = " ".join((getattr(parameter, "help", None) or "").split())
        kind = parameter.metavar or _kind(types[parameter.name])
        rows.append((f"`{name}`", _cell(kind), _cell(meaning)))
    return _table(("option", "takes", "meaning"), rows) if rows else ""


def _kind(annotation: Any) -> str:
    """Return what an option takes, in words."""
    inner = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is Literal:
        return ", ".join(inner)
    if inner:
        return _kind(inner[0])
    if issubclass(annotation, Enum):
        return ", ".join(str(choice.value) for choice in annotation)
    return {bool: "", str: "a text", Path: "a path", int: "a whole number", float: "a number"}.get(
        annotation, annotation.__name__
    )


def _techniques() -> str:
    from mlsim.techniques import TECHNIQUES

    intro = """# Techniques

`application.technique`: the rule for chunk sizes. N iterations, P PEs, R remaining iterations, i the scheduling step from 0, b = ⌊i/P⌋ the batch. Every chunk is finally
min(max(K, `min_chunk`), R). For their execution in loops, and user-defined techniques, see [loops](loops.md). Keys in bold are required.
"""
    parts = [intro]
    for entry in TECHNIQUES.values():
        parts.append(f"## {entry.name}\n\n{_cell(entry.title)}{'; adaptive' if entry.adaptive else ''}\n")
        rows = [
            ("from what is left (CCA)", _cell(entry.recursive)),
            ("from the step alone (DCA)", _cell(entry.straightforward or "none")),
        ]
        parts.append(_table(("", "chunk size"), rows))
        needed = {f"application.parameters.{need.key}" for need in entry.rule.needs}
        keys = ", ".join(f"**`{key}`**" if key in needed else f"`{key}`" for key in entry.options) or "none"
        parts.append(f"Keys: {keys}. Source: {_cell(entry.reference)}.\n")
        if entry.notes:
            parts.append(entry.notes)
    return "\n".join(parts)


def _choices() -> str:
    from mlsim.cli.listing import rows_of

    parts = [
        "# Names in a scenario\n\n`mlsim list` prints the same. Techniques have [a separate page](techniques.md).\n"
    ]
    for word, title, meaning in _FAMILIES:
        titles, rows = rows_of(word)
        kept = [row for row in rows if not row[0].startswith("./")]
        parts.append(f"## {title}\n\n{meaning}\n")
        parts.append(_table(titles, ((f"`{row[0]}`", *map(_cell, row[1:])) for row in kept)))
    return "\n".join(parts)


def _api() -> str:
    import mlsim

    parts = [
        "# Python\n\nThe public interface of `import mlsim`. For its use, see [as a library](runs.md#as-a-library).\n"
    ]
    parts += [f"::: mlsim.{name}\n" for name in mlsim.__all__]
    parts.append("## Studies\n")
    parts += [f"::: mlsim.experiment.{name}\n" for name in ("load_study", "run_study", "read_study")]
    return "\n".join(parts)
