"""What helps a new user: examples to begin with, what is installed, lists, and words that point further."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from jsonschema import Draft202012Validator

import mlsim as package
from mlsim.analysis.metric_definitions import LOOP, SUMMARY, Metric
from mlsim.batch.cp import planning_dispatcher
from mlsim.cli import command_output, example_cluster, listing, scenario_files
from mlsim.cli.doctor import PURPOSES, pmi_of
from mlsim.cosim.simulation import survey
from mlsim.errors import InputError
from mlsim.scenario import CpConfig, load, scenario_keys
from mlsim.scenario.scenario_text import parse_text
from mlsim.scenario.words import Dispatcher
from tests.cli.conftest import COMMAND, REPOSITORY

EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def keys_of(metrics: Iterable[Metric]) -> list[str]:
    return [key for metric in metrics for key in metric.keys]


@pytest.mark.parametrize("template", scenario_files.TEMPLATES)
def test_templates_are_valid_where_they_are_written(template: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / template
    scenario_files.init(template, out)
    for name, kind in scenario_files.TEMPLATES[template].yaml.items():
        text = (out / name).read_text()
        first, _, rest = text.partition("\n")
        assert first == f"# yaml-language-server: $schema={scenario_files.SCHEMAS[kind]}"
        schema = json.loads((out / scenario_files.SCHEMAS[kind]).read_text())
        document = parse_text(rest, name)
        assert not document.problems
        Draft202012Validator(schema).validate(document.value)
        if kind == "scenario":
            workload = load(out / name).workload
            assert workload.path is None or (out / workload.path).is_file()
    scenario_files.init(template, out)  # over the same files: they are left
    names = sorted(path for path in out.rglob("*") if path.is_file() and ".schema." not in path.name)
    names[0].unlink()
    scenario_files.init(template, out)
    assert names[0].is_file()
    for schema in out.glob("*.schema.json"):
        schema.write_text("{}")  # of another version: an editor's help is no reason to refuse
    scenario_files.init(template, out)
    changed = names[-1]
    changed.write_text(f"{changed.read_text()}# mine\n")
    with pytest.raises(InputError, match="already exists; nothing is overwritten"):
        scenario_files.init(template, out)
    assert changed.read_text().endswith("# mine\n")


def test_templates_are_the_examples_of_the_repository() -> None:
    home = Path(scenario_files.__file__).parent / "templates"
    assert (home / "quickstart.yaml").read_bytes() == (REPOSITORY / "scenarios/quickstart.yaml").read_bytes()
    assert (home / "quickstart.swf").read_bytes() == (REPOSITORY / "traces/quickstart.swf").read_bytes()


def test_a_command_of_an_example_names_files_that_it_writes(tmp_path: Path) -> None:
    for name, template in scenario_files.TEMPLATES.items():
        scenario_files.init(name, tmp_path / name)
        for step in template.steps:
            words = shlex.split(step.format(*template.yaml), comments=True)
            named = [word for word in words if re.search(r"\.(yaml|py)$|^scenarios/", word)]
            missing = [word for word in named if not (tmp_path / name / word).exists()]
            assert not missing, step


@pytest.mark.slow
@pytest.mark.parametrize("template", ["researcher", "operator", "developer"])
def test_the_commands_of_an_example_run(template: str, tmp_path: Path) -> None:
    scenario_files.init(template, tmp_path)
    found = scenario_files.TEMPLATES[template]
    for step in found.steps:
        words = shlex.split(step.format(*found.yaml), comments=True)
        if words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], cwd=tmp_path, check=True)
        elif words[0] == "mlsim" and words[1:] != ["advise", "runs/SS"]:  # a run on MPI, which tests/mpi has
            subprocess.run([*COMMAND, *words[1:]], cwd=tmp_path, check=True, capture_output=True)
        elif words[0] == "cat":
            assert (tmp_path / words[1]).is_file()


def test_all_scenarios_that_pages_name_are_written(tmp_path: Path) -> None:
    scenario_files.init("scenarios", tmp_path)
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    for name in files:
        assert (tmp_path / name).read_bytes() == (REPOSITORY / name).read_bytes()
    named = {
        word.rstrip("/")
        for page in [*(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "scenarios").rglob("*.md")]
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        for word in re.findall(r"(?<!\S)(?:scenarios|traces)/[\w./+-]*", block)
    }
    assert len(named) > 30
    missing = {word for word in named if not (tmp_path / word).exists()}
    assert missing <= {"scenarios/studies/search/lublin.swf.gz", "traces/README.md"}  # generated; a page


def test_the_cluster_of_an_operator_is_one_machine(tmp_path: Path) -> None:
    """Accounting, slurm.conf and scenario agree, and the recorded schedule is possible on the machine."""
    scenario_files.init("operator", tmp_path)
    texts = {name: (tmp_path / name).read_text() for name in ("sacct.txt", "slurm.conf")}
    assert texts == {name: example_cluster.files()[name] for name in texts}
    assert example_cluster.files(seed=2)["sacct.txt"] != texts["sacct.txt"]
    scenario = load(tmp_path / "cluster.yaml")
    line = r"^NodeName=(\w+)\[01-(\d+)\] CPUs=(\d+) RealMemory=(\d+)$"
    groups = re.findall(line, texts["slurm.conf"], re.M)
    assert [(name, int(count), int(cores), int(memory) * 2**20) for name, count, cores, memory in groups] == [
        (group.name, group.count, group.cores, group.memory) for group in scenario.platform.nodes
    ]
    limits = dict(re.findall(r"^PartitionName=(\w+) .*MaxTime=(\d+):00:00", texts["slurm.conf"], re.M))
    changes = []
    for row in csv.DictReader(texts["sacct.txt"].splitlines(), delimiter="|"):
        submit, end = (datetime.fromisoformat(row[name]) for name in ("Submit", "End"))
        assert int(row["TimelimitRaw"]) <= 60 * int(limits[row["Partition"]])
        if row["Start"] == "None":
            assert row["State"].startswith("CANCELLED")
            assert row["ElapsedRaw"] == "0"
            continue
        start, cores = datetime.fromisoformat(row["Start"]), int(row["ReqCPUS"])
        assert submit <= start
        assert (end - start).total_seconds() == int(row["ElapsedRaw"]) <= 60 * int(row["TimelimitRaw"])
        changes += [(start, cores), (end, -cores)]
    assert len(changes) > 900
    assert max(accumulate(cores for _, cores in sorted(changes))) <= survey(scenario).cores
    assert survey(scenario).jobs == 500
    assert not survey(scenario).misfits


def test_without_otf2_the_example_asks_for_no_trace(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    scenario_files.init("quickstart", tmp_path)
    assert (
        "trace: none   # chunks needs: pip install 'mlsim[otf2]'"
        in (tmp_path / "quickstart.yaml").read_text()
    )
    assert load(tmp_path / "quickstart.yaml").output.trace == "none"


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'quickstart'"):
        scenario_files.init("quikstart", tmp_path)


def test_every_extra_has_a_purpose() -> None:
    assert set(PURPOSES) == set(EXTRAS) - {"dev"}
    in_dev = {line.split(">")[0] for line in EXTRAS["dev"]}
    assert {line.split(">")[0] for extra in ("docs", "cp", "otf2", "mpi") for line in EXTRAS[extra]} <= in_dev


def test_extras_are_named_as_every_shell_takes_them() -> None:
    """Zsh takes brackets without quotes for a pattern, and refuses the command."""
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    named = set()
    for path in [*pages, *(REPOSITORY / "mlsim").rglob("*.py"), *(REPOSITORY / "mlsim").rglob("*.md")]:
        if path.name == "CHANGELOG.md":
            continue
        for quote, extra in re.findall(r"pip install ('?)mlsim\[([^\]]+)\]", path.read_text("utf-8")):
            assert quote, f"{path}: {extra}"
            named |= set(extra.split(","))
    assert named - {"{extra}"} <= set(EXTRAS)
    assert {"cp", "dask", "energy", "learning", "mpi", "mpich", "otf2", "pandas", "search", "study"} <= named


def test_the_doctor_tells_what_is_there(mlsim) -> None:
    found = json.loads(mlsim("doctor", "--json").out)
    assert found["mlsim"] == package.__version__
    assert found["packages"]["numpy"]
    assert set(found["extras"]) <= set(EXTRAS) - {"dev"}
    assert found["kernels"]["kept"] == sum(found["kernels"]["directories"].values())
    told = mlsim("doctor", env={"MLSIM_TRACES": "/nowhere"}).out
    assert "/nowhere: is not there" in told
    assert f"mlsim {package.__version__}" in told


def test_options_have_a_line_each_section_by_section(mlsim) -> None:
    lines = mlsim("list", "options").out.splitlines()
    assert [line for line in lines if line.endswith(":") and line[0] != " "] == [
        f"{name}:"
        for name in ("scenario", "platform", "workload", "batch", "application", "coordination", "output")
    ]
    assert sum(line.startswith("  ") for line in lines) == len(scenario_keys.options())
    (found,) = (line for line in lines if line.startswith("  platform.nodes.N.count (needed) "))
    assert found.endswith(" Number of nodes")
    assert [line.split()[0] for line in lines if "backfill=" in line] == ["batch.backfill=none"]


def test_options_of_a_section_and_whole_meanings(mlsim) -> None:
    lines = mlsim("list", "options", "batch.fairshare").out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == [
        "batch.fairshare",
        "batch.fairshare.by=user",
        "batch.fairshare.half_life=7",
    ]
    whole = mlsim("list", "options", "batch.fairshare", "--long").out
    assert re.search(r"batch\.fairshare\.by +user, group +user +Whose processor-seconds", whole)
    assert [row["key"] for row in json.loads(mlsim("list", "options", "batch.fairshare", "--json").out)] == [
        "batch.fairshare",
        "batch.fairshare.by",
        "batch.fairshare.half_life",
    ]
    assert "did you mean 'batch'? allowed: platform, workload, batch," in mlsim("list", "options", "bach").err
    assert mlsim("list", "policies", "--long").code == 2


def listed(
    monkeypatch: pytest.MonkeyPatch, what: Literal["techniques", "policies", "metrics"], width: int
) -> str:
    """Return a list as a terminal of this width shows it."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(command_output, "_terminal", [])
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        listing.list_(what)
    return out.getvalue()


