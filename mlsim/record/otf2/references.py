"""The numbers under which events refer to definitions.

Small numbers take fewer bytes in an event, so the commonest regions and attributes come first.
"""

from __future__ import annotations

from typing import Literal

from mlsim.record.codes import MessageKind

__all__ = [
    "BATCH_LOCATION",
    "CALCULATION_REGION",
    "CHUNKS",
    "CHUNK_REGION",
    "CHUNK_REPLY",
    "CHUNK_REQUEST",
    "CHUNK_WINDOW",
    "COMMUNICATOR",
    "DISPATCHER_REGION",
    "FETCH_AND_ADD",
    "FETCH_AND_INCREMENT",
    "FIRST_ITERATION",
    "FIRST_ROW",
    "FIXED_STRINGS",
    "FOR_JOB",
    "ITERATIONS",
    "JOB_ID",
    "KIND_STRING",
    "MESSAGE",
    "METRIC_CLASS",
    "METRIC_LOCATION",
    "NESTED_REGIONS",
    "NODES",
    "PE_TIME",
    "REMAINING_ITERATIONS",
    "REMAINING_WORK",
    "REQUEST_REGION",
    "SEVERAL_JOBS",
    "STEP",
    "TECHNIQUE",
    "TECHNIQUE_STRING",
    "WAIT_REGION",
    "Level",
    "Rows",
    "fixed_strings",
    "nested_regions",
]

# Locations: the dispatcher, the metrics of the batch system, then the rows of the nodes in order. Readers
# expect that metrics which stand alone are on a location that is for nothing else.
BATCH_LOCATION = 0
METRIC_LOCATION = 1
FIRST_ROW = 2

Level = Literal["jobs", "nodes", "chunks", "messages"]
Rows = Literal["auto", "cores", "nodes"]

# Regions: those that a level nests in jobs, and that of the batch system, then one for each job that started.
# Numbers have no gaps, which readers would complain of.
NESTED_REGIONS: dict[Level, tuple[str, ...]] = {
    "jobs": (),
    "nodes": ("idle",),
    "chunks": ("chunk", "idle"),
    "messages": ("chunk", "idle", "chunk calculation", "request", "wait", "dispatcher"),
}
CHUNK_REGION = NESTED_REGIONS["chunks"].index("chunk")
CALCULATION_REGION = NESTED_REGIONS["messages"].index("chunk calculation")
REQUEST_REGION = NESTED_REGIONS["messages"].index("request")
DISPATCHER_REGION = NESTED_REGIONS["messages"].index("dispatcher")
WAIT_REGION = NESTED_REGIONS["messages"].index("wait")


def nested_regions(level: Level, *, merged: bool) -> tuple[str, ...]:
    """Return the names of the regions before those of jobs, by number."""
    if not merged:
        return NESTED_REGIONS[level]
    return (*("chunks" if name == "chunk" else name for name in NESTED_REGIONS[level]), SEVERAL_JOBS)


SEVERAL_JOBS = "several jobs"
"""The last of them where a row shows several cores."""

METRIC_CLASS = 0
COMMUNICATOR = 0
CHUNK_WINDOW = 0
# What atomics do, in OTF2's numbers.
FETCH_AND_ADD = 5
FETCH_AND_INCREMENT = 6

# Attributes of events.
ITERATIONS = 0
FIRST_ITERATION = 1
STEP = 2
JOB_ID = 3
TECHNIQUE = 4
MESSAGE = 5
REMAINING_ITERATIONS = 6
REMAINING_WORK = 7
NODES = 8
FOR_JOB = 9
# Of merged rows alone.
CHUNKS = 10
PE_TIME = 11

# Strings that events refer to; string 0 is empty, as the format advises.
TECHNIQUE_STRING = 1
KIND_STRING = 2
# Messages inside of loops come after the kinds of coordination messages.
CHUNK_REQUEST = len(MessageKind)
CHUNK_REPLY = CHUNK_REQUEST + 1
_KINDS = (*(kind.name.lower().replace("_", " ") for kind in MessageKind), "chunk request", "chunk reply")
FIXED_STRINGS = KIND_STRING + len(_KINDS)


def fixed_strings(technique: str) -> list[str]:
    """List the strings that have fixed numbers, from 0 on.

    >>> fixed_strings("GSS")[:4]
    ['', 'GSS', 'node idle', 'job completed']
    """
    return ["", technique, *_KINDS]
