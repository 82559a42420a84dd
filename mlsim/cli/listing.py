"""``mlsim list``: what a scenario can name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli import terminal
from mlsim.cli.command_options import Json

if TYPE_CHECKING:
    from rich.table import Table

    from mlsim.plugins import Family


class Listing(StrEnum):
    """The subjects of ``mlsim list``."""

    POLICIES = "policies"
    BACKFILLING = "backfilling"
    ALLOCATORS = "allocators"
    DISPATCHERS = "dispatchers"
    PREDICTORS = "predictors"
    FORMATS = "formats"
    WORKLOADS = "workloads"
    WRITERS = "writers"
    TECHNIQUES = "techniques"
    MODELS = "models"
    PROFILES = "profiles"
    TOPOLOGIES = "topologies"
    OPTIONS = "options"
    PARAMETERS = "parameters"
    ALIASES = "aliases"
    COLUMNS = "columns"
    METRICS = "metrics"


def list_(
    what: Annotated[
        Listing | None,
        typer.Argument(help="What to list; without it, the lists that there are.", show_default=False),
    ] = None,
    json_: Json = False,
) -> None:
    """List available policies, techniques, models, options ..."""
    if json_:
        _print_json(what)
        return
    if what is None:
        print("\n".join(listing.value for listing in Listing))
        return
    from rich.console import Console

    titles, rows = rows_of(what)
    console = Console()
    width = min(console.width, terminal.terminal_width())
    if _fits(titles, rows, width):
        console.print(_table(titles, rows), width=width)
        return
    print("\n\n".join(_as_entry(titles, row, width) for row in rows))


def _print_json(what: Listing | None) -> None:
    """Print the names of the lists, or the rows of one as objects with its titles for keys."""
    import json

    if what is None:
        print(json.dumps([listing.value for listing in Listing], indent=2))
        return
    titles, rows = rows_of(what)
    entries = [dict(zip(titles, row, strict=True)) for row in rows]
    print(json.dumps(entries, indent=2, ensure_ascii=False))


def _fits(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a table can be read in this width: three columns can be broken, more are words in splinters."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return sum(widths) + 2 * len(widths) <= width or (len(titles) <= 3 and width >= _LEAST_FOR_TABLES)


def _as_entry(titles: Sequence[str], row: Sequence[str], width: int) -> str:
    """Return one row as lines below each other: its name, then the cell of each column."""
    import textwrap

    width = max(width, _LEAST_FOR_TEXT)
    lines = textwrap.wrap(row[0], width, break_long_words=False, break_on_hyphens=False)
    for title, cell in zip(titles[1:], row[1:], strict=True):
        if cell:
            start = f"  {title}: "
            lines += textwrap.wrap(
                cell, width, initial_indent=start, subsequent_indent="    ", break_on_hyphens=False
            )
    return "\n".join(lines)


_LEAST_FOR_TABLES = 60
_LEAST_FOR_TEXT = 30


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        # Cells are formulas and types: brackets in them are no markup.
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    return table


def _short(keys: tuple[str, ...]) -> str:
    """Return keys without the section that they are all in."""
    return ", ".join(key.removeprefix("application.") for key in keys)


def _plugins(family: str) -> list[tuple[str, str]]:
    """List what installed packages offer to the batch level; then the way to one's own."""
    from mlsim.batch.user_dispatch import FAMILIES, installed

    return _offered(FAMILIES[family], installed(family))


def _functions(family: Family) -> list[tuple[str, str]]:
    """List what installed packages offer of functions; then the way to one's own."""
    from mlsim.plugins import installed_plugins

    return _offered(family, installed_plugins(family))