def test_lists_that_do_not_fit_have_an_entry_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    out = listed(monkeypatch, "techniques", 80)
    assert "FAC2\n  meaning: factoring by halves\n" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "FAC2\n" not in listed(monkeypatch, "techniques", 1000)


def test_lists_fit_into_narrow_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("policies", "metrics"):
        assert max(map(len, listed(monkeypatch, what, 50).splitlines())) <= 50
        assert max(map(len, listed(monkeypatch, what, 90).splitlines())) <= 90


def test_in_a_pipe_each_row_of_a_list_is_one_line(mlsim) -> None:
    lines = mlsim("list", "techniques", env={"COLUMNS": "80"}).out.splitlines()
    assert len(lines) == 2 + len(listing.rows_of("techniques")[1])
    assert any(line.startswith("FAC2 ") and "factoring by halves" in line for line in lines)


@pytest.mark.parametrize("what", [None, "techniques", "metrics"])
def test_lists_as_json(what: Literal["techniques", "metrics"] | None, capsys) -> None:
    listing.list_(what, json_=True)
    rows = json.loads(capsys.readouterr().out)
    if what is None:
        assert rows == [*get_args(listing.Listing)]
    else:
        assert len(rows) == len(listing.rows_of(what)[1])
        assert all(isinstance(row, dict) for row in rows)


