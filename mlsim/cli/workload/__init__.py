"""``mlsim workload``: workloads made, converted and looked into; costs of loops."""

import typer

from mlsim.cli.usage_errors import Commands
from mlsim.cli.workload.cost_commands import profile
from mlsim.cli.workload.derived_commands import esp, eurora, kit, resample, scale
from mlsim.cli.workload.generation_commands import fit, generate
from mlsim.cli.workload.log_commands import convert, describe, predict

__all__ = ["workload"]

workload = typer.Typer(
    name="workload",
    cls=Commands,
    help="Generate, learn, resample, scale, convert and analyse workloads.",
    no_args_is_help=True,
)
workload.command("profile")(profile)
workload.command("esp")(esp)
workload.command("generate")(generate)
workload.command("fit")(fit)
workload.command("resample")(resample)
workload.command("scale")(scale)
workload.command("eurora")(eurora)
workload.command("kit")(kit)
workload.command("predict")(predict)
workload.command("convert")(convert)
workload.command("describe")(describe)
