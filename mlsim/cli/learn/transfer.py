"""``mlsim learn transfer``: what a policy learned on one log is worth on others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.learn.options import Jobs, Out, check_read, read_by_methods

if TYPE_CHECKING:
    from mlsim.learning.transfer import Transfer, TransferBand

__all__ = ["transfer"]

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
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value of the scenarios.")
    ] = None,
    phases: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Show the band over N phases of the cut into weeks, each learned anew."
        ),
    ] = 0,
    jobs: Jobs = None,
    out: Out = None,
) -> None:
    """Learn a mixed policy on the first weeks of each log, and test all of them on the last weeks of each.

    A matrix of logs: weights of policy linear, learned where the row says and tested where the column says,
    as mean paired difference to SAF in % of SAF's weekly mean bounded slowdown (* if the 95 % interval of
    the difference leaves out 0). The FILEs say with workload.weeks how their logs are cut.

    mlsim learn transfer scenarios/studies/transfer/*.yaml
    """
    from mlsim.errors import InputError
    from mlsim.experiment.weekly import weeks_of
    from mlsim.learning.files import write_transfer, write_transfer_phases
    from mlsim.learning.mixed import Searching
    from mlsim.learning.parts import parts_in
    from mlsim.learning.phases import at_phases
    from mlsim.learning.searches import kept_searches
    from mlsim.learning.transfer import learn_transfer, transfer_phases
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
        found = learn_transfer(logs, share, searching, kept_searches(parts))
        _print(found)
        if out is not None:
            write_transfer(out, found, _REFERENCE)
            write_transfer_phases(out, None)
        if phases:
            logs.clear()  # each part cuts its own
            band = transfer_phases(scenarios, phases, share, searching, parts)
            _print_band(band, phases)
            if out is not None:
                write_transfer_phases(out, band)
    if out is not None:
        print(f"Written: {out}")


def _print_band(band: TransferBand, count: int) -> None:
    from rich.table import Table

    from mlsim.cli.learn.progress import show

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


def _print(found: Transfer) -> None:
    from rich.table import Table

    from mlsim.cli.learn.progress import show

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