def test_check_as_json(mlsim, small: Path) -> None:
    done = mlsim("check", "small.yaml", "--json", "--resolved")
    found = json.loads(done.out)
    assert (found["nodes"], found["cores"], found["jobs"]) == (4, 16, 4)
    assert found["scenario"]["batch"]["policy"] == "FCFS"


def test_study_as_json(mlsim, small: Path) -> None:
    (small / "study.yaml").write_text(
        "of: runs\nbase: small.yaml\nvary: {batch.policy: [FCFS, SPF]}\nmetrics: {makespan: makespan}\n"
    )
    found = json.loads(mlsim("study", "study.yaml", "--json", "--out", "kept").out)
    assert [run["labels"]["policy"] for run in found["runs"]] == ["FCFS", "SPF"]
    assert all(run["metrics"]["makespan"] > 0 and run["failed"] is None for run in found["runs"])
    refused = mlsim("study", "study.yaml", "--json", "--dry-run", "--out", "kept")
    assert refused.code == 2
    assert "--json prints results, and --dry-run has none" in refused.err


@pytest.mark.parametrize("key", ["batch.policy", "application.technique", "seed"])
def test_several_values_for_one_key_point_to_studies(key: str, mlsim, small: Path) -> None:
    done = mlsim("check", "small.yaml", "--set", f"{key}=[1, 2]")
    assert done.code == 2
    assert f"a study compares several: `mlsim init study`, and in it vary: {{{key}: [...]}}" in done.err


