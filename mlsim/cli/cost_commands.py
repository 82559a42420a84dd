"""``mlsim workload profile``: costs of a loop's iterations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._runtime.late import load_matplotlib
from mlsim.cli import command_options as cli
from mlsim.cli.command_options import Json, Options, argument, option, output
from mlsim.cli.new_files import new_files
from mlsim.cli.terminal import print_json
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim._runtime.arrays import Floats
    from mlsim.scenario.costs_section import CostsConfig


_distribution = partial(option, rich_help_panel="Distributions")
_image = partial(option, rich_help_panel="mandelbrot")
_spin = partial(option, rich_help_panel="psia")


class _ProfileOptions(Options):
    name: str = argument("As `mlsim list profiles` names it.", "PROFILE")
    out: Path = output("File of costs to write, .npy or .csv; must not exist.", "FILE", default=cli.REQUIRED)
    iterations: str | None = option(
        "Iterations; all but mandelbrot and file need it.", "--iterations", "-n", "N"
    )
    mean: str | None = option("Mean cost, e.g. '20 ms'; scales mandelbrot, psia, file.", "TIME")
    std: str | None = _distribution("normal, gamma, lognormal, bimodal: standard deviation.", "TIME")
    low: str | None = _distribution("uniform, increasing, decreasing: least cost; bimodal: one mode.", "TIME")
    high: str | None = _distribution(
        "uniform, increasing, decreasing: largest cost; bimodal: the other mode.", "TIME"
    )
    share: str | None = _distribution("bimodal: share of iterations that cost high.", "0..1")
    path: str | None = _distribution("file: the costs to read.", "FILE")
    seed: int = _distribution("Seed of the random numbers; default 0.", "N", default=0, show_default=False)
    size: str | None = _image("Width and height; default 1152.", "PIXELS")
    limit: str | None = _image("Most steps of z; default 1000.", "STEPS")
    exponent: str | None = _image("Of z^E + c; default 4.", "E")
    window: str | None = _image("Real and imaginary parts of c; default -2,2,-2,2.", "X0,X1,Y0,Y1")
    points: str | None = _spin("Points of the cloud; default 800000.", "N")
    image_width: str | None = _spin("Of a spin image; default 5.", "BINS")
    bin_size: str | None = _spin("Of the cloud's largest extent; default 0.01.", "SHARE")
    support_angle: str | None = _spin("Largest angle between normals; default 2.", "RAD")
    cloud_seed: str | None = _spin("Seed of the cloud; default 0.", "N")
    scan_cost: str | None = _spin("Of looking at a point, in costs of counting one; default 0.", "SHARE")
    unit_cost: str | None = option("mandelbrot, psia: of one step or point, not mean.", "TIME")
    reference_speed: str = option("That costs in FLOP are divided by.", "SPEED", default="1 GFLOP/s")
    picture: bool = option(
        "Whether to draw the costs, into FILE's name with .png.", "--picture/--no-picture", default=True
    )
    json_: Json = False


# Options that set no key of a scenario's section of costs.
_NOT_OF_COSTS = ("name", "out", "iterations", "seed", "reference_speed", "picture", "json_")


def profile(options: _ProfileOptions) -> None:
    """Compute the costs of a loop's iterations, in seconds, and write them to a file.

    The costs of mandelbrot and psia are counts unless --mean or --unit-cost converts them to time.

    mlsim workload profile mandelbrot --size 1152 --limit 1000 --exponent 4 -o m.npy
    """
    import numpy as np

    from mlsim import _jit
    from mlsim.application.profiles.profile_costs import Request, iteration_costs
    from mlsim.scenario.field_types import RATE
    from mlsim.scenario.simulation_demand import Share, check_memory
    from mlsim.scenario.words import CostProfile

    out = options.out
    if options.json_:
        _jit.quiet()
    costs, unit = _read_costs(options)
    n = _length_of(costs, options.iterations)
    speed = cli.amount("--reference-speed", options.reference_speed, RATE, positive=True)
    if out.suffix.lower() not in (".npy", ".csv"):
        raise InputError(f"--out {out}: a file of type '{out.suffix}'; allowed: .npy, .csv")
    targets = [out, out.with_suffix(".png")] if options.picture else [out]
    with new_files(targets) as partial_files:
        check_memory("--iterations", [Share("--iterations", f"{n:,} iterations", n * 8)], "the costs")
        values = iteration_costs(Request(costs, n, options.seed, speed))
        if out.suffix.lower() == ".npy":
            with partial_files[0].open("wb") as binary:
                np.save(binary, values)
        else:
            with partial_files[0].open("w", encoding="utf-8") as file:
                file.write("cost\n")
                file.writelines(f"{value!r}\n" for value in values.tolist())
        if options.picture:
            load_matplotlib()
            from mlsim.analysis import plots

            window = costs.parameters.window
            extent = (window.x_min, window.x_max, window.y_min, window.y_max)
            image = extent if costs.profile is CostProfile.MANDELBROT else None
            picture = plots.iteration_costs(values, _title(costs, len(values)), unit, image)
            plots.write_picture(picture, partial_files[1])
    _report(values, costs, unit, targets, options.json_)


def _read_costs(options: _ProfileOptions) -> tuple[CostsConfig, str | None]:
    """Read the options as a scenario's section of costs; also what they count, None for seconds."""
    from pydantic import ValidationError

    from mlsim.scenario.costs_section import COUNTED, CostsConfig
    from mlsim.scenario.words import CostProfile

    name, given = options.name, vars(options)
    texts = {key: text for key, text in given.items() if key not in _NOT_OF_COSTS and text is not None}
    values: dict[str, Any] = {
        key: text if key == "path" else cli.value_of(text) for key, text in texts.items()
    }
    if (text := options.window) is not None:
        parts = text.split(",")
        if len(parts) != 4 or not all(part.strip() for part in parts):
            raise InputError(f"--window {text}: allowed: four numbers X0,X1,Y0,Y1, e.g. --window=-2,2,-2,2")
        ends = ("x_min", "x_max", "y_min", "y_max")
        values["window"] = dict(zip(ends, map(cli.value_of, parts), strict=True))
    unit = None
    if name.casefold() in COUNTED and not {"mean", "unit_cost"} & set(texts):
        values["unit_cost"] = "1 s"
        unit = "steps of z" if name.casefold() == CostProfile.MANDELBROT else "points"
    try:
        costs = CostsConfig.model_validate({"profile": name, **values})
    except ValidationError as error:
        raise cli.option_problems(error, {"profile": ""}, skipped="parameters") from error
    if costs.profile is CostProfile.JOB:
        allowed = ", ".join(profile for profile in CostProfile if profile is not CostProfile.JOB)
        raise InputError(f"{name}: its costs are made from a job's run time; allowed: {allowed}")
    return costs, unit


