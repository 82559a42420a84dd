"""``mlsim watch``: how far a run or a study is, live, from another terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType


_MOST_CELLS = 1200
"""Of more nodes a cell stands for several."""
_LOOKS = {".": ("·", "dim"), "#": ("■", "blue"), "x": ("x", "red")}


def watch(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="The directory that a run or study writes, or the file of `mlsim run --status`.",
            show_default=False,
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Print the state once, and end.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the state once as JSON, and end.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between updates.", min=0.1)] = 1.0,
) -> None:
    """Show the progress of a running simulation or study: time, jobs, queue, nodes, messages."""
    from rich.console import Console

    if _is_study(target):
        _watch_study(target, once, interval)
        return
    if json_:
        print(json.dumps(_state(target) or {"state": "none"}))
        return
    console = Console()
    if once or not console.is_terminal:
        # A sentence is one line: broken at a width, it could not be searched for.
        console.print(_view_or_words(target), soft_wrap=True)
        return
    from rich.live import Live

    with Live(_view_or_words(target), console=console, refresh_per_second=4) as live:
        for _ in _until_it_ends(target, interval):
            live.update(_view_or_words(target))


def _is_study(target: Path) -> bool:
    from mlsim.experiment.study.study_store import is_store

    return is_store(target)


def _state(target: Path) -> dict[str, Any] | None:
    from mlsim.experiment.run_status import find_status, read_status

    path = find_status(target)
    return None if path is None else read_status(path)


def _until_it_ends(target: Path, interval: float) -> Iterator[None]:
    while not (target / "summary.json").is_file():
        state = _state(target)
        if state is not None and state["state"] != "running":
            break
        time.sleep(interval)
        yield
    yield


def _view_or_words(target: Path) -> RenderableType:
    state = _state(target)
    if state is not None:
        return state_view(state)
    if (target / "summary.json").is_file():
        return f"{target}: completed; mlsim metrics and mlsim report read it"
    return f"{target}: running; its state file exists after a second, and not while it reads or writes"


def _watch_study(target: Path, once: bool, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from mlsim.experiment.study.study_engine import status_of

    console = Console()
    if once or not console.is_terminal:
        print("\n".join(status_of(target)))
        return
    with Live(console=console) as live:
        while True:
            lines = list(status_of(target))
            live.update("\n".join(lines))
            if not any(" is running it" in line for line in lines):
                break
            time.sleep(interval)


def state_view(state: dict[str, Any]) -> RenderableType:
    """Lay out the state of a run (:func:`mlsim.experiment.run_status.read_status`) for the terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from mlsim.analysis.formatting import duration

    jobs = state.get("jobs")
    title = Text.assemble((str(state["scenario"]), "bold"), f"  {state['state']}")
    if jobs is None:
        return title
    title.append(
        f", simulated {duration(state['time'])} in {duration(state['updated'] - state['began'])}", "dim"
    )
    total = max(jobs["total"], jobs["ended"] + jobs["running"] + jobs["waiting"], 1)
    parts = (
        f"{jobs['ended']:,} ended, {jobs['running']:,} running, {jobs['waiting']:,} waiting, "
        f"{jobs['to_come']:,} to come; {state['free_units']:,} units free"
    )
    table = Table.grid(padding=(0, 2))
    every = -(-sum(group["nodes"] for group in state["groups"]) // _MOST_CELLS) or 1
    for group in state["groups"]:
        used = group["held"] / max(group["nodes"], 1)
        words = f"{group['held']} of {group['nodes']} held ({used * 100:.0f} %)"
        if group["down"]:
            words += f", {group['down']} out of use"
        table.add_row(group["name"], words, _cells(group["cells"], every))
    bar = ProgressBar(total=total, completed=jobs["ended"], width=60)
    note = [Text(f"a cell stands for {every} nodes: the first of them", "dim")] if every > 1 else []
    return Group(title, bar, parts, table, *note, *map(_message_line, state.get("messages", ())))


def _message_line(said: dict[str, Any]) -> RenderableType:
    """Write a coordination message on a line."""
    from rich.text import Text

    from mlsim.analysis.formatting import duration

    about = f"job {said['job']}"
    if "for_job" in said:
        about += f", {said['nodes_wanted']} nodes for job {said['for_job']}"
    elif "nodes" in said:
        about += f", node{'s' * (len(said['nodes']) > 1)} {' '.join(map(str, said['nodes']))}"
    return Text(f"{duration(said['sent'])}  {said['message']}: {about}", "dim")


def _cells(letters: str, every: int) -> RenderableType:
    from rich.text import Text

    text = Text(overflow="fold")
    for letter, cells in groupby(letters[::every]):
        cell, style = _LOOKS[letter]
        text.append(cell * len(list(cells)), style)
    return text
