"""The README's commands run as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()
TUTORIAL = (REPOSITORY / "docs/tutorial.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.startswith("mlsim")
]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Path:
    """A directory with the scenarios and traces of the repository, in which runs may be written."""
    directory = tmp_path_factory.mktemp("readme")
    for name in ("scenarios", "traces"):
        (directory / name).symlink_to(REPOSITORY / name)
    return directory


def execute(command: list[str], cwd: Path, **env: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, workplace: Path, request):
    env = {}
    if any(name in command for name in ("kth", "hpc2n", "curie")):
        env["MLSIM_TRACES"] = str(request.getfixturevalue("logs_dir"))
    for earlier in makers_of_runs(command, workplace):
        execute(as_words(earlier), workplace, **env)
    assert execute(as_words(command), workplace, **env)


def as_words(command: str) -> list[str]:
    words = shlex.split(command, comments=True)
    return [sys.executable, "-c", "from mlsim.cli.main import main; main()", *words[1:]]


def makers_of_runs(command: str, workplace: Path) -> list[str]:
    """The commands that make the runs which this one reads, where they have not been executed here."""
    if command.split()[1] not in ("metrics", "compare", "report"):
        return []
    read = [word for word in shlex.split(command, comments=True)[2:] if word.startswith("runs/")]
    missing = [run for run in read if not (workplace / run).exists()]
    return [maker for run in missing for maker in COMMANDS if maker.endswith(f"--out {run}")]


def test_python_example(workplace: Path):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert "shape" in execute([sys.executable, "-c", example], workplace)


def test_the_make_targets_exist():
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.M):
        assert f"\n{target}:" in makefile


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_figures_of_the_reasons_are_those_of_the_pages_that_they_name(name: str) -> None:
    page = REPOSITORY / name
    reasons = re.findall(r"^- \*\*(.+?)\*\*(.*?)(?=\n- |\n\n)", page.read_text(), re.M | re.S)[:3]
    assert len(reasons) == 3
    for _, text in reasons:
        (link,) = re.findall(r"\]\(([\w/.-]+)\)", text)
        source = (page.parent / link).read_text()
        numbers = re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)
        assert len(numbers) >= 3
        for number in numbers:
            assert re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d|[.,]\d)", source), f"{link}: {number}"


def test_the_table_of_the_tour_is_what_the_runs_give():
    import mlsim

    rows = re.findall(r"^\| (.*quickstart.yaml.*|as it is.*|`\w+\.\w+=.*) \|$", TUTORIAL, re.M)[1:]
    assert len(rows) == 4
    for row in rows:
        name, *numbers = (cell.strip() for cell in row.split("|"))
        overrides = dict(re.findall(r"`(\S+)=(\S+)`", name))
        if "no backfilling" in name:
            overrides["batch.backfill"] = "none"
        summary = mlsim.run(
            REPOSITORY / "scenarios" / "quickstart.yaml",
            overrides={"output.trace": "none", **{key: _value(text) for key, text in overrides.items()}},
        ).summary
        assert numbers == [
            f"{summary['makespan']:,.0f}",
            f"{summary['wait_time']['mean']:,.0f}",
            f"{summary['utilization']['busy'] * 100:.1f}",
            f"{summary['utilization']['allocated'] * 100:.1f}",
            f"{summary['loops']['imbalance']['mean']:.1f}",
        ], name


def _value(text: str) -> object:
    return {"off": False, "on": True}.get(text, text)
