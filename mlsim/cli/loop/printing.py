"""What ``mlsim loop`` prints: notes on keys that nothing reads, and the table of loops."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlsim.experiment import LoopResult
    from mlsim.scenario import Scenario


__all__ = ["print_loops", "print_unread"]


_WIDEST = 1000


def print_unread(scenarios: list[Scenario]) -> None:
    """Name keys that were set and that none of the loops reads."""
    from mlsim.scenario import warnings_of

    lines = [{line.split()[0]: line for line in warnings_of(scenario)} for scenario in scenarios]
    for key in lines[0]:
        if all(key in others for others in lines):
            print(f"mlsim: note: {lines[0][key]}", file=sys.stderr)


def print_loops(results: list[LoopResult], out: Path | None) -> None:
    """Print one line a loop, the shortest of several, and where results are."""
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement

    from mlsim.analysis import best_loop, loop_seconds, loop_table

    facts = [result.facts for result in results]
    table = loop_table(facts)
    # The table is cut nowhere, even where it is wider than the terminal.
    wide = Console(width=_WIDEST)
    console = Console(width=max(Console().width, Measurement.get(wide, wide.options, table).maximum))
    loop, scenario = facts[0], results[0].scenario
    console.print(
        f"[bold]{escape(scenario.name)}[/bold]: {loop['iterations']:,} iterations on {loop['pes']:,} PEs of "
        f"{loop['nodes']:,} nodes, seed {scenario.seed}",
        highlight=False,
    )
    console.print(table)
    for of in facts:
        if "selected" in of:
            took = loop_seconds(of["selection_time"])
            words = f"{of['technique']} {of['model']}: time steps by {of['selected']}; choosing took {took}"
            console.print(words, highlight=False, markup=False, soft_wrap=True)
    if len(results) > 1:
        best = results[best_loop(facts)]
        time = loop_seconds(best.facts["t_loop"])
        console.print(f"* shortest: {best.label}, {time}", highlight=False, markup=False)
    if out is not None:
        console.print(f"Results: {out}", highlight=False, soft_wrap=True)
