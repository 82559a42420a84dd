"""From the options of ``mlsim workload profile`` to a section of costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlsim.scenario import CostsConfig


__all__ = ["length_of", "read_costs"]


def read_costs(name: str, given: dict[str, str]) -> tuple[CostsConfig, str | None]:
    """Read the options as a scenario's section of costs; also what they count, None for seconds."""
    from pydantic import ValidationError

    from mlsim.errors import InputError
    from mlsim.scenario import CostProfile, CostsConfig, parse_override
    from mlsim.scenario.loop.costs import COUNTED

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
    keys = [str(part) for part in detail["loc"]]
    place = "" if keys[:1] == ["profile"] else f"--{keys[0].replace('_', '-')}: "
    inner = f"{'.'.join(keys[1:])}: " if len(keys) > 1 else ""
    return f"{place}{inner}{detail.get('ctx', {}).get('text', detail['msg'])}"


def length_of(costs: CostsConfig, iterations: str | None) -> int:
    """Return the number of iterations; 0 for a file, whose length is not known yet."""
    from mlsim.errors import InputError
    from mlsim.scenario import CostProfile, parse_override
    from mlsim.scenario.values.field_types import Whole

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
