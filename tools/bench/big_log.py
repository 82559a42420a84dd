"""Make a log of many jobs by repeating one with shifted times, under new job numbers.

Usage: python tools/bench/big_log.py LOG OUT [--jobs 6000000]

The log is read as SWF. Each repetition begins one mean time between arrivals after the last arrival of the
one before. OUT must not exist; its suffix compresses (.gz, .bz2, .xz, .zst).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mlsim.cli.command_output import new_files
from mlsim.workload import Field, read_swf
from mlsim.workload.format_record import compressed_writer
from mlsim.workload.log_fields import header_lines

_ROWS = 16_384


def words(column: np.ndarray) -> list[str]:
    whole = column == np.floor(column)
    return [str(int(v)) if w else repr(v) for v, w in zip(column.tolist(), whole.tolist(), strict=True)]


def make(log: Path, out: Path, jobs: int) -> None:
    header, block = read_swf(log, lenient=True)
    columns = block.columns
    submits = columns[Field.SUBMIT_TIME]
    period = np.ceil((submits.max() - submits.min()) * (1 + 1 / len(block)))
    fixed = {field: words(columns[field]) for field in Field if field is not Field.SUBMIT_TIME}
    header = header | {"MaxJobs": str(jobs), "MaxRecords": str(jobs)}
    with new_files([out]) as (partial,), partial.open("wb") as raw, compressed_writer(out, raw) as file:
        file.write("".join(f"{line}\n" for line in header_lines(header)).encode())
        for repetition in range(-(-jobs // len(block))):
            first = repetition * len(block)
            arrivals = words(submits + repetition * period)
            for at in range(0, min(len(block), jobs - first), _ROWS):
                rows = slice(at, min(at + _ROWS, len(block), jobs - first))
                numbers = [str(number) for number in range(first + rows.start + 1, first + rows.stop + 1)]
                table = [fixed[field][rows] if field in fixed else arrivals[rows] for field in Field]
                table[Field.JOB_ID] = numbers
                file.write("".join(f"{' '.join(row)}\n" for row in zip(*table, strict=True)).encode())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, metavar="LOG")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--jobs", type=int, default=6_000_000, metavar="N")
    given = parser.parse_args()
    make(given.log, given.out, given.jobs)


if __name__ == "__main__":
    main()
