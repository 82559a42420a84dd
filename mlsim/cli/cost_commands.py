"""``mlsim workload profile``: costs of a loop's iterations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim._runtime.late import load_matplotlib
from mlsim.cli.command_options import Json, amount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlsim.scenario import CostsConfig


if TYPE_CHECKING:
    Floats = NDArray[np.float64]


def compute(costs: CostsConfig, n: int, seed: int, speed: float) -> Floats:
    """Compute costs, if they can be held."""
    from mlsim.application.profiles import Request, iteration_costs
    from mlsim.scenario.simulation_demand import Share, check_memory

    check_memory("--iterations", [Share("--iterations", f"{n:,} iterations", n * 8)], "the costs")
    return iteration_costs(Request(costs, n, seed, speed))


def write_costs(path: Path, values: Floats) -> None:
    """Write costs as ``.npy`` or, one a line, as ``.csv``."""
    import numpy as np

    if path.suffix.lower() == ".npy":
        with path.open("wb") as file:
            np.save(file, values)
        return
    with path.open("w", encoding="utf-8") as file:
        file.write("cost\n")
        file.writelines(f"{value!r}\n" for value in values.tolist())


def draw(path: Path, values: Floats, costs: CostsConfig, unit: str | None) -> None:
    """Draw costs, those of mandelbrot as their image."""
    load_matplotlib()
    from mlsim.analysis.plots import iteration_costs, write_picture
    from mlsim.scenario import CostProfile

    window = costs.parameters.window
    extent = (window.x_min, window.x_max, window.y_min, window.y_max)
    image = extent if costs.profile is CostProfile.MANDELBROT else None
    write_picture(iteration_costs(values, _title(costs, len(values)), unit, image), path)


def _title(costs: CostsConfig, n: int) -> str:
    from mlsim.scenario import CostProfile

    own = costs.parameters
    if costs.profile is CostProfile.MANDELBROT:
        return f"mandelbrot: {round(n**0.5)}² pixels, z^{own.exponent} + c, at most {own.limit:,} steps"
    if costs.profile is CostProfile.PSIA:
        image = f"{own.image_width}² bins of {own.bin_size:g}, {own.support_angle:g} rad"
        return f"psia: {own.points:,} points, {image}"
    return f"file: {costs.path}" if costs.profile is CostProfile.FILE else str(costs.profile)


def report(values: Floats, costs: CostsConfig, unit: str | None, written: list[Path], as_json: bool) -> None:
    """Print what the costs are, and which files were written."""
    from mlsim.analysis.plots.loop_plots import cost_facts

    facts = cost_facts(values)
    if as_json:
        files = [str(path) for path in written]
        print(json.dumps({"profile": costs.profile, **facts, "unit": unit or "s", "files": files}, indent=2))
        return
    print(f"{written[0]}: {len(values):,} costs, {_title(costs, len(values))}")
    cov = "-" if facts["cov"] is None else f"{facts['cov']:.4g}"
    numbers = "  ".join(f"{key} {facts[key]:.6g}" for key in ("mean", "std", "min", "max"))
    print(f"  count {facts['count']}  {numbers}  ({unit or 's'})  c.o.v. {cov}")
    if unit is not None:
        print(
            f"  counts of {unit}: give --mean or --unit-cost for seconds, or scale by application.costs.mean"
        )
    for path in written[1:]:
        print(f"{path}: picture")


def read_costs(name: str, given: dict[str, str]) -> tuple[CostsConfig, str | None]:
    """Read the options as a scenario's section of costs; also what they count, None for seconds."""
    from pydantic import ValidationError

    from mlsim.errors import InputError
    from mlsim.scenario import CostProfile, CostsConfig, parse_override
    from mlsim.scenario.costs_section import COUNTED

    values: dict[str, Any] = {key: parse_override(f"{key}={text}")[1] for key, text in given.items()}
    if "path" in given:
        values["path"] = given["path"]
    if "window" in given:
        values["window"] = _window(given["window"])
    unit = None
    if name.casefold() in COUNTED and not {"mean", "unit_cost"} & set(given):
        values["unit_cost"] = "1 s"
        unit = "steps of z" if name.casefold() == CostProfile.MANDELBROT else "points"
    try:
        costs = CostsConfig.model_validate({"profile": name, **values})
    except ValidationError as error:
        raise InputError("\n".join(_problem(detail) for detail in error.errors())) from error
    if costs.profile is CostProfile.JOB:
        allowed = ", ".join(profile for profile in CostProfile if profile is not CostProfile.JOB)
        raise InputError(f"{name}: its costs are made from a job's run time; allowed: {allowed}")
    return costs, unit


def _window(text: str) -> dict[str, Any]:
    from mlsim.errors import InputError
    from mlsim.scenario import parse_override

    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip() for part in parts):
        raise InputError(f"--window {text}: allowed: four numbers X0,X1,Y0,Y1, e.g. --window=-2,2,-2,2")
    keys = ("x_min", "x_max", "y_min", "y_max")
    return {key: parse_override(f"{key}={part}")[1] for key, part in zip(keys, parts, strict=True)}


def _problem(detail: Any) -> str:
    """Write one problem of the section as one of the command's options."""
    keys = [str(part) for part in detail["loc"] if part != "parameters"]
    place = "" if keys[:1] == ["profile"] else f"--{keys[0].replace('_', '-')}: "
    inner = f"{'.'.join(keys[1:])}: " if len(keys) > 1 else ""
    return f"{place}{inner}{detail.get('ctx', {}).get('text', detail['msg'])}"


def length_of(costs: CostsConfig, iterations: str | None) -> int:
    """Return the number of iterations; 0 for a file, whose length is not known yet."""
    from mlsim.errors import InputError
    from mlsim.scenario import CostProfile, parse_override
    from mlsim.scenario.field_types import Whole

    if costs.profile in (CostProfile.FILE, CostProfile.MANDELBROT):
        if iterations is not None:
            decides = "the file" if costs.profile is CostProfile.FILE else "--size"
            raise InputError(f"--iterations: not for {costs.profile}: {decides} decides how many there are")

        from mlsim.application.profiles import fixed_length

        return fixed_length(costs, None) or 0
    if iterations is None:
        raise InputError(f"--iterations: missing; {costs.profile} needs it, e.g. --iterations 100000")
    try:
        return Whole(1, 1_000_000_000).parse(parse_override(f"iterations={iterations}")[1])
    except ValueError as error:
        raise InputError(f"--iterations: {error}") from error


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
    json_: Json = False,
) -> None:
    """Compute the costs of a loop's iterations, in seconds, and write them to a file.

    The costs of mandelbrot and psia are counts unless --mean or --unit-cost converts them to time.

    mlsim workload profile mandelbrot --size 1152 --limit 1000 --exponent 4 -o m.npy
    """
    from mlsim import _jit
    from mlsim.cli.new_files import new_files
    from mlsim.scenario.unit_types import RATE

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
