"""``mlsim learn policies``, ``mixed``, ``function`` and ``transfer``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.command_options import Overrides, Processes
from mlsim.cli.learn_classes import classes, energy, profiles
from mlsim.cli.learn_options import Out, check_read, read_by_methods, weeks_of_option
from mlsim.cli.usage_errors import Commands

if TYPE_CHECKING:
    from mlsim.learning.mixed_policies import Mixed
    from mlsim.learning.policy_delays import Samples
    from mlsim.learning.policy_validation import PhaseBand, Transfer, TransferBand


def policies(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY", help="Directory with study.yaml, or such a file, of runs.", show_default=False
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Results of others to show beside: log, policy, a ratio; policy premature for shares.",
        ),
    ] = None,
    jobs: Processes = None,
    out: Out = None,
) -> None:
    """Say who is delayed by which policy, over the runs of a study (Zrigui 2021, §4.3).

    Premature jobs ask for a hundred times of what they run, or more. Printed are their share in each log
    (Table 4.1), and for each combination of the study, in the mean of its repetitions, their mean bounded
    slowdown divided by that of the others (Table 4.2), shares of jobs by bounded slowdown (Fig. 4.3), the
    processors of the hundred most delayed jobs (Fig. 4.2), and the share of backfilled ones (Fig. 4.4).
    With --out, pictures of these, and of means week by week (Fig. 4.1).

    mlsim learn policies scenarios/studies/resampled --reference scenarios/studies/resampled/source.csv
    """
    import polars as pl

    from mlsim.cli.learn_options import results_of_others, show_rows
    from mlsim.errors import InputError
    from mlsim.experiment.study import load_study
    from mlsim.learning.learning_parts import parts_in, write_tables
    from mlsim.learning.policy_delays import (
        DELAYS,
        delays_of_study,
        log_axes,
        means_of,
        policy_axis,
        premature_of_study,
    )

    study = load_study(path)
    shown = {axis.name: list(axis.points) for axis in study.axes if axis.name != study.repetitions}
    axes, source = list(shown), {}
    log_at = policy_at = 0
    if reference is not None:
        if not axes:
            raise InputError(f"{study.source}: vary: missing; --reference needs logs and policies that vary")
        log_at, policy_at = axes.index(log_axes(study)[0]), axes.index(policy_axis(study))
        known = {"log": shown[axes[log_at]], "policy": ["premature", *shown[axes[policy_at]]]}
        source = results_of_others(reference, known)
    with parts_in(out, "learn policies", study.name, jobs) as parts:
        logs: list[dict[str, object]] = [
            dict(zip(log_axes(study), labels, strict=True))
            | {"premature %": found[0], "jobs": int(found[1]), "mean run time (s)": found[2]}
            | ({"source": source.get((labels[0], "premature"), "")} if source else {})
            for labels, found in premature_of_study(study, parts).items()
        ]
        samples = delays_of_study(study, parts)
        rows: list[dict[str, object]] = [
            dict(zip(axes, labels, strict=True))
            | dict(zip(DELAYS, means_of(runs).tolist(), strict=True))
            | (
                {"source: premature to standard": source.get((labels[log_at], labels[policy_at]), "")}
                if source
                else {}
            )
            for labels, runs in samples.items()
        ]
        show_rows("Premature jobs of the logs", logs)
        show_rows("Who is delayed", rows)
        if out is not None:
            tables = {"premature.csv": logs, "delays.csv": rows}
            write_tables(out, {name: pl.DataFrame(some).write_csv() for name, some in tables.items()})
            _draw(out, samples, study.trim)
    if out is not None:
        print(f"Written: {out}")


def _draw(out: Path, samples: Samples, trim: int) -> None:
    """Write all pictures, one after the other."""
    from mlsim._runtime.late import load_matplotlib

    load_matplotlib()
    from mlsim.analysis.plots.chart_style import write_picture
    from mlsim.learning.policy_delays import delay_pictures

    for name, draw in delay_pictures(samples, trim).items():
        write_picture(draw(), out / f"{name}.png")


def mixed(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The scenario.", show_default=False)],
    train: Annotated[str, typer.Option(metavar="A-B", help="Weeks to learn.", show_default=False)],
    test: Annotated[str, typer.Option(metavar="A-B", help="Weeks to test.", show_default=False)],
    features: Annotated[
        str, typer.Option(metavar="NAME,...", help="Of q, p, wait, ratio, exp, area.")
    ] = "q,p,wait",
    method: Annotated[str, typer.Option(metavar="grid|xnes|cma-es", help="How to search.")] = "grid",
    points: Annotated[int, typer.Option(min=2, help="Values of a dimension, of grid.")] = 200,
    evaluations: Annotated[int, typer.Option(min=10, help="Vectors a week, of xnes, cma-es.")] = 2000,
    penalty: Annotated[
        float, typer.Option(min=0.0, max=1e9, help="λ of the norm, of xnes and cma-es.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of xnes and cma-es.")] = 0,
    scaled: Annotated[
        bool, typer.Option("--scaled", help="Divide each feature by its deviation in the training weeks.")
    ] = False,
    phases: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Show the band over N phases of the cut into weeks, each searched anew."
        ),
    ] = 0,
    phase_points: Annotated[
        int, typer.Option(min=2, help="Values of a dimension, of the grid of each phase.")
    ] = 20,
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", help="Results of others to show beside: policy, part (train, test), a value."
        ),
    ] = None,
    overrides: Overrides = None,
    jobs: Processes = None,
    out: Out = None,
) -> None:
    """Search weights of policy linear on weeks of a log, and test them on others (Zrigui 2021, ch. 5).

    FILE says with workload.weeks how its log is cut into weeks. Printed are the sums of weekly mean bounded
    slowdowns of w* (the best of each week in hindsight), w*_train (learned from the training weeks), w_greedy
    (the best of the week before) and pure policies, and paired differences to SAF on the test weeks. With
    --out nothing is searched twice: after an interruption the same command goes on.

    mlsim learn mixed scenarios/studies/mixed/sdsc-sp2.yaml --train 28-64 --test 65-100 --points 50
    """
    from dataclasses import replace

    from mlsim.cli.learn_options import results_of_others
    from mlsim.errors import InputError
    from mlsim.experiment.weekly_runs import weeks_of
    from mlsim.learning.learning_parts import parts_in
    from mlsim.learning.mixed_policies import Searching, learn_mixed
    from mlsim.learning.policy_validation import (
        PROTOCOLS,
        at_phases,
        learn_phases,
        searches_in_parts,
        write_mixed,
        write_phases,
    )
    from mlsim.scenario import load, parse_overrides

    scenario = load(file, parse_overrides(overrides or []))
    names = tuple(name.strip() for name in features.split(","))
    searching = Searching(names, method, points, evaluations, penalty, seed, scaled)
    searching.check()
    grid = method == "grid"
    also = {
        "penalty": (not grid, "--method xnes or cma-es"),
        "phase_points": (grid and phases > 0, "--phases and --method grid"),
    }
    check_read(context, read_by_methods(method, also=also))
    known = {"policy": PROTOCOLS, "part": ("train", "test")}
    source = {} if reference is None else results_of_others(reference, known)
    for _, part in source:
        if part not in known["part"]:
            raise InputError(f"{reference}: part: {part!r}; allowed: train, test")
    train_test = weeks_of_option("train", train), weeks_of_option("test", test)
    band_searching = replace(searching, points=phase_points)
    if phases:
        band_searching.check()
        at_phases(scenario, phases)
    weeks = weeks_of(scenario)
    with parts_in(out, "learn mixed", scenario.name, jobs) as parts:
        found = learn_mixed(weeks, *train_test, searching, searches_in_parts(parts))
        _print(found, source)
        if out is not None:
            write_mixed(out, found, scenario)
            write_phases(out, None)
        if phases:
            band = learn_phases(scenario, phases, *train_test, band_searching, parts)
            _print_band(band)
            if out is not None:
                write_phases(out, band)
    if out is not None:
        print(f"Written: {out}")


def _print_band(band: PhaseBand) -> None:
    from rich.table import Table

    from mlsim.cli.learn_options import show

    table = Table(title=f"The same over {len(band.phases)} phases of the cut: mean (least to most)")
    for title in ("policy", "train", "test", "test - SAF", "phases better than SAF"):
        table.add_column(title, justify="left" if title == "policy" else "right")
    for name in sorted(band.test, key=lambda name: band.test[name].mean()):
        cells = [
            f"{sums[name].mean():.0f} ({sums[name].min():.0f} to {sums[name].max():.0f})"
            for sums in (band.train, band.test)
        ]
        difference = band.test[name] - band.test["SAF"]
        better = int((difference < 0).sum())
        table.add_row(
            name, *cells, *(("", "") if name == "SAF" else (f"{difference.mean():+.0f}", str(better)))
        )
    show(table)


def _print(found: Mixed, source: dict[tuple[str, str], str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from mlsim.cli.learn_options import cell, show
    from mlsim.learning.weight_search import FEATURES

    table = Table(title="Sums of weekly mean bounded slowdowns")
    beside = ("train", "source", "test", "source") if source else ("train", "test")
    for title in ("policy", *beside, "test - SAF a week", "95 %", "p"):
        table.add_column(title, justify="left" if title == "policy" else "right")
    spreads = found.against("SAF")
    for name, (trained, tested) in sorted(found.sums().items(), key=lambda item: item[1][1]):
        one = spreads[name]
        ends = [cell(end, ".2f") for end in (one.difference_low, one.difference_high)]
        span = " to ".join(ends) if all(ends) else ""
        cells = ("", "", "") if name == "SAF" else (f"{one.difference:.2f}", span, cell(one.p, ".2g"))
        sums: list[str] = []
        for part, value in (("train", trained), ("test", tested)):
            sums += [f"{value:.2f}", *([source.get((name, part), "")] if source else [])]
        table.add_row(name, *sums, *cells)
    console = Console()
    show(table)
    weights = zip(FEATURES, found.learned.tolist(), strict=True)
    console.print("w*_train: " + ", ".join(f"{name} {weight:.4g}" for name, weight in weights if weight))
    fitted, others = found.weeks[found.train], found.weeks[found.test]
    console.print(
        f"{found.vectors:,} vectors a week; learned from {len(fitted)} weeks with jobs, tested on "
        f"{len(others)}; differences of pairs of the same week, p of Wilcoxon's signed-rank test",
        style="dim",
    )
    if others.min() < fitted.max():
        console.print("Some test weeks are before the weeks that weights were learned from: no forecast.")


_WEEKS = "workload.select.weeks"


def function(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The scenario.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE.py", help="The new file of policies.", show_default=False),
    ],
    train: Annotated[
        str | None, typer.Option(metavar="A-B", help="Weeks to learn from.", show_default="all")
    ] = None,
    sets: Annotated[int, typer.Option(min=1, help="Sets of jobs.")] = 100,
    tasks: Annotated[int, typer.Option(min=2, help="Jobs of a set in random orders.")] = 32,
    initial: Annotated[int, typer.Option(min=0, help="Jobs before them.")] = 16,
    trials: Annotated[int, typer.Option(min=1, help="Random orders of a set.")] = 1024,
    keep: Annotated[int, typer.Option(min=1, max=484, help="Functions to keep, the nearest.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Of sets and orders.")] = 0,
    overrides: Overrides = None,
) -> None:
    """Find functions of a job that order the queue well, by regression over trials (SC 2017: F1 to F4).

    Sets of jobs of the log, which workload.weeks cuts into weeks, are served in random orders; a job's score
    is what slowdowns are when it goes first. 484 functions of estimate, processors and submit time are
    fitted. The file has a policy for each of the best: batch.policy: ./FILE.py:Learned1.

    mlsim learn function scenarios/studies/mixed/sdsc-sp2.yaml --train 28-64 -o learned.py
    """
    from mlsim.cli.learn_options import weeks_done
    from mlsim.cli.new_files import new_files
    from mlsim.errors import InputError
    from mlsim.experiment.weekly_runs import weeks_of
    from mlsim.learning.policy_functions import Trials, as_policy, fit_functions, run_trials
    from mlsim.scenario import load, parse_overrides

    if trials < tasks:
        raise InputError(
            f"--trials: {trials}; allowed: at least --tasks ({tasks}), so that each job is first once"
        )
    if out.suffix != ".py":
        raise InputError(f"--out: {out}; allowed: a name that ends with .py, as files of policies do")
    given = parse_overrides(overrides or [])
    if train is not None:
        weeks_of_option("train", train)
        if _WEEKS in given:
            raise InputError(f"--train: {train}, and --set {_WEEKS}: both choose weeks; take one of them out")
        given = {**given, **parse_overrides([f"{_WEEKS}={train}"])}
    scenario = load(file, given)
    tried = Trials(sets, tasks, initial, trials, seed)
    weeks = f", weeks {train}" if train else ""
    of = f"{scenario.name}{weeks}: {sets} sets, {trials} orders each, seed {seed}"
    with new_files([out]) as (part,):  # before the search: whether it can be written shows at once
        with weeks_done() as progress:
            found = fit_functions(*run_trials(weeks_of(scenario), tried, progress), keep)
        part.write_text(as_policy(found, of), encoding="utf-8")
    for number, one in enumerate(found, 1):
        print(f"Learned{number}  error {one.error:.6g}  {one.text.replace('np.', '')}")
    print(f"Written: {out}")


_REFERENCE = "SAF"


def transfer(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE ...", help="Scenarios, each with its log.", show_default=False),
    ],
    share: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="Share of the weeks of a log, the first ones, to learn.")
    ] = 0.5,
    features: Annotated[
        str, typer.Option(metavar="NAME,...", help="Of q, p, wait, ratio, exp, area.")
    ] = "q,p,wait",
    method: Annotated[str, typer.Option(metavar="grid|xnes|cma-es", help="How to search.")] = "grid",
    points: Annotated[int, typer.Option(min=2, help="Values of a dimension, of grid.")] = 40,
    evaluations: Annotated[int, typer.Option(min=10, help="Vectors, of xnes and cma-es.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Of xnes and cma-es.")] = 0,
    overrides: Overrides = None,
    phases: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Show the band over N phases of the cut into weeks, each learned anew."
        ),
    ] = 0,
    jobs: Processes = None,
    out: Out = None,
) -> None:
    """Learn a mixed policy on the first weeks of each log, and test all of them on the last weeks of each.

    A matrix of logs: weights of policy linear, learned where the row says and tested where the column says,
    as mean paired difference to SAF in % of SAF's weekly mean bounded slowdown (* if the 95 % interval of
    the difference leaves out 0). The FILEs say with workload.weeks how their logs are cut.

    mlsim learn transfer scenarios/studies/transfer/*.yaml
    """
    from mlsim.errors import InputError
    from mlsim.experiment.weekly_runs import weeks_of
    from mlsim.learning.learning_parts import parts_in
    from mlsim.learning.mixed_policies import Searching
    from mlsim.learning.policy_validation import (
        at_phases,
        learn_transfer,
        searches_in_parts,
        transfer_phases,
        write_transfer,
        write_transfer_phases,
    )
    from mlsim.scenario import load, parse_overrides

    scenarios = [load(file, parse_overrides(overrides or [])) for file in files]
    names = [scenario.name for scenario in scenarios]
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(f"{', '.join(names)}: two or more scenarios are needed, each with a name of its own")
    searching = Searching(
        tuple(name.strip() for name in features.split(",")), method, points, evaluations, seed=seed
    )
    searching.check()
    check_read(context, read_by_methods(method, also={}))
    for scenario in scenarios if phases else ():
        at_phases(scenario, phases)
    logs = dict(zip(names, map(weeks_of, scenarios), strict=True))
    with parts_in(out, "learn transfer", ", ".join(names), jobs) as parts:
        found = learn_transfer(logs, share, searching, searches_in_parts(parts))
        _print_transfer(found)
        if out is not None:
            write_transfer(out, found, _REFERENCE)
            write_transfer_phases(out, None)
        if phases:
            logs.clear()  # each part cuts its own
            band = transfer_phases(scenarios, phases, share, searching, parts)
            _print_band_transfer(band, phases)
            if out is not None:
                write_transfer_phases(out, band)
    if out is not None:
        print(f"Written: {out}")


def _print_band_transfer(band: TransferBand, count: int) -> None:
    from rich.table import Table

    from mlsim.cli.learn_options import show

    title = f"The same over {count} phases of the cut: mean (least to most) in %, phases better than"
    table = Table(title=f"{title} {_REFERENCE}")
    table.add_column("learned on")
    for log in band.means:
        table.add_column(log, justify="right")
    learned = list(band.means)
    for policy in (*learned, "SPF", "FCFS"):
        cells = []
        for log in band.means:
            values = 100 * band.relative(log, policy, _REFERENCE)
            better = int((values < 0).sum())
            cells.append(f"{values.mean():+.1f} ({values.min():+.1f} to {values.max():+.1f}), {better}")
        table.add_row(policy, *cells, end_section=policy == learned[-1])
    show(table)


def _print_transfer(found: Transfer) -> None:
    from rich.table import Table

    from mlsim.cli.learn_options import show

    table = Table(title=f"Weekly mean bounded slowdown, to that of {_REFERENCE} (%)")
    table.add_column("learned on")
    for log, weeks in found.weeks.items():
        table.add_column(f"{log}, weeks: {len(weeks)}", justify="right")
    for learned in (*found.weights, "SPF", "FCFS"):
        cells = []
        for log in found.weeks:
            spread = found.against(log, learned, _REFERENCE)
            base = float(found.means[log][_REFERENCE].mean())
            sure = spread.difference_low > 0 or spread.difference_high < 0
            cells.append(f"{100 * spread.difference / base:+.1f}{' *' if sure else '  '}")
        table.add_row(learned, *cells, end_section=learned == list(found.weights)[-1])
    show(table)


learn = typer.Typer(name="learn", cls=Commands, help="Learn policies from a log.", no_args_is_help=True)
learn.callback()(lambda: None)
_COMMANDS: dict[str, Callable[..., None]] = {
    "mixed": mixed,
    "policies": policies,
    "classes": classes,
    "energy": energy,
    "profiles": profiles,
    "function": function,
    "transfer": transfer,
}
for _name, _command in _COMMANDS.items():
    learn.command(_name)(_command)
