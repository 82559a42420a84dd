"""``mlsim learn classes``, ``energy`` and ``energy-samples``; results that its methods show."""

import csv
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from mlsim._files import read_lines
from mlsim._runtime.work_progress import followed
from mlsim.analysis.formatting import share
from mlsim.analysis.table_layout import NumberTable
from mlsim.batch.predictors.weekly_forests import check_library
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import new_files, show, show_rows, working
from mlsim.errors import InputError
from mlsim.experiment.weekly_runs import whole_log
from mlsim.learning import class_learning as learning
from mlsim.learning import energy_classes, learning_parts
from mlsim.learning.feature_importance import importance_rows, importance_table
from mlsim.scenario import Policy
from mlsim.scenario.words import Backfill

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        help="Directory for tables and for the store of all parts; one that is there goes on.",
    ),
]


def check_read(context: typer.Context, readers: Mapping[str, tuple[bool, str]]) -> None:
    """Refuse options that were given and that nothing reads: parameter -> (is it read, what it needs)."""
    for name, (read, needed) in readers.items():
        source = context.get_parameter_source(name)
        if not read and source is not None and source.name == "COMMANDLINE":
            raise InputError(
                f"--{name.rstrip('_').replace('_', '-')}: read with {needed} only; take it out, or write that"
            )


def published_results(path: Path | None, shown: Mapping[str, Collection[str]]) -> dict[tuple[str, str], str]:
    """Return published results by the first two columns of a CSV file; the third one has the values.

    ``shown``: the names of the two columns, and the rows beside which results are printed.
    """
    if path is None:
        return {}
    lines = csv.reader(read_lines(path, "table of results"))
    first, second = shown
    names = next(lines, [])
    if names[:2] != [first, second] or len(names) < 3:
        found = ", ".join(names) or "none"
        raise InputError(f"{path}: columns: {found}; needed: {first}, {second}, and one of values")
    results = {}
    for row in filter(None, lines):
        place = f"{path}:{lines.line_num}"
        if len(row) < 3:
            raise InputError(f"{place}: has {len(row)} columns; needed: {first}, {second}, {names[2]}")
        try:
            known = math.isfinite(float(row[2]))
        except ValueError:
            known = False
        if not known:
            raise InputError(f"{place}: {names[2]}: {row[2]!r} is no number")
        results[row[0], row[1]] = row[2]
    if not any(
        all(name in names for names, name in zip(shown.values(), row, strict=True)) for row in results
    ):
        words = "; ".join(f"{name}: {', '.join(values)}" for name, values in shown.items())
        raise InputError(f"{path}: none of its rows is of what it would stand beside. Shown are {words}")
    return results


class _ClassesOptions(cli.Options):
    files: list[Path] = cli.argument("Scenarios, each with its log.", "FILE ...")
    policies: str = cli.option("Policies to simulate.", "POLICIES", default="FCFS,WFP,SAF,SPF")
    trees: int = cli.option("Trees of each week's forest.", default=100, min=1)
    seed: int = cli.option("Of the forests.", default=0, min=0, max=2**32 - 1)
    known: str = cli.option(
        "What is known of other jobs: what had ended when the week began; what was submitted before "
        "it; what was submitted before the job. The last two know run times that nobody could.",
        "ended|submitted|at-once",
        default="ended",
    )
    reference: Path | None = cli.option(
        "Gains that others found, to show beside: log, dispatcher (EASY++, FCFS-CI), a value.", "FILE.csv"
    )
    overrides: cli.Overrides = None
    jobs: cli.Processes = None
    out: Out = None


