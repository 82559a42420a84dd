"""``mlsim list``: what a scenario can name."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from mlsim.cli import completion
from mlsim.cli.command_options import Json
from mlsim.cli.command_output import print_json, show, terminal_width
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.plugins import Family


Listing = Literal[
    "policies",
    "backfilling",
    "allocators",
    "dispatchers",
    "predictors",
    "data",
    "formats",
    "workloads",
    "writers",
    "techniques",
    "models",
    "profiles",
    "topologies",
    "options",
    "parameters",
    "aliases",
    "columns",
    "metrics",
]
Lists = tuple[tuple[str, ...], list[tuple[str, ...]]]  # The titles of a list's columns, and its rows
_LEAST_FOR_TABLES = 60
_LEAST_FOR_TEXT = 30
_LONGEST_KEY = 46  # of a column of keys; longer ones push their meaning aside
_FIRST_SENTENCE = re.compile(r"[.;](?: |$)")


def list_(
    what: Annotated[
        Listing | None, typer.Argument(help="What to list; without it, the lists that there are.")
    ] = None,
    section: Annotated[
        str | None,
        typer.Argument(
            help="With options: only the keys of this section, such as batch.",
            autocompletion=completion.sections,
        ),
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", help="With options: allowed values and the whole meaning of each key.")
    ] = False,
    json_: Json = False,
) -> None:
    """List available policies, techniques, models, options ...

    mlsim list options batch
    """
    if what != "options":
        for name, given in (("--long", long), (f"{section}", section)):
            if given:
                raise InputError(f"{name}: read with mlsim list options only; take it out")
    if what is None:
        names = list(get_args(Listing))
        if json_:
            print_json(names)
        else:
            print("\n".join(names))
        return
    titles, rows = rows_of(what)
    if section is not None:
        rows = _within(section, rows)
    if json_:
        print_json([dict(zip(titles, row, strict=True)) for row in rows], ensure_ascii=False)
        return
    if what == "options" and not long:
        _print_short(rows)
        return
    width = terminal_width()
    if not sys.stdout.isatty() or _fits(titles, rows, width):
        from mlsim.analysis.table_layout import NumberTable

        show(NumberTable(titles, rows, left=titles, ruled=True))
    else:
        print("\n\n".join(_as_entry(titles, row, width) for row in rows))


def _within(section: str, rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows of the keys in a section, or of one key."""
    from mlsim.scenario.field_types import nearest

    found = [row for row in rows if f"{row[0]}.".startswith(f"{section}.")]
    if all(row[0] == section for row in found):  # one key, which may be a mapping of parameters
        found += [row for row in rows_of("parameters")[1] if f"{row[0]}.".startswith(f"{section}.")]
    if not found:
        sections = list(dict.fromkeys(row[0].split(".")[0] for row in rows if "." in row[0]))
        keys = [row[0] for row in rows]
        raise InputError(
            f"{section}: no section or key has this name;{nearest(section, [*sections, *keys])} "
            f"allowed: {', '.join(sections)}, and what stands in them"
        )
    return found


def _print_short(rows: Sequence[tuple[str, ...]]) -> None:
    """Print keys in a line each, with their defaults as ``--set`` takes them, section by section.

    A terminal cuts meanings at its width; a pipe gets the whole first sentence.
    """
    width = terminal_width() if sys.stdout.isatty() else None
    for section, keys in groupby(rows, lambda row: _section_of(row[0])):
        print(f"{section}:")
        lines = [
            (f"{key} (needed)" if default == "needed" else f"{key}={default}" if default else key, meaning)
            for key, _, default, meaning in keys
        ]
        longest = min(max(len(left) for left, _ in lines), _LONGEST_KEY)
        for left, meaning in lines:
            line = f"  {left:<{longest}}  {_FIRST_SENTENCE.split(meaning, maxsplit=1)[0]}"
            print(line if width is None or len(line) <= width else f"{line[: width - 1].rstrip()}…")
    print("\nmlsim list options batch.policy --long has allowed values, units and the whole meaning.")


def _section_of(key: str) -> str:
    """Return the section under which a key is listed."""
    first = key.split(".")[0]
    if first in ("applications", "assign"):
        return "application"
    return first if "." in key else "scenario"


