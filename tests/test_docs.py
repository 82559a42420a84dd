"""The documentation site: it builds, its blocks run, its commands exist, its numbers are those of studies."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import polars as pl
import pytest

import mlsim
from tools.site import reference

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))
ROOMS = sorted([*(REPOSITORY / "mlsim").rglob("*.md"), *(REPOSITORY / "scenarios").rglob("README.md")])
EVERY = sorted([*REPOSITORY.glob("*.md"), *PAGES, *ROOMS, *(REPOSITORY / "traces").glob("*.md")])
FULL = bool(os.environ.get("MLSIM_DOCS_FULL"))
"""Whether costly blocks run as well: ``make docs-full``."""

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>\n]+) -->\n)?^```(?P<kind>sh|python|console)\n(?P<code>.*?)^```", re.M | re.S
)
_MARKS = re.compile(r"costly|(?:costly, )?needs: (?:mpi|otf2)|elsewhere: .{10,}|file: [\w.-]+")


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    kind: str
    code: str
    mark: str

    def runs(self) -> bool:
        """Whether it is executed here and now."""
        if "needs: mpi" in self.mark and not (importlib.util.find_spec("mpi4py") and _mpiexec()):
            return False
        if "needs: otf2" in self.mark and not importlib.util.find_spec("otf2"):
            return False
        return not self.mark.startswith("elsewhere") and (FULL or not self.mark.startswith("costly"))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(found["kind"], found["code"], found["mark"] or "") for found in _BLOCK.finditer(text)]


def executed(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.kind != "console"]


def _mpiexec() -> str:
    from mlsim.mpi.launch import find_launchers

    return next((launcher.words[0] for launcher in find_launchers().values()), "")


def _script(found: list[Block]) -> str:
    """Return one shell script of all blocks of a page that run."""
    lines = ["set -euo pipefail", 'mlsim() { "$MLSIM_TEST_PYTHON" -c "$MLSIM_TEST_MAIN" "$@"; }']
    for block in found:
        if block.runs():
            if block.mark.startswith("file: "):
                lines.append(
                    f"cat > {block.mark.removeprefix('file: ')} <<'END OF BLOCK'\n{block.code}END OF BLOCK\n"
                )
                continue
            python = f"\"$MLSIM_TEST_PYTHON\" - <<'END OF BLOCK'\n{block.code}END OF BLOCK\n"
            lines.append(python if block.kind == "python" else block.code)
    return "\n".join(lines)


def _name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if executed(page)], ids=_name)
def test_blocks_run(page: Path, tmp_path: Path) -> None:
    found = executed(page)
    if not any(block.runs() for block in found):
        pytest.skip("all of its blocks are costly or need what is not here; make docs-full")
    if any("scenarios/" in block.code or "traces/" in block.code for block in found if block.runs()):
        for name in ("scenarios", "traces"):
            (tmp_path / name).symlink_to(REPOSITORY / name)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MLSIM_TEST_PYTHON": sys.executable,
        "MLSIM_TEST_MAIN": "from mlsim.cli.main import main; main()",
    }
    done = subprocess.run(
        ["bash", "-c", _script(found)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_marks_are_known(page: Path) -> None:
    for block in blocks(page):
        assert not block.mark or _MARKS.fullmatch(block.mark), block.mark


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of every command of mlsim that the blocks of a page show."""
    for block in blocks(page):
        if block.kind == "python":
            continue
        for line in block.code.replace("\\\n", " ").splitlines():
            line = re.sub(r"(^|\s)#\s.*", "", line)
            for part in re.split(r"&&|\|(?!\|)|;|\$\(", re.sub(r"\s#\s.*", "", line.removeprefix("$ "))):
                part = part.strip().removeprefix("mpiexec -n 5 ")
                if not re.match(r"mlsim [a-z-]+( |$)", part) or "…" in part or line.startswith("# "):
                    continue
                try:
                    yield shlex.split(part, comments=True)[1:]
                except ValueError:  # a quotation that another part of the line ends
                    continue


