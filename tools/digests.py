"""Record what mlsim gives, as checksums, and compare with what it gave: for changes that must change nothing.

Usage: python tools/digests.py FILE [--logs] [--only WORD]

Simulates every scenario of `scenarios/` and many variants of two small ones (every technique and execution
model; every policy, backfilling and engine; failures, drains, releases), without pictures, and writes the
checksums of all result files into FILE. If FILE is there, what differs from it is listed instead, and the
exit code is 1. With --logs, variants of the real logs in MLSIM_TRACES are simulated too. Of `summary.json`
the checksum is without `self`, of Parquet files it is that of their content, however it is encoded;
`versions.json` and `scenario.yaml` tell of mlsim itself and are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import mlsim
from mlsim.cli.main import app
from mlsim.scenario.words import Technique

ROOT = Path(__file__).resolve().parents[1]
Case = tuple[str, Path, dict[str, Any]]

_LEFT_OUT = {"versions.json", "scenario.yaml", "manifest.json"}
_LOOP = Path("loop")
"""In place of a scenario: the options are those of ``mlsim loop``."""
_ALWAYS = {"output.pictures": "off"}

_TECHNIQUES = [technique.value for technique in Technique]
_INSIDE = ["STATIC", "SS", "GSS", "FAC2", "AWF-B", "AWF-E", "AF"]
_POLICIES = ["FCFS", "SPF", "SAF", "LQF", "EDF", "WFP", "F1"]
_BACKFILLS = ["none", "easy", "greedy", "conservative"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--logs", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD", help="of a case's name")
    given = parser.parse_args()
    if not Path(mlsim.__file__).is_relative_to(ROOT):
        parser.error(f"Python imports {mlsim.__file__}, which is not of {ROOT}; use the Python of its .venv")
    cases = itertools.chain(_scenarios(), _loops(), _batch(), _mixed(), _logs() if given.logs else ())
    found = {name: _digests(path, overrides) for name, path, overrides in cases if given.only in name}
    refused = [name for name in found if "refused" in found[name]]
    print(f"{len(refused)} of {len(found)} are refused{': ' if refused else ''}{', '.join(refused)}")
    if not given.file.exists():
        given.file.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{len(found)} cases recorded in {given.file}")
        return
    before = json.loads(given.file.read_text())
    differing = [name for name in found if found[name] != before.get(name, found[name])]
    for name in differing:
        print(f"{name}: {_difference(before[name], found[name])}")
    print(f"{len(found.keys() & before.keys())} cases compared, {len(differing)} differ")
    sys.exit(1 if differing else 0)


def _digests(path: Path, overrides: Mapping[str, Any]) -> dict[str, str]:
    """Simulate a scenario, or loops; return the checksum of every file, or the message of a refusal."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stderr(io.StringIO()):
        out = Path(directory) / "run"
        try:
            if path == _LOOP:
                return _loop(overrides)
            mlsim.run(path, {**_ALWAYS, **overrides}, out=out)
        except mlsim.MlsimError as error:
            return {"refused": str(error).replace(str(ROOT), "")}
        files = json.loads((out / "manifest.json").read_text())["files"]
        return {
            name: _content(out / name) if name.endswith(".parquet") else checksum
            for name, checksum in files.items()
            if name not in _LEFT_OUT
        }


def _content(path: Path) -> str:
    """Return a checksum of a table's columns, types and texts, however the file is encoded."""
    content = hashlib.sha256()
    texts = {key: text for key, text in pl.read_parquet_metadata(path).items() if key != "ARROW:schema"}
    content.update(repr(sorted(texts.items())).encode())
    for column in pl.read_parquet(path):
        content.update(f"{column.name} {column.dtype} {len(column)}".encode())
        content.update(column.is_null().to_numpy().tobytes())
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            content.update(column.fill_null(False if column.dtype == pl.Boolean else 0).to_numpy().tobytes())
        else:
            content.update(repr(column.cast(pl.String).to_list()).encode())
    return content.hexdigest()


def _loop(overrides: Mapping[str, Any]) -> dict[str, str]:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        app(
            ["loop", "--json", *(f"--{key}={value}" for key, value in overrides.items())],
            standalone_mode=False,
        )
    return {"json": told.getvalue()}


def _difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return now.get("refused") or ", ".join(names)


def _scenarios() -> Iterator[Case]:
    """Every scenario that needs no log, as it stands."""
    for path in sorted((ROOT / "scenarios").rglob("*.yaml")):
        name = str(path.relative_to(ROOT))
        others = "studies", "/mpi/", "known-schedules"
        if path.stem not in ("kth", "hpc2n", "curie-24h") and not any(word in name for word in others):
            yield name, path, {}


def _loops() -> Iterator[Case]:
    """Every technique under every execution model, alone and inside jobs that give nodes back."""
    base = ROOT / "scenarios" / "quickstart.yaml"
    one = [(model, technique) for model in ("dca", "cca") for technique in _TECHNIQUES]
    two = [
        (model, f"{outer}+{inner}")
        for model, outer, inner in itertools.product(("hdca", "hmw", "mpi+openmp"), _INSIDE, _INSIDE)
        if model != "mpi+openmp" or inner in ("STATIC", "SS", "GSS")
    ]
    for model, technique in one + two:
        rca = "on" if model in ("dca", "cca") or technique.startswith("GSS") else "off"
        parameters = {
            "application.execution.model": model,
            "application.technique": technique,
            "application.parameters.statistics": "profiled",
            "coordination.rca": rca,
        }
        yield f"quickstart {model} {technique}", base, parameters
        alone = {"pes": "3x5", "speeds": "1x2,0.5x1", "technique": technique, "model": model, "seed": 7}
        shape = {"iterations": 3000, "profile": "normal", "mean": "1 ms", "std": "0.4 ms", "latency": "2 us"}
        yield f"loop {model} {technique}", _LOOP, {**alone, **shape, "atomic-service": "300 ns"}


