"""``mlsim learn mixed``: weights of mixed policies, searched week by week, learned and tested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.learn.options import Jobs, Out, check_read, read_by_methods, weeks_of_option

if TYPE_CHECKING:
    from mlsim.learning.mixed import Mixed
    from mlsim.learning.phases import PhaseBand

__all__ = ["mixed"]


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
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value of the scenario.")
    ] = None,
    jobs: Jobs = None,
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

    from mlsim.cli.learn.reference import results_of_others
    from mlsim.errors import InputError
    from mlsim.experiment.weekly import weeks_of
    from mlsim.learning.files import write_mixed, write_phases
    from mlsim.learning.mixed import Searching, learn_mixed
    from mlsim.learning.parts import parts_in
    from mlsim.learning.phases import at_phases, learn_phases
    from mlsim.learning.searches import PROTOCOLS, kept_searches
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
        found = learn_mixed(weeks, *train_test, searching, kept_searches(parts))
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

    from mlsim.cli.learn.progress import show

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

    from mlsim.cli.learn.progress import cell, show
    from mlsim.learning.vectors import FEATURES

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
