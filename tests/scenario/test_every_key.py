"""No key is accepted and ignored: each one changes what a run gives, or is refused, or it is said why not.

``CASES`` has one line a key: what is set beside it, and a value that is not its default. A new key fails
``test_every_key_has_a_case`` until it has its line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.record import Records
from mlsim.scenario import from_mapping
from mlsim.scenario.scenario_keys import model_parameters, options

# Small, and odd in every way that cleaning knows: processors, times, memory (KB a processor), status, user.
SWF = """\
; UnixStartTime: 1000000000
; TimeZoneString: UTC
; MaxProcs: 8
1 0 -1 100 4 -1 1000 4 120 3000 1 1 1 1 1 1 -1 -1
2 0 -1 50 2 -1 1000 2 200 3000 1 2 1 2 2 1 -1 -1
3 5 -1 300 8 -1 500 8 300 700 1 1 1 1 1 1 -1 -1
4 10 -1 20 1 -1 -1 1 30 -1 1 2 2 2 2 1 -1 -1
5 12 -1 0 1 -1 -1 1 60 -1 1 3 2 1 1 1 -1 -1
6 15 -1 -1 1 -1 -1 1 100 -1 1 3 2 1 2 1 -1 -1
7 20 -1 40 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1
8 25 -1 30 16 -1 -1 16 60 -1 1 4 3 3 1 1 -1 -1
9 30 -1 60 2 -1 -1 2 60 -1 5 4 3 3 2 1 -1 -1
10 35 -1 60 2 -1 -1 2 80 -1 0 1 1 1 1 1 9 40
11 40 -1 10 -1 -1 -1 -1 50 -1 1 2 1 2 1 1 -1 -1
12 50 -1 400 3 -1 -1 3 3000 -1 1 2 1 2 2 1 -1 -1
13 60 -1 30 6 -1 -1 6 90 -1 1 1 1 1 1 1 -1 -1
14 61 -1 30 1 -1 -1 1 35 -1 1 1 1 1 2 1 -1 -1
15 62 -1 200 2 -1 -1 2 250 -1 1 3 2 1 1 1 -1 -1
16 300 0 10 1 -1 -1 1 20 -1 1 3 2 1 1 1 1 5
17 604790 5 100 5 -1 -1 5 900 -1 1 1 1 1 1 1 -1 -1
18 604800 5 50 5 -1 -1 5 800 -1 1 2 1 1 1 1 -1 -1
19 604801 5 20 3 -1 -1 3 40 -1 1 2 1 1 1 1 -1 -1
"""
# Two weeks of jobs that are short or long, whoever their users are.
CLASSES_SWF = "; UnixStartTime: 1000000000\n; MaxProcs: 8\n" + "".join(
    f"{k + 1} {k * 9000} 0 {run} 3 -1 -1 3 30000 -1 1 {1 + k % 3} 1 1 1 1 -1 -1\n"
    for k, run in enumerate(30 + 7 * k if k * k % 17 < 7 else 20_000 + 50 * k for k in range(130))
)
FILES = {
    "classes.swf": CLASSES_SWF,
    "log.swf": SWF,
    "never.swf": SWF + "20 604802 10 0 1 -1 -1 1 60 -1 5 2 1 2 1 1 -1 -1\n",
    "broken.swf": SWF + "20 604900 -1 ten\n",
    "other.swf": "\n".join(SWF.splitlines()[:9]) + "\n",
    "log.csv": "job_id,submit_time,run_time,walltime,processors\n1,0,10,20,4\n2,1,10,20,8\n",
    "own.csv": "job_id,submit_time,run_time,walltime,processors,weight\n1,0,10,20,4,3\n2,1,10,20,8,5\n",
    "asking.csv": "job_id,submit_time,run_time,processors,request_gpu\n1,0,10,4,1\n2,1,10,8,0\n",
    "again.txt": "JobID|Submit|Start|ElapsedRaw|TimelimitRaw|ReqCPUS|State\n7|1000|1010|30|2|4|NODE_FAIL\n"
    "7|1040|1045|60|2|4|COMPLETED\n8|1005|1050|20|1|4|COMPLETED\n",
    "warm.py": """
from mlsim.batch.view import Start, Wake

class Cool:
    def update(self, view):
        return {"cool": view.now > 3.0}

class Waits:
    def dispatch(self, view):
        if not view.data.get("cool", True):
            return [Wake(view.now + 1.0)]
        free = int(view.free[:, 0].sum())
        first = view.waiting
        return [Start(0)] if len(first) and first.units[0] * max(first.request[0, 0], 1) <= free else []
