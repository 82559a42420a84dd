"""``mlsim cp``: the instances of a run, and dispatchers that solve them again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim.cli.command_options import Json, Overrides
from mlsim.cli.usage_errors import Commands

if TYPE_CHECKING:
    from mlsim.batch.cp.instance import Instance
    from mlsim.scenario import CpConfig, Dispatcher


cp = typer.Typer(
    name="cp", cls=Commands, help="Save and re-solve instances of CP dispatchers.", no_args_is_help=True
)


@cp.command("dump")
def dump(
    file: Annotated[Path, typer.Argument(help="Scenario file with such a dispatcher.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="JSON lines to write, .gz too; must not exist."),
    ],
    set_: Overrides = None,
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Save every N-th instance only.")] = 1,
    most: Annotated[int | None, typer.Option(min=1, metavar="N", help="Save at most N instances.")] = None,
    queued: Annotated[int, typer.Option(min=1, help="Save instances with this many waiting jobs.")] = 1,
) -> None:
    """Simulate FILE and save what its dispatcher has to decide at each pass."""
    from mlsim import cosim
    from mlsim.batch.cp.instance_replay import instance_as_json, writer_of
    from mlsim.batch.cp.planning_dispatcher import watching
    from mlsim.cli.new_files import new_files
    from mlsim.errors import InputError
    from mlsim.scenario import Dispatcher, load, parse_overrides

    scenario = load(file, parse_overrides(set_ or []))
    name = scenario.batch.dispatcher
    if not (isinstance(name, Dispatcher) and name.solves):
        allowed = ", ".join(word for word in Dispatcher if word.solves)
        raise InputError(f"{file}: batch.dispatcher: {name} makes no instances; allowed: {allowed}")
    seen = saved = 0
    with new_files([out]) as (partial,), writer_of(partial) as lines:

        def save(instance: Instance) -> None:
            nonlocal seen, saved
            if len(instance.queued) < queued:
                return
            seen += 1
            if (seen - 1) % every == 0 and (most is None or saved < most):
                lines.write(json.dumps(instance_as_json(instance), separators=(",", ":")) + "\n")
                saved += 1

        with watching(save):
            cosim.simulate(scenario)
    print(f"{out}: {saved:,} of {seen:,} instances")


@cp.command("replay")
def replay(
    file: Annotated[Path, typer.Argument(help="What `mlsim cp dump` wrote.", show_default=False)],
    dispatchers: Annotated[
        list[str],
        typer.Option("--dispatcher", "-d", metavar="NAME", help="A dispatcher; the first is compared with."),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Option of batch.cp, such as time_limit=100ms."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="CSV of every solve; must not exist.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Processes that solve at a time; 1: nothing disturbs times.",
            show_default="as many as cores",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory that keeps each solve; what it has is not done again."),
    ] = None,
    json_: Json = False,
) -> None:
    """Solve saved instances with dispatchers and compare them, instance by instance."""
    from mlsim import _jit
    from mlsim.batch.cp.instance_replay import compare, write_csv
    from mlsim.cli.new_files import new_files
    from mlsim.experiment.instance_study import replay_instances

    if json_:
        _jit.quiet()
    names = _names(dispatchers)
    config = _config(set_ or [], names)
    with new_files([out] if out else []) as partial:
        with _counting() as progress:
            rows = replay_instances(file, names, config, jobs=jobs, store=store, progress=progress)
        if partial:
            write_csv(partial[0], rows)
    wrong = [f"instance {row.instance}, {row.dispatcher}: {text}" for row in rows for text in row.wrong]
    for text in wrong[:10]:
        print(f"mlsim: wrong plan: {text}", file=sys.stderr)
    table = compare(rows, names)
    if json_:
        print(json.dumps(table, indent=2, allow_nan=False))
    else:
        _print(table)
    if wrong:
        raise typer.Exit(1)


@contextmanager
def _counting() -> Iterator[Callable[[int], None] | None]:
    """Show on standard error how many solves are done, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("solving") as status:
        yield lambda done: status.update(f"{done:,} solved")


def _names(texts: list[str]) -> list[Dispatcher]:
    from mlsim.errors import InputError
    from mlsim.scenario import Dispatcher

    allowed = {str(word): word for word in Dispatcher if word.solves}
    for text in texts:
        if text.casefold() not in allowed:
            raise InputError(f"--dispatcher {text}: allowed: {', '.join(allowed)}")
    return list(dict.fromkeys(allowed[text.casefold()] for text in texts))


def _config(texts: list[str], names: list[Dispatcher]) -> CpConfig:
    from pydantic import ValidationError

    from mlsim.errors import InputError
    from mlsim.scenario import CpConfig, parse_overrides

    try:
        config = CpConfig.model_validate(parse_overrides(texts))
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise InputError(f"--set {place}: {problem.get('ctx', {}).get('text', problem['msg'])}") from error
    for key in sorted(config.model_fields_set):
        if wrong := _unread(key, config, names):
            raise InputError(f"--set {key}: {wrong}")
    for name in names:
        if wrong := config.wrong_limits(name):
            raise InputError(f"--set time_limit_max: {wrong}")
    return config


def _unread(key: str, config: CpConfig, names: list[Dispatcher]) -> str | None:
    """Return the reason why a replay ignores an option, or cannot compare plans made with it."""
    if key in ("headroom", "reserve"):
        return "goes by what a dispatcher has learned, and in a replay it has learned nothing"
    if key in ("ewt", "default_ewt"):
        return "instances have it; give it to the scenario of `mlsim cp dump`"
    readers = config.readers().get(key)
    if readers is None:
        return None
    others = [name for name in names if name not in readers]
    if len(others) == len(names):
        return f"read by {', '.join(readers)} only"
    if key in ("goal", "by_size") and others:
        return f"{others[0]} does not read it, and only plans with the same goal can be compared"
    return None


def _print(table: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    # No wider than 80 characters, which is what there is where the output is no terminal.
    shown = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    titles = ("", "solved", "empty", "optimal", "variables", "ms", "variables x", "ms x")
    for title in (*titles, "objective x", "G1", "G2", "G3"):
        words = title.replace(" x", "\nx").replace("objective", "object.").replace("variables", "var.")
        shown.add_column(words, justify="right" if title else "left", no_wrap=True)
    for row in table:
        numbers = [row[key] for key in ("variables", "time_ms", "variables_ratio", "time_ratio")]
        shown.add_row(
            row["dispatcher"],
            f"{row['solved']}",
            str(row["empty"]),
            str(row["optimal"]),
            *map(_rounded, numbers),
            "-" if row["objective_ratio"] is None else f"{row['objective_ratio']:.4f}",
            *(str(row["groups"][group]) for group in ("G1", "G2", "G3")),
        )
    Console().print(shown)
    print(
        f"{table[0]['instances']:,} instances; empty: no job could start, counted as solved; "
        f"x: ratio to {table[0]['dispatcher']}, median of instances (object., the sum of slowdowns: mean)"
    )


def _rounded(number: float | None) -> str:
    """Return three digits that count, without an exponent."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
