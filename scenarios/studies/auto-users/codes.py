"""Reader of a log whose jobs get applications by their code: each has one kind of loop, drawn by a seed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl

KINDS = ("steady", "noisy", "fine", "sloped")
FINE = ("steady", "fine")  # kinds whose chunks cost a share of an iteration: by classes of the run time
CLASSES = (30.0, 240.0, 1_920.0, 15_360.0)  # [s]; medians below the first are class 0
FIXED = ("STATIC", "GSS", "FAC2", "AF", "SS")
COLUMN = {"user": 11, "group": 12, "executable": 13}  # of a line in SWF, from 0


def read_swf(path: Path) -> np.ndarray:
    """Return the lines of a log in SWF whose jobs ran, one row per job."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = (line.split() for line in text.decode("utf-8", "replace").splitlines() if line[:1] != ";")
    rows = np.array([line[:18] for line in lines if len(line) >= 18], np.float64)
    return rows[rows[:, 3] > 0]


def kinds_of(codes: np.ndarray, run_times: np.ndarray, seed: int) -> np.ndarray:
    """Return the application of each job: a kind drawn by code, and the class of the code's median run time.

    All kinds are equally likely. A code keeps its kind whatever jobs are selected later.
    """
    distinct, place = np.unique(codes, return_inverse=True)
    drawn = np.array([np.random.default_rng([seed, int(code)]).integers(len(KINDS)) for code in distinct])
    order = np.lexsort((run_times, place))
    ends = np.cumsum(np.bincount(place))
    begins = np.concatenate(([0], ends[:-1]))
    medians = run_times[order][begins + (ends - begins - 1) // 2]
    classes = np.searchsorted(CLASSES, medians, side="right")
    names = [
        f"{KINDS[kind]}-{size}" if KINDS[kind] in FINE else KINDS[kind]
        for kind, size in zip(drawn, classes, strict=True)
    ]
    return np.array(names)[place]


def switching(users: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the jobs whose user switches; users of a smaller share switch in a larger one as well."""
    distinct, place = np.unique(users, return_inverse=True)
    drawn = np.array([np.random.default_rng([seed, 1, int(user)]).random() for user in distinct])
    return drawn[place] < share


def read(
    path: Path, seed: int = 1, of: str = "executable", technique: str = "auto", share: float = 1.0
) -> pl.DataFrame:
    """Return the jobs of a log in SWF with their applications.

    ``technique``: of all jobs whose user switches, one of FIXED, or auto, as the scenario configures it; the
    others are rigid: they take their recorded run times, as the assumed STATIC loops do. ``recorded``: all
    jobs are. ``of``: the column that names the code.
    """
    log = read_swf(path)
    codes, users = log[:, COLUMN[of]].astype(np.int64), log[:, COLUMN["user"]].astype(np.int64)
    on = switching(users, share, seed) & (technique != "recorded")
    kinds = kinds_of(codes, log[:, 3], seed)
    jobs = pl.DataFrame(
        {
            "job_id": log[:, 0].astype(np.int64),
            "submit_time": log[:, 1],
            "run_time": log[:, 3],
            # A loop that takes longer than recorded is not killed, so the estimate is at least the record.
            "walltime": np.maximum(np.where(log[:, 8] > 0, log[:, 8], log[:, 3]), log[:, 3]),
            "processors": np.where(log[:, 7] > 0, log[:, 7], log[:, 4]).astype(np.int64),
            "user": users,
            "executable": codes,
            "application": np.where(on, kinds, "rigid").tolist(),
        }
    )
    if technique not in FIXED:
        return jobs
    return jobs.with_columns(technique=pl.when(pl.Series(on)).then(pl.lit(technique)))
