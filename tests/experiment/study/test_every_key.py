"""No key of a study is accepted and ignored: each changes what the study writes, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlsim.experiment import load_study, run_study
from mlsim.experiment.study.study_file import KEYS
from tests.effort import THOROUGH

PLATFORM = {"nodes": [{"name": "n", "count": 2, "cores": 2}]}
FILES = {
    "loop.yaml": json.dumps(
        {
            "platform": PLATFORM,
            "application": {"iterations": {"count": 9}, "costs": {"profile": "increasing", "high": "1 s"}},
        }
    ),
    "other.yaml": json.dumps(
        {
            "platform": PLATFORM,
            "application": {"iterations": {"count": 5}, "costs": {"profile": "constant", "mean": 1}},
        }
    ),
    "jobs.csv": "job_id,submit_time,run_time,walltime,processors\n1,0,10,20,4\n2,0,30,40,4\n3,1,5,10,2\n",
    "run.yaml": json.dumps({"platform": PLATFORM, "workload": {"path": "jobs.csv", "mapping": "core"}}),
    "other-run.yaml": json.dumps(
        {"platform": PLATFORM, "workload": {"path": "jobs.csv", "mapping": "core", "select": {"first": 2}}}
    ),
    "loops.csv": "technique,min_chunk,t_loop\nSS,1,2.5\n",
    "runs.csv": "policy,backfill,makespan (s)\nFCFS,none,45\n",
}
LOOPS: dict[str, Any] = {
    "base": "loop.yaml",
    "vary": {"application.technique": ["SS", "GSS"], "application.min_chunk": [1, 2]},
}
RUNS: dict[str, Any] = {
    "of": "runs",
    "base": "run.yaml",
    "vary": {"batch.policy": ["FCFS", "LPF"], "batch.backfill": ["none", "easy"]},
}
# A value of each key that is not its default.
LOOP_VALUES: dict[str, object] = {
    "of": "loops",
    "name": "other",
    "description": "what it shows",
    "base": "other.yaml",
    "vary": {"application.technique": ["SS", "TSS"], "application.min_chunk": [1, 2]},
    "without": [{"technique": "SS", "min_chunk": "2"}],
    "columns": "technique",
    "reference": "loops.csv",
    "timelines": [{"technique": "SS", "min_chunk": "1"}],
    "set": {"application.iterations.count": 7},
    "repetitions": "technique",
    "metrics": {"steps": "steps"},
    "relative": {"technique": "SS"},
    "pictures": [{"kind": "metric", "along": "min_chunk", "lines": "technique"}],
    "formats": ["svg", "pdf"],
    "interval": "t",
    "trim": 1,
    "keep": "tables",
    "timeout": "10 min",
}
RUN_VALUES: dict[str, object] = {
    "of": "runs",
    "name": "other",
    "description": "what it shows",
    "base": "other-run.yaml",
    "vary": {"batch.policy": ["FCFS", "SPF"], "batch.backfill": ["none", "easy"]},
    "set": {"workload.select.first": 2},
    "without": [{"policy": "LPF", "backfill": "easy"}],
    "columns": "policy",
    "repetitions": "policy",
    "metrics": {"mean wait (s)": "wait_time.mean"},
    "relative": {"backfill": "none"},
    "reference": "runs.csv",
    "pictures": [{"kind": "metric", "along": "policy", "lines": "backfill"}],
    "formats": "svg",
    "interval": "t",
    "trim": 1,
    "keep": "all",
    "timeout": "10 min",
}
SAME = ("of", "search")  # of which sort the study is has one word each; test_search.py has all of a search
TOLD = ("name", "description", "timeout")  # in study.yaml, which is kept, and in what the command prints


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def loaded(place: Path, content: dict[str, Any]) -> Any:
    file = place / "study.yaml"
    file.write_text(json.dumps(content))
    return load_study(file)


def written(study: Any, out: Path) -> dict[str, bytes]:
    """Give the files of a study but for its own text."""
    run_study(study, out=out)
    files = (file for file in sorted(out.rglob("*")) if file.is_file())
    skipped = ("study.yaml", "versions.json", "manifest.json", "state.json", "lock")
    entries = {file.name: len(file.read_bytes().splitlines()) for file in files if "store" in file.parts}
    return {
        file.name: b"" if file.name in entries else file.read_bytes()
        for file in files
        if file.name not in skipped
    }


def test_every_key_has_a_value() -> None:
    assert sorted([*LOOP_VALUES, "search"]) == sorted(KEYS["loops"])
    assert sorted([*RUN_VALUES, "search"]) == sorted(KEYS["runs"])


@pytest.mark.parametrize(
    ("base", "key", "value"),
    [
        *((LOOPS, key, value) for key, value in LOOP_VALUES.items() if key not in SAME),
        *((RUNS, key, value) for key, value in RUN_VALUES.items() if key not in SAME),
    ],
)
def test_a_key_changes_the_study(base: dict[str, Any], key: str, value: object, place: Path) -> None:
    if key == "interval":
        pytest.importorskip("scipy", reason="no SciPy")
        base = base | {"repetitions": next(iter(base["vary"])).split(".")[-1]}
    if key == "trim":
        base = base | {"repetitions": "seed", "vary": base["vary"] | {"seeds": 4}}
    before = loaded(place, base)
    after = loaded(place, base | {key: value})
    own = ("text",)
    assert {k: v for k, v in vars(before).items() if k not in own} != {
        k: v for k, v in vars(after).items() if k not in own
    }
    if THOROUGH and key not in TOLD:
        assert written(before, place / "before") != written(after, place / "after")