def _fits(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a table can be read in this width: three columns can be broken, more are words in splinters."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return sum(widths) + 2 * len(widths) <= width or (len(titles) <= 3 and width >= _LEAST_FOR_TABLES)


def _as_entry(titles: Sequence[str], row: Sequence[str], width: int) -> str:
    """Return one row as lines below each other: its name, then the cell of each column."""
    width = max(width, _LEAST_FOR_TEXT)
    lines = textwrap.wrap(row[0], width, break_long_words=False, break_on_hyphens=False)
    for title, cell in zip(titles[1:], row[1:], strict=True):
        if cell:
            start = f"  {title}: "
            lines += textwrap.wrap(
                cell, width, initial_indent=start, subsequent_indent="    ", break_on_hyphens=False
            )
    return "\n".join(lines)


def _offered(family: Family | str) -> list[tuple[str, str]]:
    """List plugins with where they are, or why they cannot be used; then the way to a user-defined one."""
    from mlsim.batch.user_dispatch import FAMILIES, installed
    from mlsim.plugins import installed_plugins

    if isinstance(family, str):  # of the batch level
        found, family = installed(family), FAMILIES[family]
    else:
        found = installed_plugins(family)
    rows = [
        (name, f"CANNOT BE USED: {obstacle}" if obstacle else f"installed: {value}")
        for name, value, obstacle in found
    ]
    own = "./file.py:function" if family.arguments else "./file.py:Class"
    return [*rows, (own, f"a {family.sort} of your own; see {family.page}")]


def _of_batch(what: Listing) -> Lists:
    """List the choices of the batch level."""
    from mlsim.scenario import Policy, words

    match what:
        case "policies":
            return ("policy", "key (smaller first)", "meaning"), [
                *((word.value, word.formula, word.meaning) for word in Policy),
                *((name, "", meaning) for name, meaning in _offered("policy")),
            ]
        case "backfilling":
            return ("backfill", "meaning"), [(word.value, word.meaning) for word in words.Backfill]
        case "data":
            return ("data", "meaning"), [*_offered("data")]
        case "predictors":
            return ("predictor", "predicts", "source"), [
                *((word.value, word.meaning, word.source) for word in words.Predictor),
                *((name, meaning, "") for name, meaning in _offered("predictor")),
            ]
    choices = words.Allocator if what == "allocators" else words.Dispatcher
    family = what.removesuffix("s")
    return (family, "meaning"), [*((word.value, word.meaning) for word in choices), *_offered(family)]


def _of_files(what: Listing) -> Lists:
    """List formats of logs, models of workloads, and writers."""
    if what == "writers":
        from mlsim.experiment.run_directory import WRITERS

        return ("writer", "meaning"), [*_offered(WRITERS)]
    from mlsim.scenario.words import WorkloadFormat, WorkloadModel
    from mlsim.workload import log_formats, user_workloads
    from mlsim.workload.models.model_base import model_record

    if what == "formats":
        known = log_formats.FORMATS
        return ("format", "meaning"), [
            (WorkloadFormat.AUTO.value, "by the content of the log, after decompression"),
            *((word.value, known[word].meaning) for word in WorkloadFormat if word in known),
            *_offered(user_workloads.READERS),
        ]
    drawing = [(word.value, model_record(word)) for word in WorkloadModel]
    return ("model of workloads", "meaning", "source"), [
        *((word, record.meaning, record.source) for word, record in drawing),
        *((name, meaning, "") for name, meaning in _offered(user_workloads.GENERATORS)),
    ]


_TECHNIQUE = ("technique", "meaning", "chunk size (CCA)", "from the step alone (DCA)", "options", "source")
_TOPOLOGY = ("topology", "meaning", "keys", "most nodes", "links between two nodes", "source")


def _of_loops(what: Listing) -> Lists:
    """List the choices of loops, and topologies."""
    from mlsim.application import user_code
    from mlsim.application.profiles.profile_costs import PROFILES
    from mlsim.platform.network import TOPOLOGIES
    from mlsim.scenario.words import ExecutionModel
    from mlsim.techniques import TECHNIQUES

    match what:
        case "techniques":
            return _TECHNIQUE, [
                (
                    *(t.name, t.title, t.recursive, t.straightforward or "none"),
                    ", ".join(key.removeprefix("application.") for key in t.options),
                    t.reference,
                )
                for t in TECHNIQUES.values()
            ]
        case "models":
            return ("model", "meaning", "source"), [
                *((m.value, m.entry.meaning, m.entry.reference) for m in ExecutionModel),
                *((name, meaning, "") for name, meaning in _offered(user_code.USER_MODELS)),
            ]
        case "profiles":
            return ("profile", "cost of an iteration", "parameters", "source"), [
                (p.name, p.formula, ", ".join(p.parameters), p.reference) for p in PROFILES
            ]
    return _TOPOLOGY, [
        (t.name, t.meaning, ", ".join(t.keys), t.holds, t.links, t.reference) for t in TOPOLOGIES
    ]


def _of_keys(what: Listing) -> Lists:
    """List keys of scenarios, parameters, and other names of keys."""
    from mlsim.scenario import overrides, scenario_keys

    if what == "aliases":
        return ("other name", "key", "use"), [
            (alias.name, alias.key, "earlier name" if alias.old else "another word")
            for alias in overrides.key_aliases()
        ]
    is_key = what == "options"
    titles = ("key" if is_key else "parameter", "allowed", "default", "meaning")
    rows = scenario_keys.options() if is_key else scenario_keys.model_parameters()
    return titles, [tuple(row[:4]) for row in rows]


def _of_results(what: Listing) -> Lists:
    """List metrics, or columns of tables."""
    if what == "metrics":
        from mlsim.analysis.metric_definitions import LOOP, SUMMARY

        every = [("", m) for m in SUMMARY] + [("of a loop alone: ", m) for m in LOOP]
        return ("metric", "definition", "unit", "source"), [
            (f"{of}{', '.join(m.keys)}", m.definition, m.unit, m.source) for of, m in every
        ]
    from mlsim.record.table_files import FILES, columns_of

    return ("file", "column", "type", "unit", "meaning"), [
        (file, column.name, column.kind, column.unit, column.meaning)
        for file in FILES
        for column in columns_of(file)
    ]


def rows_of(what: Listing) -> Lists:
    """Return the titles of a list's columns, and its rows."""
    match what:
        case "options" | "parameters" | "aliases":
            return _of_keys(what)
        case "metrics" | "columns":
            return _of_results(what)
        case "techniques" | "models" | "profiles" | "topologies":
            return _of_loops(what)
        case "formats" | "workloads" | "writers":
            return _of_files(what)
        case _:
            return _of_batch(what)
