"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Overrides", "ScenarioFile"]

ScenarioFile = Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)]

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the scenario; may be repeated."),
]
