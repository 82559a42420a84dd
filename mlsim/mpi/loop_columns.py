"""The records of a real loop as one file of columns."""

from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import numpy as np

from mlsim._files import read_npz
from mlsim.errors import InputError
from mlsim.record import Chunks, Loops, PEs, Records

_TABLES = {"chunks": Chunks, "loops": Loops, "pes": PEs}


@dataclass(frozen=True)
class RealLoop:
    """A loop executed on real ranks, as the tables of a run with this one job; s from its first request."""

    began: float  # time of its first request, in s since 1970
    nodes: list[str]  # in order of their lowest ranks
    chunks: Chunks
    loops: Loops
    pes: PEs


def write_loop(path: Path, records: Records, began: float) -> None:
    """Write the loop of a real run, which began at a time in s since 1970."""
    columns = {
        f"{name}.{column.name}": values
        for name, table in _TABLES.items()
        for column in fields(table)
        if (values := getattr(getattr(records, name), column.name)) is not None
    }
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        np.savez(file, began=began, nodes=np.array(records.nodes.name), **columns)
    partial.replace(path)


def read_loop(path: Path) -> RealLoop:
    """Read a file of :func:`write_loop`; InputError for any other."""
    columns = read_npz(path, "columns of a loop")
    try:
        tables = {
            name: table(
                **{
                    column.name: columns[f"{name}.{column.name}"]
                    for column in fields(table)
                    if column.default is MISSING  # others are known of simulated loops alone
                }
            )
            for name, table in _TABLES.items()
        }
        return RealLoop(float(columns["began"]), columns["nodes"].tolist(), **tables)
    except KeyError as error:
        raise InputError(f"{path}: not the columns of a loop: {error} is missing") from error
