"""``mlsim mpi``: real runs on MPI, and how they compare with simulated ones."""

import typer

from mlsim.cli.mpi.calibrate import calibrate
from mlsim.cli.mpi.run import run
from mlsim.cli.mpi.validate import validate
from mlsim.cli.usage import Commands

__all__ = ["mpi"]

mpi = typer.Typer(name="mpi", cls=Commands, help="Run loops for real, on MPI.", no_args_is_help=True)
mpi.command("run")(run)
mpi.command("calibrate")(calibrate)
mpi.command("validate")(validate)
