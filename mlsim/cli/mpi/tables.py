"""What ``mlsim mpi`` prints: what a machine takes, and how near simulations come."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlsim.mpi.validation.validate import Row


__all__ = ["print_machine", "print_rows"]


def print_machine(measured: dict[str, float | int | str]) -> None:
    """Print what ``mlsim mpi calibrate`` has measured."""
    from rich.console import Console
    from rich.table import Table

    from mlsim.analysis.loops import loop_seconds

    keys = {
        "message": "message of 16 B, one way (masters)",
        "noticed": "message to a rank that waits",
        "atomic": "fetch-and-add with flush (execution.atomic_service under dca, hdca)",
        "atomic_service": "the same, all ranks at once",
        "recursive": "chunk calculation (execution.chunk_calculation under cca, hmw)",
        "straightforward": "chunk calculation (execution.chunk_calculation under dca, hdca)",
        "break": "a master's look for requests (execution.break_time under cca, hmw)",
        "piece": "a part of a chunk, besides its iterations (execution.piece_time)",
        "first": "a master's first part of a loop, besides that",
    }
    table = Table("what", "time", box=None, pad_edge=False)
    for key, text in keys.items():
        if key in measured:
            table.add_row(text, loop_seconds(float(measured[key])))
    if "bandwidth" in measured:
        table.add_row("bandwidth", f"{float(measured['bandwidth']) / 1e9:.2f} GB/s")
    console = Console()
    console.print(
        f"{' '.join(str(measured['library']).split())}: {measured['ranks']} ranks on "
        f"{measured['machines']} {'machine' if measured['machines'] == 1 else 'machines'}",
        highlight=False,
    )
    console.print(table)
    if "spins" in measured:
        console.print("iterations compute" if measured["spins"] else "iterations sleep")


def print_rows(rows: list[Row]) -> None:
    """Print loops side by side, executed and simulated."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("technique", "model", "delay", "T_loop", "simulated", "error", "chunks", "simulated"):
        table.add_column(column, justify="left" if column in ("technique", "model") else "right")
    for row in rows:
        table.add_row(
            row.pair.technique,
            row.pair.model,
            f"{row.pair.delay * 1e6:.0f} µs",
            f"{row.t_loop:.4f} s",
            f"{row.t_simulated:.4f} s",
            f"{row.error * 100:+.2f} %",
            str(row.steps),
            str(row.steps_simulated),
        )
    console = Console()
    console.print(table)
    worst = max(rows, key=lambda row: abs(row.error))
    console.print(
        f"largest error: {worst.error * 100:+.2f} %, {worst.pair.technique} {worst.pair.model}",
        highlight=False,
    )
