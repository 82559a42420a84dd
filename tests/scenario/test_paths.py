"""Where files that a scenario names are looked up."""

from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.scenario import Scenario, load
from mlsim.scenario.scenario_paths import resolve_path

LEAST = "platform: {nodes: [{name: n, count: 2, cores: 4}]}\nworkload: {path: log.swf}\n"


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """A scenario in ``study/``, logs in ``logs/`` and ``more/``, and the current directory beside them."""
    for name in ("study", "logs", "more", "here", "here/traces"):
        (tmp_path / name).mkdir()
    (tmp_path / "study/s.yaml").write_text(LEAST)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MLSIM_TRACES", f"{tmp_path / 'logs'}:{tmp_path / 'more'}")
    return load(tmp_path / "study/s.yaml")


def test_the_first_place_that_has_the_file(scenario: Scenario, tmp_path: Path) -> None:
    for place in ("here/traces", "more", "logs", "study"):
        (tmp_path / place / "log.swf").touch()
        found = resolve_path(scenario, "log.swf")
        assert found.resolve() == (tmp_path / place / "log.swf").resolve()


def test_an_absolute_path_is_taken_as_it_is(scenario: Scenario, tmp_path: Path) -> None:
    (tmp_path / "study/log.swf").touch()
    (tmp_path / "other.swf").touch()
    assert resolve_path(scenario, tmp_path / "other.swf") == tmp_path / "other.swf"
    with pytest.raises(InputError, match="as given"):
        resolve_path(scenario, "/no/log.swf")


def test_a_miss_says_where_it_was_looked_for(scenario: Scenario, tmp_path: Path) -> None:
    (tmp_path / "more/hpc2n-3k.swf").touch()
    (tmp_path / "logs/log.swf").mkdir()
    with pytest.raises(InputError) as info:
        resolve_path(scenario, "hpc2n.swf")
    assert str(info.value).splitlines() == [
        f"{tmp_path / 'study/s.yaml'}: workload.path: there is no file 'hpc2n.swf'; looked for",
        f"  {tmp_path / 'study/hpc2n.swf'} (beside the scenario file)",
        f"  {tmp_path / 'logs/hpc2n.swf'} (from $MLSIM_TRACES)",
        f"  {tmp_path / 'more/hpc2n.swf'} (from $MLSIM_TRACES)",
        "  traces/hpc2n.swf (in the current directory)",
        f"did you mean {tmp_path / 'more/hpc2n-3k.swf'}?",
        "set MLSIM_TRACES to the directory of your logs (several with ':' between)",
    ]
    with pytest.raises(InputError, match=r"log.swf \(from \$MLSIM_TRACES; a directory\)"):
        resolve_path(scenario, "log.swf", key="application.costs.path")
