"""What would take all memory, all time or a place that is not there is refused before it begins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.experiment.study import load_study
from mlsim.experiment.weekly_runs import LogWeeks
from mlsim.learning.policy_functions import Trials, run_trials
from mlsim.scenario import load
from mlsim.workload.generated_jobs import generate

from .conftest import COMMAND, REPOSITORY

LOOP = """\
platform: {nodes: [{name: n, count: 1, cores: 2}]}
application: {iterations: {count: 40}, costs: {profile: constant, mean: 1 ms}}
"""
HOMELESS = """
import os, pwd, sys
for name in ("HOME", "XDG_CACHE_HOME", "USER", "LOGNAME", "NUMBA_CACHE_DIR", "MLSIM_CACHE"):
    os.environ.pop(name, None)
def unknown(*_):
    raise KeyError("getpwuid(): uid not found: 12345")
pwd.getpwuid = unknown
from mlsim.cli.main import main
main()
"""


def test_a_study_of_too_many_combinations(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    vary = "vary: {seeds: 100000, cases: [{application.min_chunk: 1}, {application.min_chunk: 2}]"
    study = tmp_path / "study.yaml"
    study.write_text(f"of: loops\nbase: loop.yaml\n{vary}, weeks: 0-999}}\n")
    with pytest.raises(InputError, match=r"200,000,000 combinations \(seed 100,000 x case 2 x week 1,000\)"):
        load_study(study)
    study.write_text(f'of: loops\nbase: loop.yaml\n{vary}, weeks: 0-999, run: "{{seed}}-{{week}}"}}\n')
    with pytest.raises(InputError, match="allowed: 1,000,000; draw some of them"):
        load_study(study)


@pytest.mark.parametrize("model", ["lublin", "poisson", "weibull"])
@pytest.mark.parametrize("load", [None, 0.7])
def test_a_time_of_too_many_jobs(model: str, load: float | None) -> None:
    with pytest.raises(InputError, match=r"days: 1e\+09: about .* jobs come in this time"):
        generate(model, days=1e9, load=load, seed=1)
    assert len(generate(model, days=1e9, jobs=10, seed=1).jobs()) == 10
    assert len(generate(model, days=1.0, load=load, seed=1).jobs()) > 0


@pytest.mark.skipif(sys.platform == "win32", reason="a directory in use cannot be removed there")
@pytest.mark.parametrize(
    "words",
    [
        ["loop", "{0}/loop.yaml", "--out", "x"],
        ["workload", "generate", "poisson", "--jobs", "9", "-o", "x.swf"],
    ],
)
def test_a_current_directory_that_has_been_removed(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})\n{COMMAND[2]}"
    ended = subprocess.run(
        [sys.executable, "-c", program, *(word.format(tmp_path) for word in words)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode in (1, 2)
    assert "No such file or directory. Give another" in ended.stderr or "has been removed" in ended.stderr
    assert "internal error" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["doctor"], ["loop", "loop.yaml", "--out", "out"]])
def test_a_user_without_a_home(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    ended = subprocess.run(
        [sys.executable, "-c", HOMELESS, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "~").exists()


@pytest.fixture(scope="module")
def stranger() -> list[str]:
    """Begin commands as a user whom the system does not know, and who has no variables."""
    begins = ["unshare", "--user", "--map-user=12345", "--map-group=12345", "env", "-i", "PATH=/usr/bin:/bin"]
    who = "import os, pwd; assert os.getuid() == 12345; pwd.getpwuid(12345)"
    try:
        asked = subprocess.run([*begins, sys.executable, "-c", who], capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"unshare cannot be started: {error}")
    if "uid not found" not in asked.stderr:
        pytest.skip(f"no user namespace with another user can be made here: {asked.stderr.strip()[-200:]}")
    return begins


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["doctor"], ["run", "small.yaml", "-q", "--out", "out"], ["loop", "loop.yaml", "--out", "out"]]
)
def test_a_user_whom_the_system_does_not_know(small: Path, stranger: list[str], words: list[str]) -> None:
    (small / "loop.yaml").write_text(LOOP)
    ended = subprocess.run(
        [*stranger, f"PYTHONPATH={REPOSITORY}", *COMMAND, *words],
        cwd=small,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert "internal error" not in ended.stderr
    assert (small / "out" / "summary.json").is_file() == (words[0] != "doctor")
    assert not (small / "~").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["learn", "profiles", "--each", "1000000000", "-o", "out.csv"],
            "--each: 4,000,000,000 jobs with about 17,482,946,457,520 samples",
        ),
        (
            ["advise", "loop.yaml", "--seeds", "1000000000", "--technique", "GSS", "--model", "dca"]
            + ["--set", "application.costs.profile=exponential"],
            "seeds: 1,000,000,000: 6,000,000,000 simulations, of 2 choices with 3 costs",
        ),
    ],
)
def test_products_of_what_the_user_gives(small: Path, mlsim, words: list[str], said: str) -> None:
    (small / "loop.yaml").write_text(LOOP)
    ended = mlsim(*words)
    assert ended.code == 2
    assert said in ended.err
    assert not list(small.glob("*out*"))


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (Trials(trials=10**12), "--trials: 1,000,000,000,000 orders of 48 jobs: 1.5e+06 GB"),
        (Trials(sets=10**12), "--sets: 1,000,000,000,000 sets of 32 tasks: 1.0e+06 GB"),
    ],
)
def test_trials_that_cannot_be_held(small: Path, tried: Trials, said: str) -> None:
    weeks = LogWeeks(load(small / "small.yaml"), {}, 16)
    with pytest.raises(InputError, match=re.escape(said)):
        run_trials(weeks, tried)


@pytest.mark.slow
def test_a_trace_that_is_converted_where_there_is_no_directory(small: Path, mlsim) -> None:
    pytest.importorskip("otf2")
    (small / "loop.yaml").write_text(LOOP)
    assert mlsim("loop", "loop.yaml", "--out", "run", "--otf2").code == 0
    ended = mlsim("trace", "convert", "run", "-o", "gone/x.json")
    assert ended.code == 2
    assert "there is no directory gone" in ended.err
