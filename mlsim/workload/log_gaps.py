"""Facts that logs lack: the counts of the rules that fill each gap, and the sentence on each of them."""

from collections.abc import Mapping
from typing import Final

IGNORED: Final = "ignored_"  # Prefix of counts: jobs that ask for a resource that the machine lacks

_TABLE = """
estimate_from_run_time | without a walltime | their run time is their estimate, so backfilling is optimistic
walltime_from_scenario | without a walltime | their estimate is workload.walltime
processors_from_allocated | without requested processors | they get as many as on the real machine
processors_from_nodes | without processors | all cores of their nodes
assumed_processors | without processors and nodes | one processor each
unfinished_jobs | had not ended | left out
unknown_run_time | without a run time | workload.cleaning.unknown_run_time
unknown_submit_time | without a submit time | left out
"""
GAPS: Final = {row.split(" | ")[0]: tuple(row.split(" | ")[1:]) for row in _TABLE.strip().splitlines()}
"""Counts of the notes on a workload: the gap of these jobs, and its remedy."""


def gap_sentences(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence on each gap that was counted."""
    found = [
        f"jobs {gap}: {counts[name]:,} ({remedy})" for name, (gap, remedy) in GAPS.items() if counts.get(name)
    ]
    lacking = {name.removeprefix(IGNORED): jobs for name, jobs in counts.items() if name.startswith(IGNORED)}
    return found + [
        f"{name} is requested by {jobs:,} jobs, and the platform has none: ignored"
        for name, jobs in lacking.items()
    ]


def other_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts without a sentence of their own."""
    return {name: jobs for name, jobs in counts.items() if name not in GAPS and not name.startswith(IGNORED)}