@pytest.fixture(scope="module")
def program() -> object:
    from typer.main import get_command

    from mlsim.cli.commands import program

    return get_command(program())


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *PAGES, *ROOMS], ids=_name)
def test_commands_and_options_exist(page: Path, program: object) -> None:
    for words in commands(page):
        command, rest = program, list(words)
        while (known := getattr(command, "commands", None)) and rest and not rest[0].startswith("-"):
            if rest[0] not in known and "run" in known and command is not program:
                rest.insert(0, "run")  # mlsim study DIR
            assert rest[0] in known, f"{' '.join(words)}: no command {rest[0]}"
            command = known[rest.pop(0)]
        options = {"--help", "-h", "--version", "--debug"}
        for parameter in command.params:
            options |= {*parameter.opts, *parameter.secondary_opts}
        before_launcher = rest[: rest.index("--")] if "--" in rest else rest
        for word in before_launcher:
            if re.match(r"--?[a-z]", word) and not word.startswith("-n"):
                assert word.partition("=")[0] in options, f"{' '.join(words)}: no option {word}"


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as sites and code hosts make them."""
    text = re.sub(r"^(```+|~~~+).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        found.add(slug if slug not in found else f"{slug}-1")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", EVERY, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Pages that the site does not have, too; pages that only it has are made when it is built."""
    text = re.sub(r"^(```+|~~~+).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    made = {f"docs/{name}" for name in (*reference.pages(), "gallery.md")}
    for link in re.findall(r"\]\(([^()\s]+)\)", text):
        place, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / place).resolve() if place else page
        if target.is_relative_to(REPOSITORY) and str(target.relative_to(REPOSITORY)) in made:
            continue
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), link


def test_headlines_are_those_of_the_studies() -> None:
    """Every number of the page on fidelity stands on the page of its study."""
    page = REPOSITORY / "docs" / "fidelity.md"
    rows = re.findall(r"^\| \[([\w-]+)\]\(([^)]+)\) \|(.*)\|$", page.read_text(encoding="utf-8"), re.M)
    studies = {path.parent.name for path in (REPOSITORY / "scenarios" / "studies").glob("*/README.md")}
    assert len(rows) >= 20
    for name, link, cells in rows:
        study = (page.parent / link).read_text(encoding="utf-8")
        _, source, ours, _, check, _ = cells.split("|")
        for number in re.findall(r"-?\d+(?:,\d{3})*(?:\.\d+)?", f"{source} {ours} {check}"):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)", study), f"{name}: {number}"
    told = set(re.findall(r"studies/([\w-]+)/README", page.read_text(encoding="utf-8")))
    assert told <= studies


def _evidence() -> list[list[str]]:
    """Return headline, source, mlsim, evidence, held-out check and result of each row on fidelity."""
    page = (REPOSITORY / "docs" / "fidelity.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[[\w -]+\]\([^)]+\) \|(.*)\|$", page, re.M)
    return [[cell.strip() for cell in cells.split("|")] for cells in rows]


def test_evidence_of_each_headline_is_named() -> None:
    """A number that was chosen by agreement says so, and what it is worth on data that chose nothing."""
    rows = _evidence()
    words = [row[3] for row in rows]
    assert all(re.fullmatch(r"stated|fitted|held out|scanned, 1 of \d+", word) for word in words), words
    for headline, _, _, evidence, check, result in rows:
        if evidence in ("stated", "held out"):
            assert not check, f"{headline}: a check is for what was chosen"
        else:
            assert re.fullmatch(r"(agrees|denies): .*\d.*", check), f"{headline}: {check}"
        assert not (check.startswith("denies") and "holds" in result), headline
    assert words.count("held out") >= 12


