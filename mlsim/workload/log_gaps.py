"""Facts that logs lack: the counts of the rules that fill each gap, and the sentence on each of them."""

from collections.abc import Mapping
from typing import Any, Final

IGNORED: Final = "ignored_"  # Prefix of counts: jobs that ask for a resource that the machine lacks

_TABLE = """
estimate_from_run_time | without a walltime | their run time is their estimate, so backfilling is optimistic
walltime_from_scenario | without a walltime | their estimate is workload.estimates
processors_from_allocated | without requested processors | they get as many as on the real machine
processors_from_nodes | without processors | all cores of their nodes
assumed_processors | without processors and nodes | one processor each
unfinished_jobs | had not ended | left out
unknown_run_time | without a run time | workload.cleaning.unknown_run_time
unknown_submit_time | without a submit time | left out
requeued_attempts | returned to the queue | each attempt is a job; workload.requeued: join makes them one
joined_attempts | returned to the queue | one job, of the first submission and the last attempt
repeated_records | recorded again | left out
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


_WANTED = """
walltime | backfilling as on the machine | walltimes
user | fair shares, and results by user | users
recorded_start | recorded beside simulated waits | starts
request_memory | limits by memory | request_memory
request_gpu | limits by GPUs | request_gpu
partition, queue | results by partition or queue | partitions or queues
dates | calendar dates | dates, or UnixStartTime in the header
processors | the offered load | processors of the machine (MaxProcs)
"""


def understood_lines(facts: Mapping[str, Any]) -> list[str]:
    """Return lines on the way in which a log was read, of the facts on it."""
    of = facts["understood"]
    lines = [f"{facts['log']}: {of['format']}"]
    sources = ", ".join(
        name if name == source else f"{name} ({source})" for name, source in of["columns"].items()
    )
    lines += [f"  read: {sources}"] if sources else []
    lines += [f"  ignored: {', '.join(of['ignored'])}"] if of["ignored"] else []
    out = [f"{name.replace('_', ' ')} {n:,}" for name, n in of["left_out"].items()]
    lines.append("; ".join([f"  rows: {facts['jobs']:,} jobs", *out]))
    if facts["first_submission"] is not None:
        zone = facts["time_zone"] if of["zone_known"] else "none in the log, read as UTC"
        lines.append(f"  time zone: {zone}")
    return lines + ([f"  units: {of['units']}"] if of["units"] else [])


def missing_facts(known: Mapping[str, int], jobs: int) -> list[str]:
    """Return what would have to be added for which question; ``known``: how many jobs have each fact."""
    lines = []
    for row in _WANTED.strip().splitlines():
        facts, question, wanted = row.split(" | ")
        least = max(known.get(fact, 0) for fact in facts.split(", "))
        if least < jobs:
            how_many = "" if not least else f" ({jobs - least:,} of {jobs:,} jobs have none)"
            lines.append(f"{question}: {wanted}{how_many}")
    return lines


def other_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts without a sentence of their own."""
    return {name: jobs for name, jobs in counts.items() if name not in GAPS and not name.startswith(IGNORED)}
