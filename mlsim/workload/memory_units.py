"""Units of memory in the formats of workloads; every reader converts here.

=================================  ========================================================================
format                             a number of memory is
=================================  ========================================================================
CSV, Parquet, Batsim, data frames  MB of 10^6 B; a text may name its unit: ``3174 MiB``, ``2 GB``
sacct (``mem=`` of TRES)           K, M, G, T and P are powers of 1024 B, no letter is M
PBS (``Resource_List.mem``)        kb, mb, gb, tb and pb are powers of 1024 B, no letter is B; w: words of 8 B
SWF (fields 7 and 10)              KB of 1024 B per processor
=================================  ========================================================================

Sources: the manual page of sacct (``--units``); the definition of the Standard Workload Format.
"""

from __future__ import annotations

import re
from decimal import Decimal

from mlsim.scenario.values.units import SIZE, parse_value

__all__ = ["MB", "SWF_KB", "pbs_size", "sized", "slurm_size"]

MB = 1_000_000
"""Bytes in the MB of columns ``request_memory``."""
SWF_KB = 1024.0
"""Bytes in the KB of SWF logs."""
_SLURM = {"K": 1024, "": 1024**2, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_PBS_SIZE = re.compile(r"(\d{1,15})([kmgtp]?)[bw]?", re.IGNORECASE)
_SLURM_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([KMGTP]?)")


def slurm_size(text: str) -> int:
    """Return the bytes of an amount of memory that Slurm printed.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> slurm_size("3174M"), slurm_size("1.5G")
    (3328180224, 1610612736)
    """
    found = _SLURM_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory of Slurm")
    return int(Decimal(found[1]) * _SLURM[found[2]])


def pbs_size(text: str) -> int:
    """Return the bytes of an amount of memory in accounting of PBS.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> pbs_size("4gb"), pbs_size("100"), pbs_size("1kw")
    (4294967296, 100, 8192)
    """
    found = _PBS_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory of PBS")
    factor: int = 1024 ** ("kmgtp".find(found[2].lower()) + 1 if found[2] else 0)
    return int(found[1]) * factor * (8 if text.lower().endswith("w") else 1)


def sized(text: str) -> int:
    """Return the bytes of a text with a unit, rounded down; -1 where it is none.

    Examples
    --------
    >>> sized("3174 MiB"), sized("2 GB"), sized("2 parsecs")
    (3328180224, 2000000000, -1)
    """
    try:
        value, _ = parse_value(text, SIZE)
    except ValueError:
        return -1
    return int(value) if 0 <= value <= SIZE.most else -1
