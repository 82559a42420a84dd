"""The costs that ``mlsim workload profile`` computes: as a file, as a picture, as facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim import _matplotlib

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlsim.scenario import CostsConfig

    Floats = NDArray[np.float64]


__all__ = ["compute", "draw", "report", "write_costs"]


def compute(costs: CostsConfig, n: int, seed: int, speed: float) -> Floats:
    """Compute costs, if they can be held."""
    from mlsim.application.profiles import Request, iteration_costs
    from mlsim.scenario.whole.demand import Share, check_memory

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
    _matplotlib.load()
    from mlsim.analysis.plots import iteration_costs, write_picture
    from mlsim.scenario import CostProfile

    window = costs.window
    extent = (window.x_min, window.x_max, window.y_min, window.y_max)
    image = extent if costs.profile is CostProfile.MANDELBROT else None
    write_picture(iteration_costs(values, _title(costs, len(values)), unit, image), path)


def _title(costs: CostsConfig, n: int) -> str:
    from mlsim.scenario import CostProfile

    if costs.profile is CostProfile.MANDELBROT:
        return f"mandelbrot: {round(n**0.5)}² pixels, z^{costs.exponent} + c, at most {costs.limit:,} steps"
    if costs.profile is CostProfile.PSIA:
        image = f"{costs.image_width}² bins of {costs.bin_size:g}, {costs.support_angle:g} rad"
        return f"psia: {costs.points:,} points, {image}"
    return f"file: {costs.path}" if costs.profile is CostProfile.FILE else str(costs.profile)


def report(values: Floats, costs: CostsConfig, unit: str | None, written: list[Path], as_json: bool) -> None:
    """Print what the costs are, and which files were written."""
    from mlsim.analysis.plots.costs import cost_facts

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
