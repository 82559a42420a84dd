"""``mlsim learn``: policies that are searched and learned from a log."""

from __future__ import annotations

import typer

from mlsim.cli.learn.learn_classes import classes, energy, profiles
from mlsim.cli.learn.learn_policies import function, mixed, policies, transfer
from mlsim.cli.usage_errors import Commands

__all__ = ["learn"]

learn = typer.Typer(name="learn", cls=Commands, help="Learn policies from a log.", no_args_is_help=True)


@learn.callback()
def _group() -> None:
    pass


learn.command("mixed")(mixed)
learn.command("policies")(policies)
learn.command("classes")(classes)
learn.command("energy")(energy)
learn.command("profiles")(profiles)
learn.command("function")(function)
learn.command("transfer")(transfer)
