"""``mlsim cp``: the instances of a run, and dispatchers that solve them again."""

import json
import sys
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from mlsim import _jit
from mlsim.analysis.table_layout import NumberTable
from mlsim.batch.cp import instance_replay, planning_dispatcher
from mlsim.batch.cp.instance import Instance
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import new_files, print_json, show, working
from mlsim.cosim.simulation import simulate
from mlsim.errors import InputError
from mlsim.experiment.instance_study import replay_instances
from mlsim.scenario import CpConfig, cp_section, parse_overrides, words

cp = cli.CommandGroup("cp")


class _DumpOptions(cli.Options):
    file: Path = cli.argument("Scenario file with such a dispatcher.")
    out: Path = cli.output("JSON lines to write, .gz too; must not exist.", "FILE", default=cli.REQUIRED)
    set_: cli.Overrides = None
    every: int = cli.option("Save every N-th instance only.", "N", default=1, min=1)
    most: int | None = cli.option("Save at most N instances.", "N", min=1)
    queued: int = cli.option("Save instances with this many waiting jobs.", default=1, min=1)


@cp.command("dump")
def dump(options: _DumpOptions) -> None:
    """Simulate FILE and save what its dispatcher has to decide at each pass."""
    scenario = cli.scenario_of(options.file, options.set_)
    name = scenario.batch.dispatcher
    if not (isinstance(name, words.Dispatcher) and name.solves):
        allowed = ", ".join(word for word in words.Dispatcher if word.solves)
        raise InputError(f"{options.file}: batch.dispatcher: {name} makes no instances; allowed: {allowed}")
    seen = saved = 0
    with new_files([options.out]) as (partial,), instance_replay.writer_of(partial) as lines:

        def save(instance: Instance) -> None:
            nonlocal seen, saved
            if len(instance.queued) < options.queued:
                return
            seen += 1
            if (seen - 1) % options.every == 0 and (options.most is None or saved < options.most):
                lines.write(
                    json.dumps(instance_replay.instance_as_json(instance), separators=(",", ":")) + "\n"
                )
                saved += 1

        with planning_dispatcher.watching(save):
            simulate(scenario)
    print(f"{options.out}: {saved:,} of {seen:,} instances")


class ReplayOptions(cli.Options):
    """Options of ``mlsim cp replay``."""

    file: Path = cli.argument("What `mlsim cp dump` wrote.")
    dispatchers: list[str] = cli.option(
        "A dispatcher; the first is compared with.", "--dispatcher", "-d", "DISPATCHER", default=cli.REQUIRED
    )
    set_: list[str] | None = cli.option(
        "Option of batch.cp, such as time_limit=100ms.", "--set", "NAME=VALUE"
    )
    out: Path | None = cli.output("CSV of every solve; must not exist.", "FILE")
    jobs: int | None = cli.option(
        "Processes that solve at a time; 1: nothing disturbs times.",
        "--jobs",
        "-j",
        min=1,
        show_default="as many as cores",
    )
    store: Path | None = cli.option("Directory that keeps each solve; what it has is not done again.", "DIR")
    json_: cli.Json = False


@cp.command("replay")
def replay(options: ReplayOptions) -> None:
    """Solve saved instances with dispatchers and compare them, instance by instance."""
    if options.json_:
        _jit.quiet()
    allowed = {str(word): word for word in words.Dispatcher if word.solves}
    for text in options.dispatchers:
        if text.casefold() not in allowed:
            raise InputError(f"--dispatcher {text}: allowed: {', '.join(allowed)}")
    names = list(dict.fromkeys(allowed[text.casefold()] for text in options.dispatchers))
    try:
        config = CpConfig.model_validate(parse_overrides(options.set_ or []))
    except ValidationError as error:
        raise cli.option_problems(error, {key: f"--set {key}" for key in CpConfig.model_fields}) from error
    for key in sorted(config.model_fields_set):
        if unread := _unread(key, names):
            raise InputError(f"--set {key}: {unread}")
    for name in names:
        if limits := config.wrong_limits(name):
            raise InputError(f"--set time_limit_max: {limits}")
    with new_files([options.out] if options.out else []) as partial:
        with working("solving") as work:

            def count(solved: int) -> None:
                work.words = f"{solved:,} solved"

            rows = replay_instances(
                options.file, names, config, jobs=options.jobs, store=options.store, progress=count
            )
        if partial:
            instance_replay.write_csv(partial[0], rows)
    wrong = [f"instance {row.instance}, {row.dispatcher}: {text}" for row in rows for text in row.wrong]
    for text in wrong[:10]:
        print(f"mlsim: wrong plan: {text}", file=sys.stderr)
    table = instance_replay.compare(rows, names)
    if options.json_:
        print_json(table)
    else:
        _print(table)
    if wrong:
        raise typer.Exit(1)


def _unread(key: str, names: list[words.Dispatcher]) -> str | None:
    """Return the reason why a replay ignores an option, or cannot compare plans made with it."""
    if key in ("headroom", "reserve"):
        return "goes by what a dispatcher has learned, and in a replay it has learned nothing"
    if key in ("ewt", "default_ewt"):
        return "instances have it; give it to the scenario of `mlsim cp dump`"

    readers = cp_section.CP_READERS.get(key)
    if readers is None:
        return None
    others = [name for name in names if name not in readers]
    if len(others) == len(names):
        return f"read by {', '.join(readers)} only"
    if key in ("goal", "by_size") and others:
        return f"{others[0]} does not read it, and only plans with the same goal can be compared"
    return None


def _print(table: list[dict[str, Any]]) -> None:
    def rounded(number: float | None) -> str:
        """Return three digits that count, without an exponent."""
        return "-" if number is None else f"{number:,.0f}" if number >= 100 else f"{number:.3g}"

    ratios = ("var. x", "ms x", "object. x")
    shown = NumberTable(("dispatcher", "solved", "empty", "optimal", "var.", "ms", *ratios, "G1", "G2", "G3"))
    for row in table:
        numbers = [row[key] for key in ("variables", "time_ms", "variables_ratio", "time_ratio")]
        shown.add(
            row["dispatcher"],
            f"{row['solved']}",
            str(row["empty"]),
            str(row["optimal"]),
            *map(rounded, numbers),
            "-" if row["objective_ratio"] is None else f"{row['objective_ratio']:.4f}",
            *(str(row["groups"][group]) for group in ("G1", "G2", "G3")),
        )
    show(shown)
    show(
        f"{table[0]['instances']:,} instances; empty: no job could start, counted as solved; "
        f"x: ratio to {table[0]['dispatcher']}, median of instances (object., the sum of slowdowns: mean)"
    )
