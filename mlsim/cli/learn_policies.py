"""``mlsim learn``: its methods; here ``delays``, ``mixed`` and ``function``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import typer

from mlsim._runtime.late import load_matplotlib
from mlsim.analysis.table_layout import NumberTable
from mlsim.cli import command_options as cli
from mlsim.cli import learn_classes
from mlsim.cli.command_output import cell, new_files, reporting, show, show_rows
from mlsim.cli.learn_classes import Out, check_read, published_results
from mlsim.errors import InputError
from mlsim.experiment.study import load_study
from mlsim.experiment.weekly_runs import weeks_of
from mlsim.learning import (
    learning_parts,
    mixed_policies,
    policy_delays,
    policy_functions,
    policy_validation,
    search_maps,
)
from mlsim.scenario import Scenario, parse_overrides
from mlsim.scenario.amount_types import WEEKS


class _PoliciesOptions(cli.Options):
    path: Path = cli.argument("Directory with study.yaml, or such a file, of runs.", "STUDY")
    reference: Path | None = cli.option(
        "Results of others to show beside: log, policy, a ratio; policy premature for shares.", "FILE.csv"
    )
    jobs: cli.Processes = None
    out: Out = None


def policies(options: _PoliciesOptions) -> None:
    """Show whose jobs each policy delays, over the runs of a study (Zrigui 2021, §4.3).

    Premature jobs ask for a hundred times of what they run, or more. Printed are their share in each log
    (Table 4.1), and for each combination of the study, in the mean of its repetitions, their mean bounded
    slowdown divided by that of the others (Table 4.2), shares of jobs by bounded slowdown (Fig. 4.3), the
    processors of the hundred most delayed jobs (Fig. 4.2), and the share of backfilled ones (Fig. 4.4).
    With --out, pictures of these, and of means week by week (Fig. 4.1).

    mlsim learn delays scenarios/studies/resampled --reference scenarios/studies/resampled/source.csv
    """
    study, out = load_study(options.path), options.out
    shown = {axis.name: list(axis.points) for axis in study.axes if axis.name != study.repetitions}
    axes, source = list(shown), {}
    log_at = policy_at = 0
    if options.reference is not None:
        if not axes:
            raise InputError(f"{study.source}: vary: missing; --reference needs logs and policies that vary")
        log_at = axes.index(policy_delays.log_axes(study)[0])
        policy_at = axes.index(policy_delays.policy_axis(study))
        known = {"log": shown[axes[log_at]], "policy": ["premature", *shown[axes[policy_at]]]}
        source = published_results(options.reference, known)
    with learning_parts.parts_in(out, "learn policies", study.name, options.jobs) as parts:
        logs: list[dict[str, object]] = [
            dict(zip(policy_delays.log_axes(study), labels, strict=True))
            | {"premature %": found[0], "jobs": int(found[1]), "mean run time (s)": found[2]}
            | ({"source": source.get((labels[0], "premature"), "")} if source else {})
            for labels, found in policy_delays.premature_of_study(study, parts).items()
        ]
        samples = policy_delays.delays_of_study(study, parts)
        rows: list[dict[str, object]] = []
        for labels, runs in samples.items():
            row: dict[str, object] = dict(zip(axes, labels, strict=True))
            row |= dict(zip(policy_delays.DELAYS, policy_delays.means_of(runs).tolist(), strict=True))
            if source:
                published = source.get((labels[log_at], labels[policy_at]), "")
                row |= {"source: premature to standard": published}
            rows.append(row)
        show_rows("Premature jobs of the logs", logs)
        show_rows("Who is delayed", rows)
        if out is not None:
            learning_parts.write_tables(
                out, {"premature.csv": pl.DataFrame(logs), "delays.csv": pl.DataFrame(rows)}
            )
            load_matplotlib()
            from mlsim.analysis.plots.chart_style import write_picture

            for name, draw in policy_delays.delay_pictures(samples, study.trim).items():
                write_picture(draw(), out / f"{name}.png")
    if out is not None:
        print(f"Written: {out}")


class _MixedOptions(cli.Options):
    files: list[Path] = cli.argument(
        "The scenario; or several: to learn on each, to test on all.", "FILE ..."
    )
    train: str | None = cli.option("Weeks to learn, of one FILE.", "A-B")
    test: str | None = cli.option("Weeks to test, of one FILE.", "A-B")
    share: float = cli.option(
        "Of several FILEs: share of the weeks of a log, the first ones, to learn.",
        default=0.5,
        min=0.01,
        max=0.99,
    )
    features: str = cli.option("Of q, p, wait, ratio, exp, area.", "NAME,...", default="q,p,wait")
    method: str = cli.option("How to search.", "grid|xnes|cma-es", default="grid")
    points: int | None = cli.option(
        "Values of a dimension, of grid.", "N", min=2, show_default="200; 40 of several FILEs"
    )
    evaluations: int = cli.option("Vectors a week, of xnes, cma-es.", default=2000, min=10)
    penalty: float = cli.option("λ of the norm, of xnes and cma-es.", default=1.0, min=0.0, max=1e9)
    seed: int = cli.option("Of xnes and cma-es.", default=0, min=0)
    scaled: bool = cli.flag("Divide each feature by its deviation in the training weeks.", "--scaled")
    phases: int = cli.option(
        "Show the band over N phases of the cut into weeks, each searched anew.", "N", default=0, min=0
    )
    phase_points: int = cli.option("Values of a dimension, of the grid of each phase.", default=20, min=2)
    map_: str | None = cli.option(
        "Map the search space of these weeks, of a grid of three features; with --out also as a picture.",
        "--map",
        "A-B",
    )
    reference: Path | None = cli.option(
        "Results of others to show beside: policy, part (train, test), a value.", "FILE.csv"
    )
    overrides: cli.Overrides = None
    jobs: cli.Processes = None
    out: Out = None


def mixed(context: typer.Context, options: _MixedOptions) -> None:
    """Search weights of policy linear on weeks of a log, and test them on others (Zrigui 2021, ch. 5).

    FILE says with workload.weeks how its log is cut into weeks. Printed are the sums of weekly mean bounded
    slowdowns of w* (the best of each week in hindsight), w*_train (learned from the training weeks), w_greedy
    (the best of the week before) and pure policies, and paired differences to SAF on the test weeks. With
    --out nothing is searched twice: after an interruption the same command goes on.

    Of several FILEs the weights of each are tested on all: a matrix of mean paired differences to SAF, in %
    of SAF's weekly mean bounded slowdown (* if the 95 % interval of the difference leaves out 0).

    mlsim learn mixed scenarios/studies/mixed/sdsc-sp2.yaml --train 28-64 --test 65-100 --points 50

    mlsim learn mixed scenarios/studies/transfer/*.yaml
    """
    phases, out, many = options.phases, options.out, len(options.files) > 1
    band_points = (options.method == "grid" and phases > 0 and not many, "--phases and --method grid")
    alone = dict.fromkeys(("train", "test", "penalty", "scaled", "reference"), (not many, "one FILE"))
    gridded = not many and options.method == "grid" and options.features.count(",") == 2
    several = {"share": (many, "several FILEs"), "phase_points": band_points}
    several["map_"] = (gridded, "one FILE, --method grid, three features")
    searching = _searching(options)
    searching.check()
    _check_search(context, options, **alone if many else {}, **several)
    scenarios = [cli.scenario_of(file, options.overrides) for file in options.files]
    if many:
        _transfer(options, searching, scenarios)
        return
    (scenario,) = scenarios
    if options.train is None or options.test is None:
        name = "test" if options.train else "train"
        raise InputError(
            f"--{name} A-B is missing: weeks to {'test' if options.train else 'learn'}, such as 1-20"
        )
    searching = replace(searching, factor=options.penalty, scaled=options.scaled)
    searching.check()
    known = {"policy": policy_validation.PROTOCOLS, "part": ("train", "test")}
    source = published_results(options.reference, known)
    for _, part in source:
        if part not in known["part"]:
            raise InputError(f"{options.reference}: part: {part!r}; allowed: train, test")
    train_test = _weeks("--train", options.train), _weeks("--test", options.test)
    band_searching = replace(searching, points=options.phase_points)
    if phases:
        band_searching.check()
        policy_validation.at_phases(scenario, phases)
    weeks = weeks_of(scenario)
    with learning_parts.parts_in(out, "learn mixed", scenario.name, options.jobs) as parts:
        found = mixed_policies.learn_mixed(weeks, *train_test, searching, parts, later=phases)
        _print(found, source)
        if out is not None:
            policy_validation.write_mixed(out, found, scenario)
            policy_validation.write_phases(out, None)
            learning_parts.write_tables(out, dict.fromkeys(("map.csv", "map.png")))
        if options.map_ is not None:
            means = search_maps.map_of(weeks, *_weeks("--map", options.map_), found, parts)
            show_rows("Map of the search space", search_maps.map_rows(means, found), ",.2f")
            if out is not None:
                search_maps.write_map(out, means, found)
        if phases:
            band = policy_validation.learn_phases(scenario, phases, *train_test, band_searching, parts)
            _print_band(band)
            if out is not None:
                policy_validation.write_phases(out, band)
    if out is not None:
        print(f"Written: {out}")


def _searching(options: _MixedOptions) -> mixed_policies.Searching:
    """Return the options of a search."""
    features = tuple(name.strip() for name in options.features.split(","))
    points = options.points or (200 if len(options.files) == 1 else 40)
    return mixed_policies.Searching(features, options.method, points, options.evaluations, seed=options.seed)


def _check_search(context: typer.Context, options: _MixedOptions, **others: tuple[bool, str]) -> None:
    """Refuse options that the method of search does not read, and others that have no effect."""
    grid = (options.method == "grid", "--method grid")
    evolution = (options.method != "grid", "--method xnes or cma-es")
    names = ("evaluations", "penalty", "seed")
    check_read(context, {"points": grid, **dict.fromkeys(names, evolution), **others})


def _weeks(name: str, text: str) -> tuple[int, int]:
    """Return the first and the last week that an option names."""
    try:
        return WEEKS.parse(text)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error


def _print_band(band: policy_validation.PhaseBand) -> None:
    rows = []
    for name in sorted(band.test, key=lambda name: band.test[name].mean()):
        cells = [
            f"{sums[name].mean():.0f} ({sums[name].min():.0f} to {sums[name].max():.0f})"
            for sums in (band.train, band.test)
        ]
        difference = band.test[name] - band.test["SAF"]
        compared = ("", "") if name == "SAF" else (f"{difference.mean():+.0f}", f"{(difference < 0).sum()}")
        rows.append((name, *cells, *compared))
    titles = ("policy", "train", "test", "test - SAF", "phases better than SAF")
    heading = f"The same over {len(band.phases)} phases of the cut: mean (least to most)"
    show(NumberTable(titles, rows, heading=heading, ruled=True))


def _print(found: mixed_policies.Mixed, source: dict[tuple[str, str], str]) -> None:
    beside = ("train", "source", "test", "source") if source else ("train", "test")
    spreads = found.against("SAF")
    rows = []
    for name, (trained, tested) in sorted(found.sums().items(), key=lambda item: item[1][1]):
        one = spreads[name]
        ends = [cell(end, ".2f") for end in (one.difference_low, one.difference_high)]
        span = " to ".join(ends) if all(ends) else ""
        cells = ("", "", "") if name == "SAF" else (f"{one.difference:.2f}", span, cell(one.p, ".2g"))
        sums: list[str] = []
        for part, value in (("train", trained), ("test", tested)):
            sums += [f"{value:.2f}", *([source.get((name, part), "")] if source else [])]
        rows.append((name, *sums, *cells))
    titles = ("policy", *beside, "test - SAF a week", "95 %", "p")
    heading = "Sums of weekly mean bounded slowdowns"
    show(NumberTable(titles, rows, beside=("source", "95 %"), heading=heading, ruled=True))
    weights = zip(mixed_policies.FEATURES, found.learned.tolist(), strict=True)
    show("w*_train: " + ", ".join(f"{name} {weight:.4g}" for name, weight in weights if weight))
    fitted, others = found.weeks[found.train], found.weeks[found.test]
    show(
        f"{found.vectors:,} vectors a week; learned from {len(fitted)} weeks with jobs, tested on "
        f"{len(others)}; differences of pairs of the same week, p of Wilcoxon's signed-rank test",
        style="dim",
    )
    if others.min() < fitted.max():
        show("Some test weeks are before the weeks that weights were learned from: no forecast.")


_WEEKS = "workload.select.weeks"


class _FunctionOptions(cli.Options):
    file: Path = cli.argument("The scenario.", "FILE")
    out: Path = cli.output("The new file of policies.", "FILE.py", default=cli.REQUIRED)
    train: str | None = cli.option("Weeks to learn from.", "A-B", show_default="all")
    sets: int = cli.option("Sets of jobs.", default=100, min=1)
    tasks: int = cli.option("Jobs of a set in random orders.", default=32, min=2)
    initial: int = cli.option("Jobs before them.", default=16, min=0)
    trials: int = cli.option("Random orders of a set.", default=1024, min=1)
    keep: int = cli.option("Functions to keep, the nearest.", default=4, min=1, max=484)
    seed: int = cli.option("Of sets and orders.", default=0, min=0)
    overrides: cli.Overrides = None


def function(options: _FunctionOptions) -> None:
    """Find functions of a job that order the queue well, by regression over trials (SC 2017: F1 to F4).

    Sets of jobs of the log, which workload.weeks cuts into weeks, are served in random orders; a job's score
    is what slowdowns are when it goes first. 484 functions of estimate, processors and submit time are
    fitted. The file has a policy for each of the best: batch.policy: ./FILE.py:Learned1.

    mlsim learn function scenarios/studies/mixed/sdsc-sp2.yaml --train 28-64 -o learned.py
    """
    out, train, sets, trials = options.out, options.train, options.sets, options.trials
    if trials < options.tasks:
        raise InputError(
            f"--trials: {trials}; allowed: at least --tasks ({options.tasks}), so that each job is first once"
        )
    if out.suffix != ".py":
        raise InputError(f"--out: {out}; allowed: a name that ends with .py, as files of policies do")
    overrides = list(options.overrides or [])
    if train is not None:
        _weeks("--train", train)
        if _WEEKS in parse_overrides(overrides):
            raise InputError(f"--train: {train}, and --set {_WEEKS}: both choose weeks; take one of them out")
        overrides.append(f"{_WEEKS}={train}")
    scenario = cli.scenario_of(options.file, overrides)
    tried = policy_functions.Trials(sets, options.tasks, options.initial, trials, options.seed)
    weeks = f", weeks {train}" if train else ""
    of = f"{scenario.name}{weeks}: {sets} sets, {trials} orders each, seed {options.seed}"
    with new_files([out]) as (part,):  # before the search: whether it can be written shows at once
        with reporting("sets of jobs") as progress:
            found = policy_functions.fit_functions(
                *policy_functions.run_trials(weeks_of(scenario), tried, progress), options.keep
            )
        part.write_text(policy_functions.as_policy(found, of), encoding="utf-8")
    for number, one in enumerate(found, 1):
        print(f"Learned{number}  error {one.error:.6g}  {one.text.replace('np.', '')}")
    print(f"Written: {out}")


_REFERENCE = "SAF"


def _transfer(options: _MixedOptions, searching: mixed_policies.Searching, scenarios: list[Scenario]) -> None:
    """Learn on the first weeks of each log, and test all weights on the last weeks of each."""
    phases, out = options.phases, options.out
    names = [scenario.name for scenario in scenarios]
    if len(set(names)) < len(names):
        raise InputError(f"{', '.join(names)}: each scenario needs a name of its own")
    for scenario in scenarios if phases else ():
        policy_validation.at_phases(scenario, phases)
    logs = dict(zip(names, map(weeks_of, scenarios), strict=True))
    with learning_parts.parts_in(out, "learn transfer", ", ".join(names), options.jobs) as parts:
        found = policy_validation.learn_transfer(
            logs, options.share, searching, parts, later=2 * phases * len(logs)
        )

        def difference(log: str, learned: str) -> str:
            spread = found.against(log, learned, _REFERENCE)
            base = float(found.means[log][_REFERENCE].mean())
            sure = spread.difference_low > 0 or spread.difference_high < 0
            return f"{100 * spread.difference / base:+.1f}{' *' if sure else '  '}"

        policies = (*names, "SPF", "FCFS")
        rows = [[policy, *(difference(log, policy) for log in names)] for policy in policies]
        headings = [f"{log}, weeks: {len(weeks)}" for log, weeks in found.weeks.items()]
        _print_matrix(f"Weekly mean bounded slowdown, to that of {_REFERENCE} (%)", headings, rows)
        if out is not None:
            policy_validation.write_transfer(out, found, _REFERENCE)
            policy_validation.write_phases(out, None)
        if phases:
            logs.clear()  # each part cuts its own
            band = policy_validation.transfer_phases(scenarios, phases, options.share, searching, parts)

            def spread(log: str, policy: str) -> str:
                values = 100 * band.relative(log, policy, _REFERENCE)
                span = f"{values.min():+.1f} to {values.max():+.1f}"
                return f"{values.mean():+.1f} ({span}), {(values < 0).sum()}"

            rows = [[policy, *(spread(log, policy) for log in names)] for policy in policies]
            title = f"The same over {phases} phases of the cut: mean (least to most) in %, phases better than"
            _print_matrix(f"{title} {_REFERENCE}", names, rows)
            if out is not None:
                policy_validation.write_phases(out, band)
    if out is not None:
        print(f"Written: {out}")


def _print_matrix(title: str, logs: list[str], rows: list[list[str]]) -> None:
    """Print a row for each log that was learned on, and below a line for each other policy."""
    table = NumberTable(["learned on", *logs], rows[: len(logs)], heading=title, ruled=True)
    table.end_section()
    for row in rows[len(logs) :]:
        table.add(*row)
    show(table)


class _Methods(cli.Commands):
    kind = "method"


learn = cli.CommandGroup("learn", cls=_Methods)
learn.callback()(lambda: None)
_OF_POLICIES: dict[str, Callable[..., None]] = {"mixed": mixed, "function": function, "delays": policies}
_OF_JOBS: dict[str, Callable[..., None]] = {
    "classes": learn_classes.classes,
    "energy": learn_classes.energy,
    "energy-samples": learn_classes.profiles,
}
for panel, methods in (("Policies", _OF_POLICIES), ("Jobs", _OF_JOBS)):
    for name, method in methods.items():
        learn.add(name, method, rich_help_panel=panel)
        if name != method.__name__:  # its earlier name
            learn.add(method.__name__, method, hidden=True)
learn.add("transfer", mixed, hidden=True)  # the earlier name, of several scenarios
