"""Wall-clock times of passes of the dispatcher, by queue length."""

from __future__ import annotations

import numpy as np
import polars as pl

from mlsim._arrays import Ints
from mlsim.record import Passes

__all__ = ["pass_time_by_queue_length"]


def pass_time_by_queue_length(passes: Passes, per_doubling: int = 1) -> pl.DataFrame:
    """Aggregate the wall time of passes by queue length (Galleguillos et al. 2020, Fig. 13).

    Parameters
    ----------
    passes
        Of a run.
    per_doubling
        Into how many parts the lengths between two powers of two are cut.

    Returns
    -------
    polars.DataFrame
        One row a range of queue lengths that some pass met, in order: ``low`` to ``high`` (jobs),
        ``passes``, ``mean``, ``median``, ``p90``, ``p99`` and ``max`` of the wall time (s). The ranges are 0,
        1, 2, 3-4, 5-8 … or parts of them.
    """
    length = passes.queue_length
    edges = _edges(int(length.max(initial=0)), per_doubling)
    places = np.searchsorted(edges, length, side="left")
    frame = pl.DataFrame({"place": places, "seconds": passes.wall_time})
    seconds = pl.col("seconds")
    table = frame.group_by("place").agg(
        pl.len().cast(pl.Int64).alias("passes"),
        seconds.mean().alias("mean"),
        seconds.median().alias("median"),
        seconds.quantile(0.9, "linear").alias("p90"),
        seconds.quantile(0.99, "linear").alias("p99"),
        seconds.max().alias("max"),
    )
    table = table.sort("place")
    found = table["place"].to_numpy()
    low = np.where(found > 0, edges[np.maximum(found, 1) - 1] + 1, 0)
    return table.select(pl.Series("low", low), pl.Series("high", edges[found]), pl.exclude("place"))


def _edges(most: int, per_doubling: int) -> Ints:
    """Return the upper bounds of the ranges of queue length: 0, 1, 2, 4, 8 …, between and up to ``most``."""
    doublings = int(np.ceil(np.log2(max(most, 1)))) + 1
    between = 2.0 ** (np.arange(doublings * per_doubling + 1) / per_doubling)
    return np.unique(np.concatenate([[0], np.floor(between + 1e-9).astype(np.int64)]))