def _batch() -> Iterator[Case]:
    """Policies, backfillings and engines, with all that changes what is there."""
    base, maintenance = ROOT / "scenarios" / "quickstart.yaml", ROOT / "scenarios" / "maintenance.yaml"
    rigid = {"application": {"model": "rigid"}, "coordination.rca": "off", "output.trace": "none"}
    for policy, backfill, engine in itertools.product(_POLICIES, _BACKFILLS, ("replay", "simpy")):
        chosen = {"batch.policy": policy, "batch.backfill": backfill, "batch.engine": engine}
        yield f"pool {policy} {backfill} {engine}", maintenance, {"platform.drains": [], **chosen}
    changes: dict[str, dict[str, Any]] = {
        "reservations": {"batch.reservations": 3},
        "one-round": {"batch.backfill": "conservative", "batch.compression": "one-round"},
        "drain": {"platform.drains.0.announced": False},
        "announced": {},
        "announced conservative": {"batch.backfill": "conservative"},
        "announced late": {"platform.drains.0.announced_at": "1 h"},
        "failure": {
            "platform.failures": [{"node": 2, "at": "1 h", "repair": "20 min"}],
            "batch.on_failure": "restart",
        },
        "predictor": {"batch.predictor": "D2"},
        "interval": {"batch.backfill_interval": "30 s"},
        "best-fit": {"batch.allocator": "best-fit"},
        "contiguous": {"batch.allocator": "contiguous"},
        "random": {"batch.allocator": "random"},
        "cores": {"workload.mapping": "core"},
        "live": {"batch.policy": "WFP"},
        "fairshare": {"batch.policy": "fairshare"},
    }
    for (name, change), drained in itertools.product(changes.items(), (True, False)):
        keep = drained or "drain" in name or "announced" in name
        yield f"state {name} {drained}", maintenance, {**({} if keep else {"platform.drains": []}), **change}
        if drained:
            yield f"two levels {name}", base, {key: change[key] for key in change if "drains" not in key}
            yield (
                f"rigid {name}",
                base,
                {**rigid, **{key: change[key] for key in change if "drains" not in key}},
            )


def _mixed() -> Iterator[Case]:
    """Nodes that differ, in several resources and powers, that fail and are drained."""
    base = ROOT / "scenarios" / "maintenance.yaml"
    powers = {"idle": "90 W", "busy": "200 W"}
    platform = {
        "platform.nodes": [
            {"name": "a", "count": 12, "cores": 8, "memory": "8 GB", "power": powers},
            {
                "name": "b",
                "count": 6,
                "cores": 16,
                "memory": "64 GB",
                "resources": {"gpu": 2},
                "power": powers,
            },
            {"name": "c", "count": 4, "cores": 32, "memory": "32 GB", "power": powers},
        ],
        "platform.random_failures": [{"nodes": "a", "mtbf": "40 h", "mttr": "30 min", "shape": 0.8}],
        "workload.mapping": "core",
        "workload.cleaning.oversize": "clamp",
        "batch.on_failure": "restart",
    }
    allocators = [
        "first-fit",
        "best-fit",
        "worst-fit",
        "contiguous",
        "random",
        "topology-aware",
        "heterogeneity-aware",
    ]
    options: list[dict[str, Any]] = [{"batch.allocator": allocator} for allocator in allocators]
    options += [
        {"batch.power_cap": [["0 s", "3600 W"], ["2 h", "4000 W"]], "platform.drains.0.announced": False},
        {"batch.reservations": 4},
        {"batch.threshold": "1 h"},
        {"batch.ties": "per-event"},
        {"batch.policy": "SAF"},
        {"batch.policy": "WFP"},
        {"batch.policy": "fairshare"},
        {"batch.backfill_order": "SPF"},
        {"batch.predictor": "L2"},
        {"batch.backfill_interval": "60 s"},
        {"batch.on_overrun": "extend"},
    ]
    for option, backfill in itertools.product(options, _BACKFILLS):
        name = " ".join(str(value) for value in option.values())
        yield f"mixed {name} {backfill}", base, {**platform, "batch.backfill": backfill, **option}


def _logs() -> Iterator[Case]:
    """Simulate the real logs as the scenarios take them, and their first jobs under every dispatcher."""
    scenarios = ROOT / "scenarios"
    yield "log curie-24h", scenarios / "curie-24h.yaml", {}
    yield "log curie-24h rca", scenarios / "curie-24h.yaml", {"coordination.rca": "on"}
    traces = Path(os.environ.get("MLSIM_TRACES", ROOT.parent / "shared" / "traces"))
    for name, engine in itertools.product(("kth", "hpc2n"), ("auto", "simpy")):
        for backfill in ("none", "easy"):
            chosen = {"batch.backfill": backfill, "batch.engine": engine}
            yield f"log {name} {backfill} {engine}", scenarios / f"{name}.yaml", chosen
        recorded = {"batch": {"dispatcher": "recorded", "engine": engine}}
        yield f"log {name} recorded {engine}", scenarios / f"{name}.yaml", recorded
    for log in sorted(traces.glob("*.swf*")):
        for backfill, policy in (
            ("easy", "FCFS"),
            ("conservative", "FCFS"),
            ("easy", "SAF"),
            ("none", "WFP"),
        ):
            chosen = {"batch.backfill": backfill, "batch.policy": policy}
            first = {
                "workload.path": str(log),
                "workload.select.first": 4000,
                "workload.cleaning.oversize": "clamp",
            }
            yield f"log {log.name} {backfill} {policy}", scenarios / "kth.yaml", {**first, **chosen}


if __name__ == "__main__":
    main()
