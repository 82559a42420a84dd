"""The run directory of a real loop: what ``mlsim run`` leaves, so that the same tools read it."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from mlsim._arrays import Ints
from mlsim.experiment.directories import complete_or_gone
from mlsim.experiment.machines import REFERENCE_SPEED
from mlsim.experiment.result import Result
from mlsim.experiment.rundir import write_files, write_json
from mlsim.mpi.loop.breaks import typical_break_after
from mlsim.mpi.loop.options import LoopOptions
from mlsim.mpi.loop.requests import Requests
from mlsim.record import Records
from mlsim.record.ranks import RankRequests, Ranks
from mlsim.scenario import Scenario, from_mapping

__all__ = ["scenario_of", "write_run"]


def write_run(
    directory: Path,
    records: Records,
    requests: Requests | None,
    ranks: Ints,
    options: LoopOptions,
    name: str,
) -> None:
    """Write tables, summary, pictures and an OTF2 trace.

    Parameters
    ----------
    directory
        Should not exist: if it does, it is left as it is, and the results get a name beside it.
    records
        Of :func:`gather_records`.
    requests
        Of :func:`gather_requests`.
    ranks
        The rank of each PE, of :func:`ranks_of_pes`.
    options, name
        Of the loop.

    Raises
    ------
    OutputError
        If the directory exists, or not all can be written; the message says what was kept, and where.
    """
    from mlsim.analysis import loop_facts, summarize
    from mlsim.analysis.plots import chunk_curve, draw_chunk_sizes, draw_pes

    scenario = scenario_of(records, options, name)
    summary = summarize(records, scenario=name, seed=options.seed, technique=options.technique)
    summary["loop"] = loop_facts(records, options.technique, options.model)
    summary["mpi"] = {"library": MPI.Get_library_version().split("\n")[0].strip("\0 "), "real": True}
    if requests is not None:
        summary["mpi"]["requests"] = _facts(requests)
    with complete_or_gone(directory, done=True) as place:
        if requests is not None:
            _write_requests(place.partial / "requests.parquet", requests)
        shown = Ranks(ranks, None if requests is None else _shown(requests))
        write_files(place, place.partial, Result(scenario, summary, records), ranks=shown)
        if len(records.chunks.job):
            title = f"{name}: {options.technique} {options.model}"
            with place.extra(place.partial / "pes.png") as path:
                draw_pes(path, records, title)
            with place.extra(place.partial / "chunk-sizes.png") as path:
                draw_chunk_sizes(path, [chunk_curve(records.chunks, title)], title)
        write_json(place.partial / "versions.json", _versions())


def _shown(requests: Requests) -> RankRequests:
    times = requests.sent, requests.received, requests.answered
    return RankRequests(requests.pe, *times, requests.request_bytes, requests.reply_bytes)


def _facts(requests: Requests) -> dict[str, int | float]:
    waits = requests.answered - requests.sent
    return {
        "count": len(waits),
        "most_master_iterations": int(requests.master_iterations.max(initial=0)),
        "longest_wait": float(waits.max(initial=0.0)),
    }


def _write_requests(path: Path, requests: Requests) -> None:
    import polars as pl

    pl.DataFrame(
        {
            "pe": requests.pe,
            "sent_time": requests.sent,
            "received_time": requests.received,
            "answered_time": requests.answered,
            "master_iterations": requests.master_iterations,
        }
    ).write_parquet(path, compression="zstd")


def _versions() -> dict[str, str]:
    import mpi4py

    from mlsim.experiment.rundir import versions

    return {**versions(), "mpi4py": mpi4py.__version__}


def scenario_of(records: Records, options: LoopOptions, name: str) -> Scenario:
    """Describe a real loop as a scenario, its iterations costing their measured mean each."""
    busy = float(records.loops.busy[0])
    execution: dict[str, Any] = {
        "model": options.model,
        "injected_delay": options.injected_delay,
        "first_chunk": options.first_chunk,
        "pieces": options.pieces,
        "global_p": options.global_p,
    }
    if options.has_master:
        execution |= {
            "master": options.master,
            "break_after": options.break_after or typical_break_after(busy / max(options.n, 1)),
            "service_order": options.service_order,
            "request_ahead": options.request_ahead,
        }
    given = {
        "sigma": options.sigma,
        "mu": options.mu,
        "overhead": options.h,
        "batches": options.batches,
        "weights": None if options.weights is None else list(map(float, options.weights)),
    }
    return from_mapping(
        {
            "name": name,
            "seed": options.seed,
            "platform": {"nodes": _groups(records), "reference_speed": REFERENCE_SPEED},
            "workload": {"path": "mpi", "mapping": "core"},
            "application": {
                "model": "loop",
                "technique": options.technique,
                "min_chunk": options.min_chunk,
                "iterations": {"count": max(options.n, 1)},
                "costs": {"profile": "constant", "mean": busy / max(options.n, 1)},
                "execution": execution,
                "parameters": {
                    "alpha": options.alpha,
                    "swr": options.swr,
                    "growth": options.growth,
                    "awf_chunk": options.awf_chunk,
                    "random_from": options.random_from,
                    "random_to": options.random_to,
                    "compat": options.compat,
                    **{key: value for key, value in given.items() if value is not None},
                },
            },
            "output": {"trace": "chunks" if options.request_ahead else "messages"},
        },
        name,
    )


def _groups(records: Records) -> list[dict[str, Any]]:
    """Return the nodes as node groups of equal numbers of ranks."""
    cores = np.asarray(records.nodes.cores).tolist()
    return [
        {"name": f"group{row}-", "count": len(list(same)), "cores": size, "speed": REFERENCE_SPEED}
        for row, (size, same) in enumerate(groupby(cores))
    ]