def _length_of(costs: CostsConfig, iterations: str | None) -> int:
    """Return the number of iterations; 0 for a file, whose length is not known yet."""
    from mlsim.scenario.field_types import whole
    from mlsim.scenario.words import CostProfile

    if costs.profile in (CostProfile.FILE, CostProfile.MANDELBROT):
        if iterations is not None:
            decides = "the file" if costs.profile is CostProfile.FILE else "--size"
            raise InputError(f"--iterations: not for {costs.profile}: {decides} decides how many there are")

        from mlsim.application.profiles.profile_costs import fixed_length

        return fixed_length(costs, None) or 0
    if iterations is None:
        raise InputError(f"--iterations: missing; {costs.profile} needs it, e.g. --iterations 100000")
    try:
        return whole(1, 1_000_000_000).parse(cli.value_of(iterations))
    except ValueError as error:
        raise InputError(f"--iterations: {error}") from error


def _title(costs: CostsConfig, n: int) -> str:
    from mlsim.scenario.words import CostProfile

    own = costs.parameters
    if costs.profile is CostProfile.MANDELBROT:
        return f"mandelbrot: {round(n**0.5)}² pixels, z^{own.exponent} + c, at most {own.limit:,} steps"
    if costs.profile is CostProfile.PSIA:
        image = f"{own.image_width}² bins of {own.bin_size:g}, {own.support_angle:g} rad"
        return f"psia: {own.points:,} points, {image}"
    return f"file: {costs.path}" if costs.profile is CostProfile.FILE else str(costs.profile)


def _report(values: Floats, costs: CostsConfig, unit: str | None, written: list[Path], as_json: bool) -> None:
    """Print what the costs are, and which files were written."""
    from mlsim.analysis.plots.loop_plots import cost_facts

    facts = cost_facts(values)
    if as_json:
        files = [str(path) for path in written]
        print_json({"profile": costs.profile, **facts, "unit": unit or "s", "files": files})
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
