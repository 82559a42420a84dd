"""What is executed, and what is not: code of a scenario by commands that simulate, from beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario.scenario_paths import check_definition

LOUD = """\
import pathlib
pathlib.Path(__file__).with_suffix(".executed").touch()
class Mine:
    def key(self, now, jobs): return jobs.estimate
    def allocate(self, units, request, free, capacity): return None
    def dispatch(self, view): return []
    def predict(self, job): return 1.0
    def learn(self, job, run_time): pass
def rule(n, p, remaining, step, pe):
    return 1
from mlsim.application.kit import execution_model
@execution_model(levels=1)
class Model:
    def run(self, inputs): return 0
"""
KEYS = ("dispatcher", "policy", "allocator", "predictor", "technique", "model")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for scenarios, beside it directories of data, and the current one."""
    for name in ("study", "data", "here/traces"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "study/log.csv").write_text("job_id,submit_time,run_time,walltime,processors\n1,0,5,9,2\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MLSIM_TRACES", str(tmp_path / "data"))
    return tmp_path


def scenario(here: Path, key: str, name: str) -> Path:
    """Write a scenario that names code at one key."""
    text = "platform: {nodes: [{name: n, count: 1, cores: 2}]}\nworkload: {path: log.csv, mapping: core}\n"
    costs = "costs: {profile: constant, mean: 1 s}, iterations: {count: 4}"
    if key == "technique":
        text += f"application: {{model: loop, {costs}, technique: '{name}:rule'}}\n"
    elif key == "model":
        text += f"application: {{model: loop, {costs}, execution: {{model: '{name}:Model'}}}}\n"
    else:
        text += f"batch: {{{key}: '{name}:Mine'}}\n"
    file = here / "study" / "s.yaml"
    file.write_text(text)
    return file


def called(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    message = f"{done.exception}" if isinstance(done.exception, InputError) else ""
    return (2 if message else done.exit_code), done.output + message


@pytest.mark.parametrize("key", KEYS)
def test_check_executes_code_only_when_told_to(here: Path, key: str) -> None:
    (here / "study/mine.py").write_text(LOUD)
    file = scenario(here, key, "./mine.py")
    executed = here / "study/mine.executed"
    code, told = called("check", file)
    assert code == 0, told
    assert not executed.exists()
    code, told = called("check", file, "--plugins")
    assert code == 0, told
    assert executed.exists()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("place", ["data", "here/traces"])
def test_code_is_not_looked_up_among_data(here: Path, key: str, place: str) -> None:
    (here / place / "mine.py").write_text(LOUD)
    file = scenario(here, key, "mine.py")
    for command in (("check", file), ("check", file, "--plugins"), ("run", file, "--out", here / "out")):
        code, told = called(*command)
        assert code == 2
        assert "code is not looked up in $MLSIM_TRACES or ./traces" in told
        assert str(Path(place).name) in told  # where it is, in case it is meant
    assert not (here / place / "mine.executed").exists()
    with pytest.raises(InputError, match=r"there is no file 'mine\.py'"):
        mlsim.run(file)


def test_data_is_looked_up_there_all_the_same(here: Path) -> None:
    (here / "study/log.csv").rename(here / "data/log.csv")
    (here / "study/mine.py").write_text(LOUD)
    assert called("check", scenario(here, "policy", "mine.py"))[0] == 0


@pytest.mark.parametrize("name", ["{}/study/mine.py", "../study/mine.py", "./mine.py"])
def test_paths_are_seen_from_the_scenario(here: Path, name: str) -> None:
    (here / "study/mine.py").write_text(LOUD)
    code, told = called("check", scenario(here, "policy", name.format(here)))
    assert code == 0, told


def test_what_a_run_leaves_is_read_without_its_code(here: Path) -> None:
    (here / "study/mine.py").write_text(LOUD)
    file = scenario(here, "policy", "./mine.py")
    for name in ("a", "b"):
        mlsim.run(file, {"output.pictures": False}, out=here / name)
    (here / "study/mine.executed").unlink()
    (here / "a/mine.py").write_text(LOUD)
    assert called("compare", here / "a", here / "b")[0] == 0
    assert called("metrics", here / "a")[0] == 0
    assert called("list", "policies")[0] == 0
    assert called("list", "models")[0] == 0
    assert json.loads(called("schema")[1])
    assert not list(here.rglob("*.executed"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class Yours: pass\n", "there is no class 'Mine'; did you mean|the file has: Yours"),
        ("def Mine(): pass\n", "'Mine' is a function; needed: a class"),
        ("class Mine:\n", r"is not Python: .*\(line 1\)"),
        ("x = 1\0\n", "is not Python"),
        ("(" * 100_000, "is not Python"),
        ("x" * 2_000_000, "2 MB is too large for a file of Python code; allowed: 1 MB"),
        ("def f():\n    class Mine: pass\n", "there is no class 'Mine'"),
        ("", "the file has: none"),
    ],
)
def test_files_that_do_not_define_it(here: Path, text: str, reason: str) -> None:
    (here / "study/mine.py").write_text(text)
    code, told = called("check", scenario(here, "policy", "./mine.py"))
    assert code == 2
    import re

    assert re.search(reason, told), told
    assert "mine.py" in told


@pytest.mark.parametrize(
    "text",
    [
        "class Mine: pass\n",
        "@decorated\nclass Mine: pass\n",
        "Mine = make()\n",
        "Mine: type = make()\n",
        "a, (Mine, b) = make()\n",
        "from elsewhere import Mine\n",
        "import elsewhere as Mine\n",
        "from elsewhere import *\n",
        "if x:\n    pass\nelse:\n    class Mine: pass\n",
        "try:\n    import x\nexcept ImportError:\n    class Mine: pass\n",
        "with x as Mine:\n    pass\n",
        "match x:\n    case 1:\n        class Mine: pass\n",
        "print(Mine := make())\n",
        "'\\d'\nclass Mine: pass\n",
    ],
)
def test_files_that_may_define_it(tmp_path: Path, text: str, recwarn: pytest.WarningsRecorder) -> None:
    (tmp_path / "mine.py").write_text(text)
    check_definition(tmp_path / "mine.py", "Mine", "class", "here")
    assert not recwarn.list


def test_a_technique_is_a_function(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import numba\nclass A: pass\n@numba.njit\ndef b(): 0\ndef c(): 0\n")
    for name in "bc":
        check_definition(tmp_path / "mine.py", name, "function", "here")
    with pytest.raises(InputError, match="here: 'A' is a class; needed: a function"):
        check_definition(tmp_path / "mine.py", "A", "function", "here")


def test_installed_plugins_are_checked_by_name_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from mlsim.batch import user_dispatch
    from mlsim.scenario import BatchConfig

    def entry_points(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, "tests.nowhere:Mine", group) for name in ("mine", "twice", "twice")]

    monkeypatch.setattr("mlsim.plugins.entry_points", entry_points)
    config = BatchConfig()
    user_dispatch.check_plugins(config.model_copy(update={"policy": "mine"}), execute=False)
    with pytest.raises(InputError, match="policy twice: its name is there 2 times"):
        user_dispatch.check_plugins(config.model_copy(update={"policy": "twice"}), execute=False)
    with pytest.raises(InputError, match="policy gone: no installed package offers it"):
        user_dispatch.check_plugins(config.model_copy(update={"policy": "gone"}), execute=False)