""",
    "writer.py": "def write(result, directory):\n    (directory / 'a.txt').write_text('a')\n",
    "costs.csv": "0.1\n0.2\n0.3\n0.1\n0.4\n0.2\n",
    "more.csv": "0.3\n0.1\n0.5\n",
    "table.csv": "cost,work\n0.3,0.1\n0.1,0.7\n0.5,0.2\n",
    "steps.csv": "job_id,time,power\n1,0,150\n1,50,120\n",
    "other_steps.csv": "job_id,time,power,period\n1,0,150,60\n1,50,120,60\n",
    "links.csv": "from,to,latency\nn0,s,1 ms\nn1,s,2 ms\nn2,s,3 ms\nn3,s,4 ms\n",
}
BASE: dict[str, Any] = {
    "platform": {"nodes": [{"name": "n", "count": 4, "cores": 2}]},
    "workload": {"path": "log.swf", "mapping": "core"},
}

Keys = Mapping[str, object]


class Case(NamedTuple):
    """What is set beside a key, the value it gets, and how it shows."""

    beside: Keys
    value: object
    shows: str = "results"


def files(beside: Keys, value: object) -> Case:
    """It shows in the files of a run alone."""
    return Case(beside, value, "files")


def refused(beside: Keys, value: object) -> Case:
    """The run that it is set for is refused, or is without it."""
    return Case(beside, value, "refusal")


GROUPS = [{"name": "a", "count": 2, "cores": 2}, {"name": "b", "count": 2, "cores": 2}]
SCARCE: Mapping[str, object] = {
    "platform.nodes": [GROUPS[0] | {"resources": {"gpu": 1}}, GROUPS[1]],
    "batch.allocator": "demand-aware",
}
FAST = [GROUPS[0] | {"speed": "1 GFLOP/s"}, GROUPS[1] | {"speed": "2 GFLOP/s"}]
POWERED = [BASE["platform"]["nodes"][0] | {"power": {"idle": 100, "busy": 200}}]
PLAIN: Keys = {"output.pictures": False}
NARROW: Keys = {"platform.nodes.0.count": 2, "workload.cleaning.oversize": "clamp"}
EASY: Keys = {"batch.backfill": "easy"}
PACKED: Keys = {"workload.mapping": "packed"}
SEVERAL: Keys = {
    **PACKED,
    "applications": {"a": {"model": "loop", "costs": {"variation": 0.3}}, "b": {"model": "rigid"}},
    "assign": [{"where": {"processors": ">= 3"}, "application": "a"}, {"default": "b"}],
}
LOOP: Keys = {
    **PACKED,
    "application.model": "loop",
    "application.iterations.count": 40,
    "application.costs": {"profile": "exponential", "mean": "1 s"},
    "application.technique": "GSS",
    "batch.on_overrun": "extend",
    "output.trace": "chunks",
}
RIGID_COSTS: Keys = LOOP | {"application.costs": {"profile": "job"}}
RECORDED: Keys = {
    "application.costs": {"profile": "exponential", "mean": "1 s", "calibrate": "recorded"},
    "workload.cleaning.zero_run_time": "drop",
}
CCA: Keys = LOOP | {"application.execution.model": "cca"}
HDCA: Keys = LOOP | {"application.execution.model": "hdca", "application.technique": "GSS+SS"}
OPENMP: Keys = LOOP | {"application.execution.model": "mpi+openmp", "application.technique": "GSS+SS"}
ADAPTIVE: Keys = LOOP | {"application.technique": "AF"}
RCA: Keys = LOOP | {"coordination.rca": True, "application.technique": "STATIC"}
ASKING: Keys = RCA | {"coordination.requests": "head-of-queue"}
TOLERANT: Keys = ASKING | {"coordination.answer": "tolerance", "application.technique": "SS"}
FAT = {"topology": "fat-tree", "ports": 4}
FLY = {"topology": "dragonfly", "groups": 2, "routers": 2, "nodes_per_router": 1}
FROM_FIRST: Keys = {"workload.weeks.begin": "first-job"}
LINKS = [{"from": "n0", "to": "n1"}, *({"from": f"n{node}", "to": "s"} for node in range(4))]
EDGES = {"topology": "edge-list", "edges": LINKS}
MEMORY: Keys = {"platform.nodes.0.memory": "5 MB", "workload.request.memory": "requested"}
PERTURBED: Keys = LOOP | {"platform.perturbations": [{"factor": 0.5, "to": "60 s"}]}
POISSON: Keys = {
    "workload.path": None,
    "workload.generate": {"model": "poisson", "jobs": 40, "parameters": {"interval": 20, "run_time": 60}},
}
LUBLIN: Keys = {
    "workload.path": None,
    "workload.generate": {"model": "lublin", "jobs": 40},
    "platform.nodes.0.count": 16,
}
POPULAR: Keys = POISSON | {"workload.generate.jobs": 500, "workload.generate.estimates": "tsafrir"}
RANDOMLY: Keys = LOOP | {
    "platform.perturbations": [{"factor": 0.5, "mean_time_between": "20 s", "mean_duration": "10 s"}]
}
FAILING: Keys = {"platform.failures": [{"node": 0, "at": 30, "repair": 10}]}
FAILING_AT_RANDOM: Keys = {"platform.random_failures": [{"mtbf": "1000 s", "mttr": "20 s"}]}
DRAINED: Keys = {"platform.drains": [{"nodes": "0", "start": 5, "end": 100}]}
ANNOUNCED: Keys = {"platform.drains": [{"nodes": "0-3", "start": 30, "end": 100, "announced": True}]}
FEEDBACK: Keys = {"workload.dependencies": True}
CONSERVATIVE: Keys = {"batch.backfill": "conservative"}
MANDELBROT: Keys = LOOP | {
    "application.iterations": None,
    "application.iterations.count": None,
    "application.costs": {"profile": "mandelbrot", "size": 8, "limit": 50, "unit_cost": "10 ms"},
}
PSIA: Keys = LOOP | {
    "application.costs": {"profile": "psia", "points": 60, "bin_size": 0.3, "unit_cost": "10 ms"}
}
RESAMPLED: Keys = {"workload.path": "classes.swf", "workload.resample": {"weeks": 4}}
CLASSES: Keys = {"workload.path": "classes.swf", "batch.backfill": "easy", "batch.classifier": {}}
HCP: Keys = {"batch.dispatcher": "hcp19", "batch.cp": {"time_limit": "10 ms", "time_limit_max": "10 ms"}}
CP: Keys = {"batch.dispatcher": "cp"}
OLD: Keys = {"batch.dispatcher": "hcp1", "batch.cp": {"time_limit": "10 ms", "time_limit_max": "10 ms"}}


def costs(profile: str, **keys: object) -> Keys:
    """Give a loop with another profile."""
    return LOOP | {"application.costs": {"profile": profile, **keys}}


def technique(name: str, **parameters: object) -> Keys:
    """Give a loop with another technique."""
    return LOOP | {"application.technique": name, "application.parameters": parameters or None}


def chosen(method: str, **keys: object) -> Keys:
    """Give a loop whose techniques are chosen anew in each of many time steps."""
    selection = {"method": method, "portfolio": ["STATIC", "FAC2", "SS"], **keys}
    uneven = {"profile": "decreasing", "high": "2 s", "low": "0.1 s"}
    return LOOP | {
        "application.technique": "auto",
        "application.time_steps": 80,
        "application.costs": uneven,
        "application.selection": selection,
        "application.execution.atomic_service": "50 ms",
    }


LEARNED = chosen("rl", portfolio=["GSS", "FAC2", "TSS", "mFSC"], exploration=0.5)


def linear(**weights: float) -> Keys:
    """Give policy linear with weights."""
    return EASY | {"batch.policy": "linear", "batch.weights": weights}


CASES: dict[str, Case] = {
    "name": files(PLAIN, "other"),
    "description": files(PLAIN, "what it shows"),
    "seed": Case({"batch.allocator": "random"}, 7),
    "platform.nodes.N.name": Case({}, "m"),
    "platform.nodes.N.count": Case({}, 5),
    "platform.nodes.N.cores": Case({}, 3),
    "platform.nodes.N.node_speed": Case(LOOP | {"platform.reference_speed": 1e9}, "4 GFLOP/s"),
    "platform.nodes.N.speed": Case(LOOP | {"platform.reference_speed": 1e9}, "4 GFLOP/s"),
    "platform.nodes.N.memory": Case(MEMORY, "8 MB"),
    "platform.nodes.N.resources": Case(
        {"platform.nodes.0.resources": {"gpu": 2}, "workload.request.resources": {"gpu": 1}}, {"gpu": 1}
    ),
    "platform.shared": Case(
        {"platform.shared": {"matlab": 9}, "workload.request.shared": {"matlab": 1}}, {"matlab": 1}
    ),
    "platform.nodes.N.power.idle": Case({"platform.nodes": POWERED}, 50),
    "platform.nodes.N.power.busy": Case({"platform.nodes": POWERED}, 300),
    "platform.nodes.N.power.off": Case({"platform.nodes": POWERED, **FAILING}, 10),
    "platform.network.topology": Case(LOOP | {"platform.network.latency": "1 ms"}, "star"),
    "platform.network.bandwidth": Case(LOOP | {"application.execution.message_size": "1 MB"}, "1 Gbit/s"),
    "platform.network.latency": Case(LOOP, "1 ms"),
    "platform.network.intra_node_latency": Case(LOOP, "1 ms"),
    "platform.network.ports": Case(LOOP | {"platform.network": FAT}, 6),
    "platform.network.groups": Case(LOOP | {"platform.network": FLY}, 4),
    "platform.network.routers": Case(LOOP | {"platform.network": FLY}, 4),
    "platform.network.nodes_per_router": Case(LOOP | {"platform.network": FLY}, 2),
    "platform.network.dimensions": Case(
        LOOP | {"platform.network": {"topology": "torus", "dimensions": "4"}}, "2x2"
    ),
    "platform.network.edges.N.from": Case(LOOP | {"platform.network": EDGES}, "n2"),
    "platform.network.edges.N.to": Case(LOOP | {"platform.network": EDGES}, "n3"),
    "platform.network.edges.N.latency": Case(LOOP | {"platform.network": EDGES}, "5 ms"),
    "platform.network.edges.N.bandwidth": Case(
        LOOP | {"platform.network": EDGES, "application.execution.message_size": "1 MB"}, "1 Mbit/s"
    ),
    "platform.network.path": Case(
        LOOP | {"platform.network": {"topology": "edge-list", "path": "links.csv"}}, "others.csv"
    ),
    "platform.reference_speed": Case(LOOP, "2 GFLOP/s"),
    "platform.perturbations.N.nodes": Case(PERTURBED, "0"),
    "platform.perturbations.N.from": Case(PERTURBED, "10 s"),
    "platform.perturbations.N.to": Case(PERTURBED, "30 s"),
    "platform.perturbations.N.factor": Case(PERTURBED, 0.25),
    "platform.perturbations.N.mean_time_between": Case(RANDOMLY, "60 s"),
    "platform.perturbations.N.mean_duration": Case(RANDOMLY, "60 s"),
    "platform.failures.N.node": Case(FAILING, 3),
    "platform.failures.N.at": Case(FAILING, 50),
    "platform.failures.N.repair": Case(FAILING, 60),
    "platform.random_failures.N.nodes": Case(FAILING_AT_RANDOM, "0"),
    "platform.random_failures.N.mtbf": Case(FAILING_AT_RANDOM, "500 s"),
    "platform.random_failures.N.mttr": Case(FAILING_AT_RANDOM, "60 s"),
    "platform.random_failures.N.shape": Case(FAILING_AT_RANDOM, 0.5),
    "platform.drains.N.nodes": Case(DRAINED, "3"),
    "platform.drains.N.start": Case(DRAINED, 20),
    "platform.drains.N.end": Case(DRAINED, 300),
    "platform.drains.N.announced": Case(DRAINED, True),
    "platform.drains.N.announced_at": Case(ANNOUNCED, 20),
    "workload.path": Case({}, "other.swf"),
    "workload.power.path": Case(
        {"platform.nodes": POWERED, "workload.power.path": "steps.csv"}, "other_steps.csv"
    ),
    "workload.resample.weeks": Case(RESAMPLED, 2),
    "workload.resample.by": Case(RESAMPLED, "week"),
    "workload.resample.seed": Case(RESAMPLED, 7),
    "workload.generate.model": Case(POISSON, "weibull"),
    "workload.generate.jobs": Case(POISSON, 30),
    "workload.generate.duration": Case(POISSON, "300 s"),
    "workload.generate.seed": Case(POISSON, 7),
    "workload.generate.processors": Case(POISSON, 4),
    "workload.generate.load": Case(POISSON, 0.3),
    "workload.generate.kinds": Case(LUBLIN, "batch"),
    "workload.generate.parameters": Case(POISSON, {"run_time": 500}),
    "workload.generate.estimates": Case(POISSON, [2, 5]),
    "workload.generate.max_estimate": Case(POPULAR, "4 h"),
    "workload.format": refused({}, "csv"),
    "workload.columns": Case({"workload.path": "own.csv"}, ["weight"]),
    "workload.lenient": refused({"workload.path": "broken.swf"}, True),
    "workload.strict": refused({"workload.path": "asking.csv"}, True),
    "workload.requeued": Case({"workload.path": "again.txt"}, "join"),
    "workload.mapping": Case({}, "packed"),
    "workload.never_ran": Case({"workload.path": "never.swf"}, "withdraw"),
    "workload.dependencies": Case({}, True),
    "workload.feedback": Case(FEEDBACK, True),
    "workload.request.cores": Case({}, 2),
    "workload.request.memory": Case(MEMORY, "used"),
    "workload.request.default_memory": Case(MEMORY, "5 MB"),
    "workload.request.shared": Case({"platform.shared": {"matlab": 1}}, {"matlab": 1}),
    "workload.request.resources": Case({"platform.nodes.0.resources": {"gpu": 1}}, {"gpu": 1}),
    "workload.select.warm_up": Case({}, "11 s"),
    "workload.select.window.start": Case({"workload.select.window": {"start": 0, "end": 100}}, 10),
    "workload.select.window.end": Case({"workload.select.window": {"start": 0, "end": 100}}, 30),
    "workload.select.weeks": Case({}, 2),
    "workload.weeks.by": Case(FROM_FIRST | {"workload.weeks.phase": "604792 s"}, "start"),
    "workload.weeks.begin": Case({"workload.weeks.phase": "1 s"}, "first-job"),
    "workload.weeks.zone": Case({"workload.weeks.phase": "524810 s"}, "Europe/Paris"),
    "workload.weeks.phase": Case(FROM_FIRST, "1 min"),
    "workload.weeks.crossing": Case(FROM_FIRST, "remove"),
    "workload.select.dates.start": Case({"workload.select.dates.end": "2001-09-30"}, "2001-09-10"),
    "workload.select.dates.end": Case({"workload.select.dates.start": "2001-09-01"}, "2001-09-10"),
    "workload.select.most_intensive": Case({}, "30 s"),
    "workload.select.week_crossers": Case({}, "drop"),
    "workload.select.user": Case({}, 2),
    "workload.select.first": Case({}, 5),
    "workload.select.scale_load": Case({}, 2),
    "workload.estimates": Case({"batch.policy": "SPF"}, "actual"),
    "workload.cleaning.zero_run_time": Case({}, "clamp"),
    "workload.cleaning.unknown_run_time": Case({}, "clamp"),
    "workload.cleaning.cancelled": Case({}, "drop"),
    "workload.cleaning.failed": Case({}, "drop"),
    "workload.cleaning.no_processors": Case({}, "clamp"),
    "workload.cleaning.oversize": Case({}, "clamp"),
    "workload.cleaning.underestimate": Case({}, "clamp"),
    "batch.dispatcher": Case({}, "prb"),
    "batch.cp.time_limit": Case(HCP, "1 ns"),
    "batch.cp.time_limit_max": Case(HCP, "1 s"),
    "batch.cp.extensions": Case(HCP, 1),
    "batch.cp.deterministic": Case(HCP, False),
    "batch.cp.workers": Case(HCP | {"batch.cp.deterministic": False}, 2),
    "batch.cp.jobs": Case(HCP, 1),
    "batch.cp.ewt": Case(OLD, {"1": 1}),
    "batch.cp.default_ewt": Case(OLD, "1 s"),
    "batch.cp.goal": Case(CP, "wait"),
    "batch.cp.by_size": Case(CP, True),
    "batch.cp.headroom": Case(CP, 0.5),
    "batch.cp.reserve": Case(CP, 1),
    "batch.cp.patience": Case(CP, "10 s"),
    "batch.cp.solve_jobs": Case(CP, 0),
    "batch.policy": Case({}, "SPF"),
    "batch.weights.q": Case(linear(p=1), 100),
    "batch.weights.p": Case(linear(q=1), 100),
    "batch.weights.wait": Case(linear(q=1), 100),
    "batch.weights.ratio": Case(linear(wait=1), 100),
    "batch.weights.exp": Case(linear(q=1), 100),
    "batch.weights.area": Case(linear(wait=1), 100),
    "batch.fairshare.by": Case({"batch.policy": "fairshare"}, "group"),
    "batch.fairshare.half_life": Case(NARROW | {"batch.policy": "fairshare"}, "1 s"),
    "batch.threshold": Case({"batch.policy": "SPF"}, "30 s"),
    "batch.backfill": Case({}, "easy"),
    "batch.backfill_order": Case(EASY, "LPF"),
    "batch.reservations": Case(NARROW | EASY, 3),
    "batch.easy": Case(EASY, "accasim"),
    "batch.compression": Case(CONSERVATIVE, "one-round"),
    "batch.ties": Case(EASY, "per-event"),
    "batch.allocator": Case({}, "worst-fit"),
    "batch.data": Case({"batch.dispatcher": "warm.py:Waits"}, "warm.py:Cool"),
    "batch.reserve": Case(SCARCE | {"batch.demand": {"gpu": 1}}, 1),
    "batch.demand": Case(SCARCE | {"batch.reserve": 1}, {"gpu": 1}),
    "batch.contiguity": Case({"batch.policy": "SAF", "batch.allocator": "contiguous"}, "strict"),
    "batch.on_overrun": Case({}, "extend"),
    "batch.predictor": Case({"batch.policy": "SPF"}, "L2"),
    "batch.quantile": Case(
        {"workload.path": "classes.swf", "batch.policy": "SPF", "batch.predictor": "forest-quantile"}, 0.9
    ),
    "batch.classifier.by": Case(CLASSES, "actual"),
    "batch.classifier.trees": Case(CLASSES, 1),
    "batch.classifier.safeguard": Case(CLASSES, False),
    "batch.pass_interval": Case({}, "7 s"),
    "batch.backfill_interval": Case(EASY, "40 s"),
    "batch.deadline_factor": Case({"batch.policy": "EDF"}, 0.1),
    "batch.count_dispatch_time": Case({}, True),
    "batch.power_cap": Case({"platform.nodes": POWERED}, "500 W"),
    "batch.on_failure": Case(FAILING, "restart"),
    "batch.max_restarts": Case(FAILING | {"batch.on_failure": "restart"}, 0),
    "batch.checkpoint": Case(FAILING | {"batch.on_failure": "resume"}, "20 s"),
    "application.model": Case(PACKED, "loop"),
    "application.costs.profile": Case(LOOP, "constant"),
    "application.costs.variation": Case(RIGID_COSTS, 0.5),
    "application.costs.mean": Case(LOOP, "2 s"),
    "application.costs.std": Case(costs("normal", mean="1 s", std="0.1 s"), "0.3 s"),
    "application.costs.low": Case(costs("uniform", high="1 s"), "0.5 s"),
    "application.costs.high": Case(costs("uniform", high="1 s"), "2 s"),
    "application.costs.share": Case(costs("bimodal", low="1 s", high="2 s"), 0.9),
    "application.costs.path": Case(
        costs("file", path="costs.csv")
        | {"application.iterations": None, "application.iterations.count": None},
        "more.csv",
    ),
    "application.costs.column": Case(
        costs("file", path="table.csv")
        | {"application.iterations": None, "application.iterations.count": None},
        "work",
    ),
    "application.costs.parameters.size": Case(MANDELBROT, 12),
    "application.costs.parameters.limit": Case(MANDELBROT, 20),
    "application.costs.parameters.exponent": Case(MANDELBROT, 2),
    "application.costs.parameters.window.x_min": Case(MANDELBROT, -1),
    "application.costs.parameters.window.x_max": Case(MANDELBROT, 1),
    "application.costs.parameters.window.y_min": Case(MANDELBROT, -1),
    "application.costs.parameters.window.y_max": Case(MANDELBROT, 1),
    "application.costs.parameters.points": Case(PSIA, 80),
    "application.costs.parameters.image_width": Case(PSIA, 2),
    "application.costs.parameters.bin_size": Case(PSIA, 0.1),
    "application.costs.parameters.support_angle": Case(PSIA, 0.5),
    "application.costs.parameters.cloud_seed": Case(PSIA, 3),
    "application.costs.parameters.scan_cost": Case(PSIA, 0.5),
    "application.costs.unit_cost": Case(PSIA, "20 ms"),
    "application.costs.calibrate": Case(LOOP, "run-time"),
    "application.costs.calibrate_to.technique": Case(LOOP | RECORDED, "SS"),
    "application.costs.calibrate_to.model": Case(
        LOOP | RECORDED | {"application.execution.break_after": 9}, "cca"
    ),
    "application.costs.calibrate_to.min_chunk": Case(LOOP | RECORDED, 9),
    "application.costs.calibrate_to.coordination": refused(LOOP | RECORDED, True),
    "application.iterations.per_pe": Case(LOOP | {"application.iterations": None}, 7),
    "application.iterations.count": Case(LOOP, 50),
    "application.technique": Case(LOOP, "SS"),
    "application.selection.method": Case(chosen("expert"), "exhaustive"),
    "application.selection.portfolio": Case(chosen("expert"), ["GSS", "SS"]),
    "application.selection.learns_over": Case(chosen("exhaustive"), "application"),
    "application.selection.goal": Case(chosen("exhaustive", threshold=100), "imbalance"),
    "application.selection.parameters.threshold": Case(
        chosen("exhaustive") | {"platform.perturbations": [{"nodes": "0", "factor": 0.3, "from": "100 s"}]},
        100,
    ),
    "application.selection.parameters.learner": Case(LEARNED, "sarsa"),
    "application.selection.parameters.learning_rate": Case(LEARNED, 0.01),
    "application.selection.parameters.discount": Case(LEARNED, 0.0),
    "application.selection.parameters.exploration": Case(LEARNED, 1.0),
    "application.selection.parameters.every": Case(chosen("simulation"), 0.1),
    "application.selection.parameters.chunk_time": Case(chosen("simulation"), "1 ms"),
    "application.selection.parameters.share": Case(chosen("simulation"), 0.0),
    "application.selection.parameters.samples": Case(chosen("simulation"), 5),
    "application.selection.parameters.costs": Case(chosen("simulation"), "profile"),
    "application.parameters.statistics": Case(technique("TAP", sigma="1 s", mu="2 s"), "profiled"),
    "application.parameters.sigma": Case(technique("FAC", sigma="1 s", mu="2 s"), "3 s"),
    "application.parameters.mu": Case(technique("FAC", sigma="1 s", mu="2 s"), "0.5 s"),
    "application.parameters.overhead": Case(technique("FSC", sigma="0.1 s", overhead="1 s"), "0.1 s"),
    "application.parameters.alpha": Case(technique("TAP", sigma="1 s", mu="2 s"), 3),
    "application.parameters.batches": Case(technique("FISS"), 5),
    "application.parameters.growth": Case(technique("VISS"), "geometric"),
    "application.parameters.awf_chunk": Case(technique("AWF-C"), "batch"),
    "application.parameters.random_from": Case(technique("RND"), 0.9),
    "application.parameters.random_to": Case(technique("RND"), 0.3),
    "application.parameters.compat": Case(technique("FAC2"), "lb4mpi"),
    "application.parameters.swr": Case(technique("PLS"), "sampled"),
    "application.parameters.weights": Case(technique("WF") | {"platform.nodes": FAST}, "equal"),
    "application.min_chunk": Case(LOOP, 4),
    "applications": Case(PACKED, {"a": {"model": "loop", "technique": "SS"}}),
    "assign.N.where": Case(SEVERAL, {"user": 1}),
    "assign.N.application": Case(SEVERAL, "b"),
    "assign.N.default": Case({**SEVERAL, "assign": [{"default": "a"}]}, "b"),
    "application.time_steps": Case(LOOP, 3),
    "application.execution.model": Case(LOOP, "cca"),
    "application.execution.master": Case(CCA, "dedicated"),
    "application.execution.chunk_calculation": Case(LOOP, "0.1 s"),
    "application.execution.chunk_assignment": Case(CCA, "0.1 s"),
    "application.execution.atomic_service": Case(LOOP, "0.1 s"),
    "application.execution.injected_delay": Case(LOOP, "0.1 s"),
    "application.execution.parameters.answers": Case(CCA | {"application.technique": "SS"}, "inside"),
    "application.execution.parameters.thread_share": Case(
        CCA | {"application.execution.parameters.answers": "thread"}, 0.5
    ),
    "application.execution.parameters.request_cost": Case(LOOP, "0.1 s"),
    "application.execution.parameters.start_up": Case(LOOP, "1 s"),
    "application.execution.parameters.measured": Case(LOOP, "mpich-epyc"),
    "application.execution.parameters.start_up_std": Case(
        LOOP | {"application.execution.parameters.start_up": "1 s"}, "0.5 s"
    ),
    "application.execution.message_size": Case(LOOP, "1 GB"),
    "application.execution.break_after": Case(CCA, 3),
    "application.execution.break_time": Case(CCA, "1 s"),
    "application.execution.piece_time": Case(CCA, "1 s"),
    "application.execution.break_every": Case(CCA, "3 s"),
    "application.execution.service_order": Case(
        CCA | {"application.execution.chunk_assignment": "1 s", "application.technique": "SS"}, "lowest-rank"
    ),
    "application.execution.request_ahead": Case(CCA | {"application.technique": "SS"}, 1),
    "application.execution.lock": Case(
        ADAPTIVE
        | {"application.execution.atomic_service": "0.3 s", "application.execution.lock_retry": "1 s"},
        "polling",
    ),
    "application.execution.lock_retry": Case(
        ADAPTIVE | {"application.execution.atomic_service": "0.3 s", "application.execution.lock": "polling"},
        "1 s",
    ),
    "application.execution.global_p": Case(HDCA | {"platform.nodes.0.cores": 4}, "pes"),
    "application.execution.nowait": Case(OPENMP, True),
    "application.parameters.first_chunk": Case(ADAPTIVE, 0.5),
    "application.parameters.pieces": Case(ADAPTIVE | {"application.iterations.count": 400}, 1),
    "application.pes_per_node": Case(LOOP, 1),
    "coordination.rca": Case(RCA | {"coordination.rca": False}, True),
    "coordination.latency": Case(RCA, "2 s"),
    "coordination.requests": Case(RCA, "head-of-queue"),
    "coordination.answer": Case(ASKING, "always"),
    "coordination.tolerance": Case(TOLERANT, 5),
    "coordination.reclaim": Case(ASKING | {"coordination.answer": "always"}, True),
    "coordination.released_nodes": Case(RCA, "short-first"),
    "coordination.forecasts": Case(RCA | {"batch.backfill": "easy"}, {"nodes": 0}),
    "output.trace": files(PLAIN, "jobs"),
    "output.trace_details": files(PLAIN | LOOP, True),
    "output.trace_apart": files(PLAIN | LOOP, True),
    "output.trace_window": files(PLAIN | LOOP, ["1 s", "5 s"]),
    "output.trace_rows": files(PLAIN | LOOP, "nodes"),
    "output.trace_jobs": files(PLAIN | LOOP, [2]),
    "output.pictures": files({}, False),
    "output.csv": files(PLAIN, True),
    "output.batsim": files(PLAIN, True),
    "output.passes": files(PLAIN, True),
    "output.writers": files(PLAIN, ["writer.py:write"]),
}

# Keys that change nothing that is compared, by what they mean.
WITHOUT_EFFECT = {"batch.engine": "all engines give the same bytes; test_the_engine_is_the_one_asked_for"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that scenarios here name."""
    place = tmp_path_factory.mktemp("keys")
    for name, text in FILES.items():
        (place / name).write_text(text)
    (place / "others.csv").write_text(FILES["links.csv"].replace("4 ms", "40 ms"))
    return place


