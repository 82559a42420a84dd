"""``mlsim workload profile``: compute the costs of a loop's iterations, and write them to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mlsim.cli.values import amount
from mlsim.cli.workload.cost_files import compute, draw, report, write_costs
from mlsim.cli.workload.cost_options import length_of, read_costs

__all__ = ["profile"]


_IMAGE, _SPIN = "mandelbrot", "psia"


def _key(metavar: str, text: str, panel: str = "Distributions", name: str | None = None) -> Any:
    names = () if name is None else (name,)
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, show_default=False)


def profile(
    name: Annotated[
        str, typer.Argument(metavar="PROFILE", help="As `mlsim list profiles` names it.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File of costs to write, .npy or .csv; must not exist."
        ),
    ],
    iterations: Annotated[
        str | None,
        typer.Option(
            "--iterations", "-n", metavar="N", help="Iterations; all but mandelbrot and file need it."
        ),
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Mean cost, e.g. '20 ms'; scales mandelbrot, psia, file."),
    ] = None,
    std: Annotated[str | None, _key("TIME", "normal, gamma, lognormal, bimodal: standard deviation.")] = None,
    low: Annotated[
        str | None, _key("TIME", "uniform, increasing, decreasing: least cost; bimodal: one mode.")
    ] = None,
    high: Annotated[
        str | None, _key("TIME", "uniform, increasing, decreasing: largest cost; bimodal: the other mode.")
    ] = None,
    share: Annotated[str | None, _key("0..1", "bimodal: share of iterations that cost high.")] = None,
    path: Annotated[str | None, _key("FILE", "file: the costs to read.")] = None,
    seed: Annotated[int, _key("N", "Seed of the random numbers; default 0.")] = 0,
    size: Annotated[str | None, _key("PIXELS", "Width and height; default 1152.", _IMAGE)] = None,
    limit: Annotated[str | None, _key("STEPS", "Most steps of z; default 1000.", _IMAGE)] = None,
    exponent: Annotated[str | None, _key("E", "Of z^E + c; default 4.", _IMAGE)] = None,
    window: Annotated[
        str | None, _key("X0,X1,Y0,Y1", "Real and imaginary parts of c; default -2,2,-2,2.", _IMAGE)
    ] = None,
    points: Annotated[str | None, _key("N", "Points of the cloud; default 800000.", _SPIN)] = None,
    image_width: Annotated[str | None, _key("BINS", "Of a spin image; default 5.", _SPIN)] = None,
    bin_size: Annotated[
        str | None, _key("SHARE", "Of the cloud's largest extent; default 0.01.", _SPIN)
    ] = None,
    support_angle: Annotated[
        str | None, _key("RAD", "Largest angle between normals; default 2.", _SPIN)
    ] = None,
    cloud_seed: Annotated[str | None, _key("N", "Seed of the cloud; default 0.", _SPIN)] = None,
    scan_cost: Annotated[
        str | None, _key("SHARE", "Of looking at a point, in costs of counting one; default 0.", _SPIN)
    ] = None,
    unit_cost: Annotated[
        str | None, typer.Option(metavar="TIME", help="mandelbrot, psia: of one step or point, not mean.")
    ] = None,
    reference_speed: Annotated[
        str, typer.Option(metavar="SPEED", help="That costs in FLOP are divided by.")
    ] = "1 GFLOP/s",
    picture: Annotated[
        bool,
        typer.Option("--picture/--no-picture", help="Whether to draw the costs, into FILE's name with .png."),
    ] = True,
    json_: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Compute the costs of a loop's iterations, in seconds, and write them to a file.

    The costs of mandelbrot and psia are counts unless --mean or --unit-cost converts them to time.

    mlsim workload profile mandelbrot --size 1152 --limit 1000 --exponent 4 -o m.npy
    """
    from mlsim import _jit
    from mlsim.cli.newfiles import new_files
    from mlsim.scenario.values.units import RATE

    options = {
        "mean": mean,
        "std": std,
        "low": low,
        "high": high,
        "share": share,
        "path": path,
        "size": size,
        "limit": limit,
        "exponent": exponent,
        "window": window,
        "points": points,
        "image_width": image_width,
        "bin_size": bin_size,
        "support_angle": support_angle,
        "cloud_seed": cloud_seed,
        "scan_cost": scan_cost,
        "unit_cost": unit_cost,
    }
    if json_:
        _jit.quiet()
    costs, unit = read_costs(name, {key: text for key, text in options.items() if text is not None})
    n = length_of(costs, iterations)
    speed = amount("--reference-speed", reference_speed, RATE, positive=True)
    _check_suffix(out)
    targets = [out, out.with_suffix(".png")] if picture else [out]
    with new_files(targets) as partial:
        values = compute(costs, n, seed, speed)
        write_costs(partial[0], values)
        if picture:
            draw(partial[1], values, costs, unit)
    report(values, costs, unit, targets, json_)


def _check_suffix(out: Path) -> None:
    from mlsim.errors import InputError

    if out.suffix.lower() not in (".npy", ".csv"):
        raise InputError(f"--out {out}: a file of type '{out.suffix}'; allowed: .npy, .csv")