def test_numbers_of_reading_a_run_are_those_of_the_run() -> None:
    """The page explains one run: every number of it that the run decides is held here, as the page has it."""
    scenario = REPOSITORY / "scenarios" / "quickstart.yaml"
    run = mlsim.run(scenario, {"output.trace": "none"})
    fac2 = mlsim.run(scenario, {"output.trace": "none", "application.technique": "FAC2"})
    jobs, wait, summary = run.jobs, run.summary["wait_time"], run.summary
    job16, last = (jobs.row(by_predicate=pl.col("job_id") == job, named=True) for job in (16, 179))
    loop16, balanced16 = (
        found.table("loops").row(by_predicate=pl.col("job_id") == 16, named=True) for found in (run, fac2)
    )
    held = run.table("occupancy").filter(pl.col("job_id") == 16)["end_time"]
    longest = jobs.sort("wait_time", descending=True).head(8)
    wide = jobs.filter(pl.col("processors") >= 64)["wait_time"]
    others = jobs.filter(pl.col("processors") < 64)["wait_time"]
    changes = [(t, 1) for t in jobs["submit_time"]] + [(t, -1) for t in jobs["start_time"]]
    lengths = list(accumulate(change for _, change in sorted(changes)))
    peak = sorted(changes)[lengths.index(max(lengths))][0]
    shares = summary["utilization"]
    idle = (shares["allocated"] - shares["busy"]) / shares["allocated"]
    trace_busy = run.table("loops")["busy"].sum()
    slowdown, given = summary["slowdown"], summary["coordination"]
    steps = summary["loops"]["steps"]
    expected = [
        f"submitted at {job16['submit_time'] / 60:.0f} min and starts at {_clock(job16['start_time'])}",
        f"released from {_clock(held.min())} on",
        f"continues on the slow nodes until {_clock(held.max())}",
        f"from {_clock(last['start_time'])} on, when job 179 starts. "
        f"It runs until {_clock(last['end_time'])}",
        f"{shares['allocated']:.1%} of the cores are\nallocated and {shares['busy']:.1%} busy, so "
        f"{shares['allocated'] - shares['busy']:.1%} of the machine",
        f"longest at {_clock(peak)}, with {max(lengths)} jobs",
        f"| {summary['makespan']:,.0f} s |",
        f"mean {wait['mean']:,.0f} s, median {wait['median']:,.0f} s, p90 {wait['p90']:,.0f} s",
        f"mean {slowdown['mean']:.1f}, p99 {slowdown['p99']:.1f}",
        f"mean {summary['loops']['imbalance']['mean']:.1f} % | share of a loop's time",
        f"{given['releases']} nodes released early by {given['jobs_releasing']} jobs, "
        f"{given['released_node_seconds'] / 3600:.1f} node-hours",
        f"is the imbalance, {1 - loop16['mean_finish'] / loop16['max_finish']:.1%}.",
        f"is {loop16['mean_finish']:,.0f} s of {loop16['max_finish']:,.0f} s",
        f"takes {balanced16['max_finish']:,.0f} s, with an imbalance of "
        f"{1 - balanced16['mean_finish'] / balanced16['max_finish']:.1%}; "
        f"the mean finish time is {balanced16['mean_finish']:,.0f} s",
        f"its {balanced16['steps']:,} chunks",
        f"Job {longest['job_id'][0]} waits longest, {longest['wait_time'][0]:,.0f} s for 8 nodes",
        f"The {len(wide)} jobs of this size wait {wide.mean():,.0f} s on average, "
        f"all others {others.mean():,.0f} s",
        f"`chunk` has {steps:,} visits and {trace_busy:,.0f} s",
        f"By the summary, (80.1 - 69.1) / 80.1 = {idle:.1%}",
        f"= {988_482 / (trace_busy + 988_482):.1%}. By the summary",
    ]
    text = (REPOSITORY / "docs" / "reading-a-run.md").read_text().replace(" %", "%")
    missing = [words for words in expected if words.replace(" %", "%") not in text]
    assert not missing
    assert (longest["processors"] >= 64).sum() == 7
    starts = jobs.filter(pl.col("start_time").is_between(held.min(), held.min() + 60))
    assert len(starts) == 8


def _clock(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra docs: pip install 'mlsim[docs]'")
    pytest.importorskip("material", reason="the site needs the extra docs: pip install 'mlsim[docs]'")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--quiet",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = tmp_path / "site"
    for page in ("tutorial.html", "gallery.html", "reference/keys/batch.html", "reference/api.html"):
        assert (made / page).stat().st_size > 5000, page
    assert "FAC2" in (made / "reference" / "techniques.html").read_text(encoding="utf-8")
    assert list(made.glob("gantt-*.png"))


def test_the_way_of_a_run_names_files_and_functions_that_are_there() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| (.+?) \| (.*?) \|$",
        (REPOSITORY / "docs/explanation/how-a-run-works.md").read_text(),
        re.M,
    )
    named = [
        (re.findall(r"`([\w/]+\.py)`", files), re.findall(r"`([\w.]+)`", names)) for files, names in rows[1:]
    ]
    assert sum(map(len, (files for files, _ in named))) > 20
    for files, names in named:
        sources = "".join((REPOSITORY / "mlsim" / file).read_text() for file in files)
        for name in names if files else ():
            assert re.search(rf"(def|class) {name.rpartition('.')[2]}\b", sources), (files, name)


_OF_OTHERS = {"scheduler_class.py", "Backfill.py"}
"""Files of other simulators that pages name."""


def test_modules_that_pages_name_are_there() -> None:
    folders = ("mlsim", "tests", "tools", "scenarios", "docs")
    files = {f"/{path.as_posix()}" for folder in folders for path in (REPOSITORY / folder).rglob("*.py")}
    files |= {f"/{path.name}" for path in REPOSITORY.glob("*.py")}
    missing = []
    for page in EVERY:
        text = page.read_text(encoding="utf-8")
        made = {f"/{name}" for name in re.findall(r"\bfile: (\S+\.py)", text)}
        named = set(re.findall(r"`([\w./-]+\.py)`", text)) - _OF_OTHERS
        missing += [
            f"{_name(page)}: {name}"
            for name in named
            if page.name != "CHANGELOG.md" and not any(file.endswith(f"/{name}") for file in files | made)
        ]
    assert not missing
