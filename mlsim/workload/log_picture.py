"""One page of pictures of a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlsim import _matplotlib
from mlsim.workload.log_facts import DAYS, Description

_COLOURS = ("#1f77b4", "#d95f02")


def draw_page(path: Path, logs: Sequence[Description], form: str) -> None:
    """Draw the page.

    Parameters
    ----------
    path
        Where to.
    logs
        One or two.
    form
        ``png``, ``pdf`` or ``svg``.
    """
    _matplotlib.load()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "mlsim", "font.size": 8, "axes.titlesize": 9}):
        figure = Figure(figsize=(8.3, 10.2), layout="constrained")
        panels = figure.subplots(4, 2).ravel()
        names = [f"{each.facts['log']}\n{each.facts['jobs']:,} jobs" for each in logs]
        _weeks(panels[0], logs)
        _cycle(panels[1], logs, "by_hour", "arrivals by hour of the day", [str(h) for h in range(24)])
        _cycle(panels[2], logs, "by_weekday", "arrivals by day of the week", list(DAYS))
        _shares(panels[3], logs, "processors", "processors of a job")
        _shares(panels[4], logs, "run_time", "run time (s)")
        _shares(panels[5], logs, "walltime", "walltime (s)")
        _accuracy(panels[6], logs)
        _users(panels[7], logs)
        handles = [
            mpl.patches.Patch(color=colour, label=name) for colour, name in zip(_COLOURS, names, strict=False)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False)
        dates: dict[str, Any] = {
            "pdf": {"CreationDate": None},
            "svg": {"Date": None},
            "png": {"Software": None},
        }
        figure.savefig(path, format=form, dpi=130, metadata=dates[form])


def _weeks(axes: Any, logs: Sequence[Description]) -> None:
    for colour, log in zip(_COLOURS, logs, strict=False):
        load = log.facts["weekly_load"]
        axes.step(np.arange(1, len(load) + 1), load, where="mid", color=colour, linewidth=1)
    axes.set(title="offered load by week", xlabel="week", ylabel="load", ylim=(0, None))
    axes.axhline(1, color="0.7", linewidth=0.7, linestyle=":")


def _cycle(axes: Any, logs: Sequence[Description], key: str, title: str, labels: list[str]) -> None:
    width = 0.8 / len(logs)
    places = np.arange(len(labels))
    for k, (colour, log) in enumerate(zip(_COLOURS, logs, strict=False)):
        counts = np.array(log.facts["arrivals"][key], float)
        axes.bar(places - 0.4 + (k + 0.5) * width, 100 * counts / counts.sum(), width, color=colour)
    step = 3 if len(labels) > 12 else 1
    axes.set_xticks(places[::step], labels[::step])
    axes.set(title=title, ylabel="% of the jobs")


def _shares(axes: Any, logs: Sequence[Description], name: str, title: str) -> None:
    for colour, log in zip(_COLOURS, logs, strict=False):
        values, counts = log.tallies[name].counted()
        if values.size:
            shares = 100 * np.cumsum(counts) / counts.sum()
            axes.step(np.maximum(values, 1), shares, where="post", color=colour, linewidth=1)
    axes.set_xscale("log", base=2 if name == "processors" else 10)
    axes.set(title=title, ylabel="% of the jobs at most", ylim=(0, 101))


def _accuracy(axes: Any, logs: Sequence[Description]) -> None:
    edges = np.linspace(0, 1.05, 22)
    for colour, log in zip(_COLOURS, logs, strict=False):
        values, counts = log.tallies["accuracy"].counted()
        if values.size:
            heights, _ = np.histogram(np.minimum(values, 1.04), edges - 1e-9, weights=counts)
            axes.stairs(100 * heights / counts.sum(), edges, color=colour, linewidth=1.2)
    axes.set(title="run time / walltime (last: 1 and above)", ylabel="% of the jobs", xlim=(0, 1.05))


def _users(axes: Any, logs: Sequence[Description]) -> None:
    for colour, log in zip(_COLOURS, logs, strict=False):
        if log.users.size:
            shares = 100 * np.cumsum(log.users) / log.users.sum()
            axes.plot(np.arange(1, shares.size + 1), shares, color=colour, linewidth=1)
    axes.set_xscale("log")
    axes.set(title="jobs of the most active users", xlabel="users", ylabel="% of the jobs", ylim=(0, 101))
