"""Words of other schedulers and simulators that users try as keys: the key here, or what to do instead."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Advice", "advice_for"]


class Advice(NamedTuple):
    """What to write in place of a key that scenarios do not have."""

    key: str
    """The key here, dotted; empty where there is none."""
    text: str
    """What to write, or to do without it."""


_GPUS = Advice(
    "platform.nodes.0.resources",
    "write resources: {gpu: 4} in the node group; jobs ask for them by a column request_gpu, or "
    "workload.request.resources: {gpu: 1}",
)
_LICENCES = Advice(
    "platform.shared",
    "write platform.shared: {matlab: 20}; jobs ask for them by a column request_matlab, or "
    "workload.request.shared: {matlab: 1}",
)
_FEATURES = Advice(
    "platform.nodes.0.resources",
    "constraints cannot be written yet; give the node groups a resource of that name with an amount "
    "(resources: {bigmem: 64}), and jobs a column request_bigmem",
)
_PARTITIONS = Advice(
    "",
    "partitions cannot be written yet, every node serves every job; give the node groups a resource per "
    "partition (resources: {debug: 64}) and jobs a column request_debug, or simulate one partition's nodes "
    "and jobs alone",
)
_PREEMPTION = Advice("", "preemption cannot be written yet, a job that has started keeps its nodes")
_QOS = Advice(
    "",
    "classes of service are a column qos of the log, for tables of results; the order of jobs is "
    "batch.policy: fairshare, linear with batch.weights, or a class in a file (./mine.py:Name)",
)
_PRIORITY = Advice(
    "batch.policy",
    "write batch.policy: linear with batch.weights, fairshare, or a class in a file (./mine.py:Name)",
)
_DRAINS = Advice(
    "platform.drains",
    "write platform.drains: [{nodes: 0-7, start: 2 h, end: 4 h, announced: on}]",
)
_LOG = Advice("workload.path", "write workload.path: FILE")
_MEMORY = Advice("platform.nodes.0.memory", "write memory: 257000 MiB in the node group")
_CORES = Advice("platform.nodes.0.cores", "write cores: 64 in the node group")
_LIMIT = Advice(
    "", "walltimes are read from the log; workload.estimates and batch.on_overrun say what they do"
)
_SCHEDULER = Advice("batch.policy", "write batch.policy: FCFS and batch.backfill: easy")
_STORAGE = Advice("platform.shared", "write platform.shared: {burst_buffer: 400 TB, lustre: 2 TB/s}")

_WORDS: dict[Advice, tuple[str, ...]] = {
    _GPUS: ("gpu", "gpus", "gres", "accelerators"),
    _LICENCES: ("license", "licenses", "licence", "licences"),
    _FEATURES: ("feature", "features", "constraint", "constraints"),
    _PARTITIONS: ("partition", "partitions", "queues"),
    _PREEMPTION: ("preempt", "preemption", "preempt_mode", "preempt_type", "preemptmode", "preempttype"),
    _QOS: ("qos", "qoses"),
    _PRIORITY: ("priority", "priorities", "priority_type", "prioritytype", "multifactor"),
    _DRAINS: ("reservation", "reservations", "maintenance", "maintenances", "downtime", "drain"),
    _LOG: ("log", "logs", "file", "swf", "joblog"),
    _MEMORY: ("mem", "ram", "realmemory", "real_memory"),
    _CORES: ("cpu", "cpus", "cores_per_node", "cpus_per_node", "cpuspernode"),
    _LIMIT: ("walltime", "walltimes", "time_limit", "timelimit", "max_time", "maxtime"),
    _SCHEDULER: ("scheduler", "algorithm", "schedulertype", "scheduler_type"),
    _STORAGE: ("burst_buffer", "burst_buffers", "burstbuffer", "filesystem", "storage"),
}
_ADVICE = {word: advice for advice, words in _WORDS.items() for word in words}


def advice_for(word: str) -> Advice | None:
    """Return what to write in place of a key; None where nothing is known of it."""
    return _ADVICE.get(word.casefold().replace("-", "_"))