@pytest.fixture(scope="module", autouse=True)
def _memory_is_not_given_back() -> Iterator[None]:
    """What a run does for its memory takes longer than these runs do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlsim.experiment.runner.give_back", lambda *_: None)
        yield


_before: dict[str, dict[str, Any]] = {}


def results_before(directory: Path, beside: Keys) -> dict[str, Any]:
    """Give the results without a key; many keys share them."""
    if repr(beside) not in _before:
        _before[repr(beside)] = results(directory, beside)
    return _before[repr(beside)]


def scenario_of(directory: Path, overrides: Keys) -> mlsim.Scenario:
    return from_mapping(BASE, "base", dict(overrides), directory)


def results(directory: Path, overrides: Keys) -> dict[str, Any]:
    """Give all that a run tells but for what it measures of itself."""
    result = mlsim.run(scenario_of(directory, overrides))
    summary = {key: value for key, value in result.summary.items() if key not in ("self", "seed", "scenario")}
    if "cp" in summary:
        summary["cp"] = {}
    return {"summary": repr(summary), **columns_of(result.records)}


def columns_of(records: Records) -> dict[str, Any]:
    """Give every column of every table, as bytes where it is an array."""
    told = {"calendar": repr(records.calendar)}
    for table in dataclasses.fields(records):
        rows = getattr(records, table.name)
        for column in () if table.name == "calendar" else dataclasses.fields(rows):
            value = getattr(rows, column.name)
            plain = isinstance(value, np.ndarray) and value.dtype != object
            told[f"{table.name}.{column.name}"] = value.tobytes() if plain else repr(value)
    return told


def written(directory: Path, overrides: Keys, out: Path) -> dict[str, bytes]:
    """Give the files of a run, but for what it measures of itself."""
    mlsim.run(scenario_of(directory, overrides), out=out)
    skipped = ("summary.json", "versions.json")
    return {
        str(file.relative_to(out)): file.read_bytes()
        for file in sorted(out.rglob("*"))
        if file.is_file() and file.name not in skipped
    }


def test_the_engine_is_the_one_asked_for(directory: Path) -> None:
    told = {}
    for engine in ("simpy", "replay"):
        result = mlsim.run(scenario_of(directory, {"batch.engine": engine}))
        assert result.summary["self"]["engine"] == engine
        told[engine] = results(directory, {"batch.engine": engine})["jobs.start_time"]
    assert told["simpy"] == told["replay"]


def test_every_key_has_a_case() -> None:
    keys = [option.key for option in (*options(), *model_parameters()) if not option.is_mapping]
    assert sorted({*CASES, *WITHOUT_EFFECT}) == sorted(keys)
    assert not set(CASES) & set(WITHOUT_EFFECT)


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key, case in CASES.items() if case.shows == "results"])
def test_a_key_changes_the_results(key: str, directory: Path) -> None:
    beside, value, _ = CASES[key]
    before = results_before(directory, beside)
    after = results(directory, {**beside, key.replace(".N.", ".0."): value})
    assert before != after


@pytest.mark.parametrize("key", [key for key, case in CASES.items() if case.shows == "files"])
def test_a_key_changes_the_files(key: str, directory: Path, tmp_path: Path) -> None:
    if key.startswith("output.trace"):
        pytest.importorskip("otf2", reason="there is no wheel of the package otf2 for this Python")
    beside, value, _ = CASES[key]
    before = written(directory, beside, tmp_path / "before")
    after = written(directory, {**beside, key: value}, tmp_path / "after")
    assert before != after


@pytest.mark.parametrize("key", [key for key, case in CASES.items() if case.shows == "refusal"])
def test_a_key_decides_whether_it_can_be_run(key: str, directory: Path) -> None:
    beside, value, _ = CASES[key]
    runs = []
    for overrides in (beside, {**beside, key: value}):
        try:
            results(directory, overrides)
        except InputError:
            runs.append(False)
        else:
            runs.append(True)
    assert sorted(runs) == [False, True]
