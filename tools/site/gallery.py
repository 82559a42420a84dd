"""The gallery: pictures of runs that the build makes, each with the command that draws it."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Gallery", "draw"]

_RUNS = (
    "mlsim run scenarios/quickstart.yaml --set platform.nodes.0.power.idle=100W --set platform.nodes.0.power.busy=300W"
    " --set platform.nodes.1.power.idle=80W --set platform.nodes.1.power.busy=200W --out runs/rca",
    "mlsim run scenarios/quickstart.yaml --set coordination.rca=off --out runs/no-rca",
    "mlsim run scenarios/quickstart.yaml --set application.technique=FAC2 --out runs/fac2",
)
_LOOPS = (
    "mlsim loop --profile mandelbrot --iterations 65536 --pes 4x16 --technique GSS --model dca --out runs/gss",
    "mlsim loop --profile mandelbrot --iterations 65536 --pes 4x16 --technique STATIC,SS,GSS,TSS,FAC2,AF --model dca --out runs/loops",
)
_PICTURES = (
    (
        "Nodes over time",
        "gantt runs/rca",
        "A job has one colour; triangles are nodes given back before their job ended.",
    ),
    (
        "Busy and allocated cores",
        "utilization runs/rca",
        "What lies between the two lines is held by jobs that do not use it.",
    ),
    (
        "Busy cores of several runs",
        "utilization runs/rca runs/no-rca runs/fac2",
        "The tail shows how long the last jobs keep the machine.",
    ),
    ("The queue", "queue runs/rca runs/no-rca", "Waiting jobs with nodes given back early, and without."),
    (
        "Slowdowns",
        "slowdown-box runs/no-rca runs/rca runs/fac2",
        "Quartiles, whiskers from 5 % to 95 %, diamond at the mean.",
    ),
    (
        "Shares of slowdowns",
        "slowdown-ecdf runs/no-rca runs/rca runs/fac2",
        "Where curves cross, the runs favour other jobs.",
    ),
    (
        "Shares of waits",
        "wait-ecdf runs/no-rca runs/rca runs/fac2",
        "Linear up to a minute, logarithmic beyond.",
    ),
    ("Waits by size", "wait-by-size runs/no-rca runs/rca", "Which sizes pay for a policy."),
    ("Power", "energy runs/rca", "The energy is in the legend."),
    (
        "Chunk sizes of a job's loop",
        "chunk-sizes runs/rca runs/fac2",
        "STATIC hands out one chunk a PE, FAC2 batches of half of what is left.",
    ),
    ("PEs of a job's loop", "loop-timeline runs/rca", "The ragged edge is imbalance."),
    (
        "Nodes over time, by user",
        "gantt runs/rca --colour user",
        "The legend has the share of each user in the core-seconds of all jobs.",
    ),
    (
        "Finish times of PEs",
        "imbalance-profile runs/rca runs/fac2",
        "A long flat line with a step at its end: few PEs hold up all.",
    ),
)
_OF_RUNS = (
    (
        "PEs of a loop alone",
        "runs/gss/pes.png",
        _LOOPS[0],
        "Mandelbrot rows under GSS; darker chunks are larger.",
    ),
    (
        "Chunk sizes of six techniques",
        "runs/loops/chunk-sizes.png",
        _LOOPS[1],
        "One loop, a panel a technique.",
    ),
)


@dataclass(frozen=True)
class Gallery:
    """The page, and its pictures by their names beside it."""

    page: str
    pictures: dict[str, Path]


def draw(repository: Path, directory: Path) -> Gallery:
    """Simulate the runs in a directory, draw the pictures, and write the page."""
    for name in ("scenarios", "traces"):
        (directory / name).symlink_to(repository / name)
    with _inside(directory):
        for command in (
            *_RUNS,
            *_LOOPS,
            *(_plot(words, number) for number, (_, words, _) in enumerate(_PICTURES)),
        ):
            _mlsim(command)
    pictures = {Path(_name(n)).name: directory / _name(n) for n in range(len(_PICTURES))}
    pictures |= {_loop_name(place): directory / place for _, place, _, _ in _OF_RUNS}
    return Gallery(_page(), pictures)


def _name(number: int) -> str:
    return f"runs/{_PICTURES[number][1].split()[0]}-{number + 1}.png"


def _loop_name(place: str) -> str:
    return "-".join(Path(place).parts[1:])


def _plot(words: str, number: int) -> str:
    return f"mlsim plot {words} -o {_name(number)} --width 120"


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    """Work in a directory, and say nothing."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        os.chdir(before)


def _mlsim(command: str) -> None:
    """Execute a command in this process, which has loaded what most of them need."""
    from typer.main import get_command

    from mlsim.cli.commands import program

    words = shlex.split(command)[1:]
    get_command(program())(words, standalone_mode=False)


def _page() -> str:
    parts = [
        "# Gallery\n\nEach picture was drawn when this site was built, from runs that were simulated then, by the command below it. Figures can be PDF or SVG"
        " as well: [figures for papers](outputs/plots.md).\n\n## The runs\n",
        _code([*_RUNS, *_LOOPS]),
    ]
    for number, (title, words, meaning) in enumerate(_PICTURES):
        parts.append(_entry(title, Path(_name(number)).name, meaning, _plot(words, number)))
    for title, place, command, meaning in _OF_RUNS:
        parts.append(_entry(title, _loop_name(place), f"{meaning} `{place}` is left by the run.", command))
    return "\n".join(parts)


def _entry(title: str, picture: str, meaning: str, command: str) -> str:
    return f"## {title}\n\n![{title}]({picture})\n\n{meaning}\n\n{_code([command])}"


def _code(lines: Sequence[str]) -> str:
    return "\n".join(["```sh", *lines, "```", ""])