def test_without_ortools_its_dispatchers_are_refused_and_others_are_not(monkeypatch) -> None:
    monkeypatch.setattr(planning_dispatcher, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'mlsim\[cp\]'"):
        planning_dispatcher.make_planner(Dispatcher.HCP19, CpConfig())
    with pytest.raises(InputError, match="ortools is not installed"):
        planning_dispatcher.make_planner(Dispatcher.CP, CpConfig(solve_jobs=3))
    assert planning_dispatcher.make_planner(Dispatcher.LISTS, CpConfig())


_WITHOUT = """
import sys
for name in "fcntl resource pwd grp termios ortools otf2 mpi4py pandas scipy sklearn".split():
    sys.modules[name] = None
import signal, os
del signal.SIGHUP
del os.pread, os.pwrite, os.O_NONBLOCK, os.O_CLOEXEC
"""


def test_a_run_needs_no_module_of_unix_alone_and_no_extra(small: Path) -> None:
    program = _WITHOUT + "from mlsim.cli.main import main; main()"
    words = ("run", "small.yaml", "--set", "output.trace=none", "--out", "run")
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=small,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (small / "run" / "summary.json").is_file()


def test_the_version_is_told_alike() -> None:
    citation = (REPOSITORY / "CITATION.cff").read_text()
    assert f"\nversion: {package.__version__}\n" in citation
    for field in ("cff-version: 1.2.0", "message:", "title:", "authors:", "type: software", "license: MIT"):
        assert f"\n{field}" in f"\n{citation}"
    assert f"version = {{{package.__version__}}}" in (REPOSITORY / "docs" / "support.md").read_text()


def test_completion_knows_the_commands() -> None:
    environment = {
        **os.environ,
        "_MLSIM_COMPLETE": "complete_bash",
        "COMP_WORDS": "mlsim do",
        "COMP_CWORD": "1",
    }
    program = "import sys; sys.argv = ['mlsim']; from mlsim.cli.main import main; main()"
    done = subprocess.run(
        [COMMAND[0], "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["doctor"]


def test_every_metric_of_a_run_is_defined(small: Path) -> None:
    summary = package.run(small / "small.yaml", {"output.trace": "none", "output.passes": True}).summary
    known = keys_of(SUMMARY)
    for key in _dotted(summary):
        assert any(key == name or key.startswith(f"{name}.") for name in known), key
    assert len(set(known)) == len(known)
    assert len(set(keys_of(LOOP))) == len(keys_of(LOOP))


def _dotted(value: object, key: str = "") -> list[str]:
    if not isinstance(value, dict) or not value:
        return [key]
    return [
        inner for name, item in value.items() for inner in _dotted(item, f"{key}.{name}" if key else name)
    ]


def test_no_words_of_the_help_are_taken_for_markup() -> None:
    """Rich leaves out what looks like a tag, such as "[default: all]"; defaults in words are show_default."""
    import click
    from rich.text import Text
    from typer.main import get_command

    from mlsim.cli.commands import program

    def texts(command: click.Command, name: str) -> list[tuple[str, str]]:
        found = [(name, command.help or "")]
        for parameter in command.params:
            found.append((f"{name} {parameter.name}", getattr(parameter, "help", None) or ""))
        for child, other in getattr(command, "commands", {}).items():
            found += texts(other, f"{name} {child}")
        return found

    every = texts(get_command(program()), "mlsim")
    assert len(every) > 300
    assert [name for name, text in every if Text.from_markup(text).plain != text] == []
    shown = subprocess.run([*COMMAND, "study", "run", "--help"], capture_output=True, text=True, check=True)
    words = " ".join(shown.stdout.replace("│", " ").split())
    assert "[default: (as many as cores, 1 if all is done soon)]" in words


def test_the_help_shows_values_by_kind_and_no_types_of_python(capsys) -> None:
    from typer.main import get_command

    from mlsim.cli.commands import PANELS, program

    def shown(command: Any, path: str, parent: Any = None) -> Iterable[tuple[str, str]]:
        context = command.make_context(path.split()[-1], [], parent=parent, resilient_parsing=True)
        print(command.get_help(context))
        yield path, capsys.readouterr().out
        for name, inner in getattr(command, "commands", {}).items():
            yield from shown(inner, f"{path} {name}", context)

    every = dict(shown(get_command(program()), "mlsim"))
    assert len(every) > 55
    for path, text in every.items():
        assert f"Usage: {path} [OPTIONS]" in text
        assert not re.search(r"<(bool|int|float|str|path|list)", text), path
    assert re.findall(r"─ ([A-Z][\w ]+) ─", every["mlsim"]) == ["Options", *PANELS]
    assert re.search(r"--quiet +-q +Print only errors", every["mlsim run"])
    assert re.search(r"--rca +on\|off\|both +Run with RCA", every["mlsim run"])
    assert re.search(r"KIND +What to draw. One of gantt, ", every["mlsim plot"])
    assert not {"rca", "policies", "profiles"} & set(
        re.findall(r"│ (\w+) ", every["mlsim"] + every["mlsim learn"])
    )
    for old, new in OLD_NAMES.items():
        assert every[old].split("[OPTIONS]", 1)[1].split() == every[new].split("[OPTIONS]", 1)[1].split()


OLD_NAMES = {
    "mlsim rca listen": "mlsim mpi listen",
    "mlsim learn policies": "mlsim learn delays",
    "mlsim learn transfer": "mlsim learn mixed",
    "mlsim learn profiles": "mlsim learn energy-samples",
}


def test_the_module_is_the_program() -> None:
    words = [sys.executable, "-m", "mlsim", "run", "--otu"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "mlsim: --otu: python -m mlsim run has no such option; did you mean '--out'?"
    )


def test_the_doctor_knows_which_option_of_srun_an_open_mpi_needs() -> None:
    debian = "                MCA pmix: ext3x (MCA v2.1.0)\n                MCA pmix: flux (MCA v2.1.0)\n"
    assert pmi_of(debian) == ["pmix"]
    assert pmi_of(debian + "                MCA pmix: s2 (MCA v2.1.0)\n") == ["pmix", "pmi2"]
    assert pmi_of("                MCA pmix: isolated (MCA v2.1.0)\n") == []