def classes(context: typer.Context, options: _ClassesOptions) -> None:
    """Predict which jobs are small, week by week, and simulate five variants (Zrigui 2021, ch. 6).

    Small jobs run shorter than the median of the week before. A random forest learns at the end of each week
    from all that has ended by the log. Variants: base; classification (small jobs first);
    classification-idempotent (with the safeguard, which kills jobs that were wrongly taken for small);
    class-clairvoyant; runtimes-clairvoyant. Printed are quality of the classes, importance of features,
    cumulative bounded slowdowns, lost work, and in how many months the slowdown is below that of base; and
    the gains of classification-idempotent (CI) and of EASY++ over EASY-FCFS, where FCFS is among the
    policies (Table 6.6).

    mlsim learn classes scenarios/kth.yaml --policies FCFS,SAF
    """
    check_library()
    policies = learning.policies_of(options.policies)
    if options.known not in tuple(learning.Known):
        raise InputError(f"--known: {options.known!r}; allowed: {', '.join(learning.Known)}")
    what, out = learning.Known(options.known), options.out
    scenarios = [cli.scenario_of(file, options.overrides) for file in options.files]
    for scenario in scenarios:
        learning.check_scenario(scenario, policies)
    names = [scenario.name for scenario in scenarios]
    if len(set(names)) < len(names):
        raise InputError(f"{', '.join(names)}: each scenario needs a name of its own")
    rivals = sum(one.batch.backfill is Backfill.EASY for one in scenarios) * (Policy.FCFS in policies)
    check_read(context, {"reference": (rivals > 0, "FCFS among --policies, and batch.backfill: easy")})
    dispatchers = ["EASY++", *(name for policy in policies for name in (str(policy), f"{policy}-CI"))]
    others = published_results(options.reference, {"log": names, "dispatcher": dispatchers})
    source = {key: float(value) for key, value in others.items()}
    with working("features of jobs", len(scenarios)) as work:
        logs = [whole_log(scenario) for scenario in scenarios]
        for log in logs:
            learning.check_weeks(log.scenario.name, log.jobs)
        every = [learning.features_of(log.jobs, log.local, what) for log in followed(logs, work)]
    quality, weeks, variants, gains = [], [], [], []
    importance, months, weighed = [], [], {}
    with learning_parts.parts_in(out, "learn classes", ", ".join(names), options.jobs) as parts:
        weekly = sum(len(np.unique(features.week)) - 1 for features in every)
        parts.plan(weekly + len(scenarios) * len(policies) * len(learning.VARIANTS) + rivals)
        for scenario, log, features in zip(scenarios, logs, every, strict=True):
            predicted, numbers, shares = learning.predicted_in_parts(
                parts, log, features, what, trees=options.trees, seed=options.seed
            )
            importance += importance_rows(scenario.name, numbers, shares)
            weighed[scenario.name] = shares, np.bincount(features.week)[numbers]
            found = learning.quality_of(features, predicted)
            quality.append(learning.quality_row(log, found))
            weeks += learning.week_rows(scenario.name, found)
            results = learning.variants_in_parts(parts, log, what, predicted, policies)
            variants += learning.variant_rows(log, results)
            months += learning.month_rows(log, results)
            if Policy.FCFS in policies and scenario.batch.backfill is Backfill.EASY:
                rival = learning.rival_in_parts(parts, scenario)
                gains += learning.gain_rows(scenario.name, results, *rival, source)
        facts = [{"log": fact} | {str(row["log"]): row[fact] for row in quality} for fact in quality[0]]
        show_rows("Classes", facts[1:])
        show_rows("Importance of features", importance_table(weighed))
        show_rows("Variants: bounded slowdowns", variants)
        if gains:
            show_rows("Gains over EASY-FCFS (%), bounded slowdown", gains)
        if out is not None:
            tables = {"classes": quality, "weeks": weeks, "variants": variants, "gains": gains}
            tables |= {"importance": importance, "months": months}
            learning_parts.write_tables(
                out, {f"{name}.csv": learning.frame_of(rows) for name, rows in tables.items()}
            )
    if out is not None:
        print(f"Written: {out}")


_STEPS = (".csv", ".parquet")  # of files of steps
_MOST = 10**9  # Means that are cut, and samples that become one, at most: more than any job has
_YEAR = 366 * 86_400.0  # Time [s] up to which profiles are made


class _EnergyOptions(cli.Options):
    file: Path = cli.argument("CSV, Parquet, HDF5: job_id, time (s), power (W).", "FILE")
    group: int = cli.option("Samples that become one mean.", default=12, min=1, max=_MOST)
    head: int = cli.option("Means cut from the beginning of a job.", default=5, min=0, max=_MOST)
    tail: int = cli.option("Means cut from its end.", default=5, min=0, max=_MOST)
    stationary: float = cli.option("Threshold of window means.", default=0.1, min=0.0)
    constant: float = cli.option("Threshold of the deviation.", default=0.1, min=0.0)
    periodic: float = cli.option("Threshold of spectral density.", default=1.0, min=0.0)
    least: float | None = cli.option("Power that counts as 0 (W).", show_default="the least")
    most: float | None = cli.option("Power that counts as 1 (W).", show_default="the most")
    csv: Path | None = cli.option("Write a row a job into this new file.", "--csv")
    steps: Path | None = cli.option(
        "Write the jobs' power over time into this new file, for workload.power of a run.",
        "FILE.csv|.parquet",
    )


