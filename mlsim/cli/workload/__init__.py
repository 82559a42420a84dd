"""``mlsim workload``: workloads made, converted and looked into; costs of loops."""

import typer

from mlsim.cli.usage import Commands
from mlsim.cli.workload.convert import convert
from mlsim.cli.workload.describe import describe
from mlsim.cli.workload.esp import esp
from mlsim.cli.workload.fit import fit
from mlsim.cli.workload.generate import generate
from mlsim.cli.workload.machines import eurora, kit
from mlsim.cli.workload.predict import predict
from mlsim.cli.workload.profile import profile
from mlsim.cli.workload.resample import resample
from mlsim.cli.workload.scale import scale

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
