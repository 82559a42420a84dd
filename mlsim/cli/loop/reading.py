"""From the options of ``mlsim loop`` to scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlsim.scenario import Scenario


__all__ = ["check_outputs", "machine_keys", "read_flags", "scenario_of"]


def machine_keys(pes: str | None, speeds: str | None) -> dict[str, Any]:
    """Return the keys of the machine; none to leave the file's."""
    from mlsim.errors import InputError
    from mlsim.experiment.machines import REFERENCE_SPEED, node_groups

    if pes is not None:
        nodes = node_groups(pes, speeds)
        return {"platform.nodes": nodes, "platform.reference_speed": REFERENCE_SPEED}
    if speeds is not None:
        raise InputError(
            f"--speeds {speeds}: goes with --pes; give both, e.g. --pes 16x16 --speeds 1x8,0.5x8"
        )
    return {}


def read_flags(flags: dict[str, Any]) -> dict[str, object]:
    """Read the values that were given, as a scenario file would."""
    from mlsim.scenario import parse_override

    given = {key: value for key, value in flags.items() if value is not None}
    return {
        key: parse_override(f"{key}={value}")[1] if isinstance(value, str) else value
        for key, value in given.items()
    }


def scenario_of(file: Path | None, overrides: dict[str, object]) -> Scenario:
    """Return the loop of a file, or of options alone, with a machine."""
    from mlsim.errors import InputError
    from mlsim.experiment import load_loop, loop_from_mapping

    if file is not None:
        return load_loop(file, overrides)
    if not any(key.split(".")[0] == "platform" for key in overrides):
        raise InputError("mlsim loop: no machine; give --pes NODESxPES, e.g. --pes 16x16, or a scenario file")
    return loop_from_mapping({}, overrides)


def check_outputs(out: Path | None, chunks: bool, otf2: bool) -> None:
    """Refuse what would have no effect."""
    from mlsim.errors import InputError

    for name, given in (("--no-chunks", not chunks), ("--otf2", otf2)):
        if given and out is None:
            raise InputError(f"{name}: nothing is written without --out; give --out DIR, or leave it out")