def energy(options: _EnergyOptions) -> None:
    """Classify jobs by their power over time (Zrigui 2021, ch. 7).

    Constant, periodic, aperiodic, or non-stationary: samples become means of twelve, head, tail and outliers
    are left out, all is scaled by the least and the largest power, and three tests decide. Jobs of which
    samples are missing are not judged. Where the file has a column class, it is said how many are right.

    mlsim learn energy samples.csv --csv classes.csv --steps steps.csv
    """
    steps = options.steps
    for name, value in (("--least", options.least), ("--most", options.most)):
        if value is not None and not math.isfinite(value):
            raise InputError(f"{name}: {value}; allowed: a number of watts")
    if steps is not None and steps.suffix not in _STEPS:
        raise InputError(f"--steps: {steps}; allowed: names that end with {' or '.join(_STEPS)}")
    cleaning = energy_classes.Cleaning(options.group, options.head, options.tail)
    thresholds = {name: getattr(options, name) for name in ("stationary", "constant", "periodic")}
    tree = energy_classes.Tree(**thresholds, least=options.least, most=options.most)
    targets = [path for path in (options.csv, steps) if path is not None]
    with new_files(targets) as parts:  # before samples are read: whether they can be written shows at once
        measured = energy_classes.read_samples(options.file)
        jobs = {
            job: energy_classes.cleaned(samples.power, cleaning) for job, samples in measured.samples.items()
        }
        missing = {job for job, samples in measured.samples.items() if not samples.complete}
        found = energy_classes.classify(jobs, tree, missing)
        for path, part in zip(targets, parts, strict=True):
            if path is options.csv:
                rows = [{"job_id": job} | asdict(profile) for job, profile in found.items()]
                pl.DataFrame(rows).write_csv(part)
            else:
                steps_of = (
                    (job, energy_classes.power_steps(measured.samples[job], found[job], cleaning))
                    for job in found
                )
                shapes = {job: shape for job, shape in steps_of if shape is not None}
                energy_classes.write_steps(part, shapes, parquet=path.suffix == ".parquet")
    counts = Counter(profile.kind for profile in found.values())
    shares = ((kind, counts[kind], counts[kind] / max(len(found), 1)) for kind in energy_classes.EnergyClass)
    show(NumberTable(("class", "jobs", "share"), ((kind, f"{n:,}", share(part)) for kind, n, part in shares)))
    if known := measured.known:  # which classes were taken for which
        pairs = Counter((known[job], str(found[job].kind)) for job in known)
        kinds = list(dict.fromkeys(kind for pair in pairs for kind in pair))
        lines = (
            (word, *(f"{pairs[word, kind]:,}" for kind in kinds)) for word in dict.fromkeys(known.values())
        )
        show("", NumberTable(("known as, found as", *kinds), lines))
        right = sum(n for (one, other), n in pairs.items() if one == other)
        print(f"right: {right:,} of {len(known):,}, {100 * right / len(known):.1f} %")
    for path in targets:
        print(f"Written: {path}")


class _ProfilesOptions(cli.Options):
    out: Path = cli.output("The new file.", "FILE.csv", default=cli.REQUIRED)
    each: int = cli.option("Jobs of each class.", default=100, min=1)
    shortest: float = cli.option("Least time of a job (s).", default=1800.0, min=60.0, max=_YEAR)
    longest: float = cli.option("Most time of a job (s).", default=86_400.0, min=60.0, max=_YEAR)
    noise: float = cli.option(
        "Deviation of a sample's noise, as share of the range of power.", default=0.05, min=0.0, max=10.0
    )
    seed: int = cli.option("Of all draws.", default=0, min=0)


def profiles(options: _ProfilesOptions) -> None:
    """Make energy profiles of known classes, on which `mlsim learn energy` and its thresholds are tried.

    A sample each 5 s, with phases of initialising and finishing, noise and outliers.

    mlsim learn energy-samples -o samples.csv --each 20
    """
    out, shortest, longest = options.out, options.shortest, options.longest
    if longest < shortest:
        raise InputError(f"--longest: {longest:g}; allowed: --shortest ({shortest:g}) or more")
    made = energy_classes.GeneratedProfiles(
        options.each, shortest, longest, noise=options.noise, seed=options.seed
    )
    with new_files([out]) as (part,):
        energy_classes.write_samples(part, energy_classes.generated_profiles(made))
    print(f"Written: {out}")