def _offered(family: Family, found: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """List plugins with where they are, or why they cannot be used; then the way to one's own."""
    own = "./file.py:function" if family.arguments else "./file.py:Class"
    return [
        *(
            (name, f"CANNOT BE USED: {obstacle}" if obstacle else f"installed: {value}")
            for name, value, obstacle in found
        ),
        (own, f"a {family.sort} of your own; see {family.page}"),
    ]


Lists = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The titles of a list's columns, and its rows."""


def _of_batch(what: Listing) -> Lists:
    """List the choices of the batch level."""
    from mlsim.scenario import Allocator, Backfill, Dispatcher, Policy, Predictor

    match what:
        case Listing.POLICIES:
            return ("policy", "key (smaller first)", "meaning"), [
                *((word.value, word.formula, word.meaning) for word in Policy),
                *((name, "", meaning) for name, meaning in _plugins("policy")),
            ]
        case Listing.BACKFILLING:
            return ("backfill", "meaning"), [(word.value, word.meaning) for word in Backfill]
        case Listing.ALLOCATORS:
            return ("allocator", "meaning"), [
                *((word.value, word.meaning) for word in Allocator),
                *_plugins("allocator"),
            ]
        case Listing.DISPATCHERS:
            return ("dispatcher", "meaning"), [
                *((word.value, word.meaning) for word in Dispatcher),
                *_plugins("dispatcher"),
            ]
    return ("predictor", "predicts", "source"), [
        *((word.value, word.meaning, word.source) for word in Predictor),
        *((name, meaning, "") for name, meaning in _plugins("predictor")),
    ]


def _of_files(what: Listing) -> Lists:
    """List formats of logs, models of workloads, and writers."""
    if what is Listing.FORMATS:
        from mlsim.scenario import WorkloadFormat
        from mlsim.workload.log_formats import FORMATS
        from mlsim.workload.user_reader import READERS

        meanings = {word: known.meaning for word, known in FORMATS.items()}
        return ("format", "meaning"), [
            (WorkloadFormat.AUTO.value, "by the content of the log, after decompression"),
            *((word.value, meanings[word]) for word in WorkloadFormat if word in meanings),
            *_functions(READERS),
        ]
    if what is Listing.WORKLOADS:
        from mlsim.scenario import WorkloadModel
        from mlsim.workload.models.model_base import model_record
        from mlsim.workload.models.user_models import GENERATORS

        drawing = [(word.value, model_record(word)) for word in WorkloadModel]
        return ("model of workloads", "meaning", "source"), [
            *((word, record.meaning, record.source) for word, record in drawing),
            *((name, meaning, "") for name, meaning in _functions(GENERATORS)),
        ]
    from mlsim.experiment.run_directory import WRITERS

    return ("writer", "meaning"), [*_functions(WRITERS)]


def _of_loops(what: Listing) -> Lists:
    """List the choices of loops, and topologies."""
    match what:
        case Listing.TECHNIQUES:
            from mlsim.techniques import TECHNIQUES

            titles = (
                "technique",
                "meaning",
                "chunk size (CCA)",
                "from the step alone (DCA)",
                "options",
                "source",
            )
            return titles, [
                (t.name, t.title, t.recursive, t.straightforward or "none", _short(t.options), t.reference)
                for t in TECHNIQUES.values()
            ]
        case Listing.MODELS:
            from mlsim.application.execution_models import BUILT_IN_MODELS, MODELS

            return ("model", "meaning", "source"), [
                *((m.name, m.meaning, m.reference) for m in BUILT_IN_MODELS),
                *((name, meaning, "") for name, meaning in _functions(MODELS)),
            ]
        case Listing.PROFILES:
            from mlsim.application.profiles.profile_requests import PROFILES

            return ("profile", "cost of an iteration", "parameters", "source"), [
                (p.name, p.formula, ", ".join(p.parameters), p.reference) for p in PROFILES
            ]
    from mlsim.platform.network import TOPOLOGIES

    return ("topology", "meaning", "keys", "most nodes", "links between two nodes", "source"), [
        (t.name, t.meaning, ", ".join(t.keys), t.holds, t.links, t.reference) for t in TOPOLOGIES
    ]


def _of_keys(what: Listing) -> Lists:
    """List keys of scenarios, parameters, and other names of keys."""
    from mlsim.scenario import model_parameters, options
    from mlsim.scenario.key_aliases import key_aliases

    if what is Listing.ALIASES:
        return ("other name", "key", "use"), [
            (alias.name, alias.key, "earlier name" if alias.old else "another word")
            for alias in key_aliases()
        ]
    found = options() if what is Listing.OPTIONS else model_parameters()
    first = "key" if what is Listing.OPTIONS else "parameter"
    return (first, "allowed", "default", "meaning"), [tuple(row[:4]) for row in found]


def _of_results(what: Listing) -> Lists:
    """List metrics, or columns of tables."""
    if what is Listing.METRICS:
        from mlsim.analysis.metric_definitions import LOOP, SUMMARY

        return ("metric", "definition", "unit", "source"), [
            *((", ".join(m.keys), m.definition, m.unit, m.source) for m in SUMMARY),
            *((f"of a loop alone: {', '.join(m.keys)}", m.definition, m.unit, m.source) for m in LOOP),
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
        case Listing.OPTIONS | Listing.PARAMETERS | Listing.ALIASES:
            return _of_keys(what)
        case Listing.METRICS | Listing.COLUMNS:
            return _of_results(what)
        case Listing.TECHNIQUES | Listing.MODELS | Listing.PROFILES | Listing.TOPOLOGIES:
            return _of_loops(what)
        case Listing.FORMATS | Listing.WORKLOADS | Listing.WRITERS:
            return _of_files(what)
        case _:
            return _of_batch(what)
