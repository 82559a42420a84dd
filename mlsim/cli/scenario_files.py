"""``mlsim init``, ``check`` and ``schema``: scenario files, result directories, laws of schedules."""

import importlib.util
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

from mlsim._files import is_file, read_bytes, read_text
from mlsim.cli import command_options as cli
from mlsim.cli import completion, example_cluster
from mlsim.cli.command_output import ids_of, new_files, print_json
from mlsim.errors import InputError, OutputError
from mlsim.experiment import manifest
from mlsim.experiment.study.study_file import schema_of
from mlsim.scenario import dump, field_types, load, scenario_keys, scenario_text
from mlsim.workload.log_gaps import gap_sentences, other_counts
from mlsim.workload.workload_columns import workload_schema


class _CheckOptions(cli.Options):
    file: cli.ScenarioFile
    set_: cli.Overrides = None
    resolved: bool = cli.flag("Print the scenario with every default filled in.", "--resolved")
    plugins: bool = cli.flag(
        "Execute the code that FILE names: make its classes, compile its techniques.", "--plugins"
    )
    json_: cli.Json = False
    laws: bool = cli.flag(
        "Of a run: judge its schedule as well, from its tables alone: capacity, drains, power cap, "
        "licences, arrivals, walltimes, the promise of its backfilling.",
        "--laws",
    )
    promise: Literal["easy", "conservative"] | None = cli.option(
        "With --laws: judge this promise whatever dispatcher made the schedule, as one of your own."
    )


def check(options: _CheckOptions) -> None:
    """Check FILE, and that the files it names are there and can be read, without simulating.

    Code that it names is parsed, and not executed unless --plugins is given. If FILE is the directory of
    a run, list its files that are damaged, missing or not of the run.
    """
    file, promise, laws = options.file, options.promise, options.laws
    if promise is not None and not laws:
        raise InputError(f"--promise {promise} is judged with --laws; give both")
    directories = _directories_of(file) if os.path.isdir(file) else []
    if directories:
        if options.set_ or options.resolved or options.plugins or options.json_:
            raise InputError(
                f"{file}: is a directory of results; --set and --resolved are for scenario files"
            )
        wrong = sum(map(_wrong_in, directories))
        if wrong:
            files = "1 file is" if wrong == 1 else f"{wrong} files are"
            raise InputError(f"{file}: {files} damaged or missing. Run the scenario again.")
        if laws:  # of runs whose files have been compared with their manifests
            runs = [directory for directory in directories if (directory / "scenario.yaml").is_file()]
            if not runs:
                raise InputError(
                    f"{file}: no run of jobs, whose schedule could be judged; `mlsim run` writes one"
                )
            broken = sum(_judge(directory, promise) for directory in runs)
            if broken:
                words = "1 law is" if broken == 1 else f"{broken} laws are"
                raise InputError(f"{file}: {words} broken")
    elif laws:
        raise InputError(f"{file}: --laws judges runs; give the directory of one, which `mlsim run` writes")
    else:
        _check_scenario(options)


def _check_scenario(options: _CheckOptions) -> None:
    """Check a scenario, and print its machine and workload."""
    from mlsim.cosim.simulation import survey
    from mlsim.experiment.run_directory import check_writers

    scenario = cli.scenario_of(options.file, options.set_)
    found = survey(scenario, options.plugins)
    check_writers(scenario, options.plugins)
    for line in scenario_keys.warnings_of(scenario):
        print(f"mlsim: note: {line}", file=sys.stderr)
    if options.json_:
        misfits = {reason: {"jobs": count, "first": ids} for reason, (count, ids) in found.misfits.items()}
        facts = {
            "schema_version": 1,
            "file": str(options.file),
            "nodes": found.nodes,
            "cores": found.cores,
            "largest_request": found.largest,
            "jobs": found.jobs,
            "notes": dict(found.notes),
            "misfits": misfits,
        }
        if found.applications:
            facts |= {"applications": found.applications, "unused_rules": list(found.unused)}
        print_json(facts | ({"scenario": scenario_text.plain(scenario)} if options.resolved else {}))
        return
    if options.resolved:
        print(dump(scenario), end="")
        return
    machine = f"{found.nodes} nodes, {found.cores} cores; a job may ask for {found.largest} processors"
    print(f"{options.file}: ok\n  platform: {machine}")
    if found.jobs is None:
        print(f"  workload: not read; --plugins executes {scenario.workload.format}, which reads it")
        return
    noted = "".join(f", {name} {jobs}" for name, jobs in other_counts(found.notes).items())
    print(f"  workload: {found.jobs} jobs{noted}")
    for sentence in gap_sentences(found.notes):
        print(f"    {sentence}")
    if found.applications:
        counted = ", ".join(f"{name} {jobs}" for name, jobs in found.applications.items())
        print(f"  applications, with their jobs: {counted}")
        for rule in found.unused:
            print(f"  {rule} matches no job that an earlier rule leaves")
    if not found.misfits:
        return
    counts, most = [count for count, _ in found.misfits.values()], 10
    print(f"  {sum(counts)} jobs can never start, and a run rejects them:")
    for reason, (count, ids) in list(found.misfits.items())[:most]:
        print(f"    {ids_of(ids, count)}: {reason}")
    if len(counts) > most:
        print(f"    {sum(counts[most:])} more jobs, for {len(counts) - most} more reasons; --json has all")


def _directories_of(path: Path) -> list[Path]:
    """Return the directories of results at a path: itself, or those in it."""
    for pattern in ("{}", "*/{}"):
        marks = ("manifest.json", "summary.json")
        found = {file.parent for mark in marks for file in path.glob(pattern.format(mark))}
        if found:
            return sorted(found)
    return []


def _wrong_in(directory: Path) -> int:
    """Compare the files of a directory with its manifest; count what is damaged or missing."""
    if not os.path.lexists(directory / manifest.MANIFEST) and not manifest.expects_manifest(directory):
        name = manifest.MANIFEST
        print(f"{directory}: there is no {name}; it was written by mlsim 0.1.0, and cannot be verified")
        return 0
    found = manifest.verify(directory)
    words = {"damaged": found.damaged, "missing": found.missing, "not of the run": found.foreign}
    for word, names in words.items():
        for name in names:
            print(f"{directory / name}: {word}")
    wrong = len(found.damaged) + len(found.missing)
    state = "damaged" if wrong else "ok"
    print(f"{directory}: {state}; {found.whole} files are as they were written")
    return wrong


def _judge(directory: Path, promise: str | None) -> int:
    """Judge one run by every law (or another ``promise`` of backfilling); return how many it breaks."""
    from mlsim.record.parquet_tables import read_tables
    from mlsim.verify import judge

    # Only tables that a law reads: those of loops may be large.
    records = read_tables(directory, without=("chunks", "pes", "loops", "messages", "passes", "solves"))
    scenario = load(directory / "scenario.yaml")
    if len(records.nodes.name) != scenario.platform.n_nodes:
        raise InputError(
            f"{directory}: {len(records.nodes.name)} nodes in nodes.parquet, {scenario.platform.n_nodes} in "
            "scenario.yaml: are they of one run? Run the scenario again."
        )
    broken = 0
    for verdict in judge(records, scenario, promise):
        broken += not verdict.is_kept
        if verdict.reason:
            print(f"  {verdict.law}: not judged: {verdict.reason}")
            continue
        state = "kept" if verdict.is_kept else f"BROKEN, {verdict.count} breaches"
        print(f"  {verdict.law}: {state}; {verdict.judged}")
        for breach in verdict.breaches:
            print(f"    {breach}")
        if verdict.count > len(verdict.breaches):
            print(f"    ... and {verdict.count - len(verdict.breaches)} more")
    return broken


FileKind = Literal["scenario", "loop", "study"]
SchemaKind = Literal["scenario", "loop", "study", "workload"]


def schema(
    kind: Annotated[
        SchemaKind | None,
        typer.Argument(
            help="Which files: loop is what mlsim loop and mlsim mpi run read, study what mlsim study, "
            "workload a job in the jobs.parquet of a workload directory. Default: scenario."
        ),
    ] = None,
    for_: Annotated[SchemaKind | None, typer.Option("--for", help="The same, as an option.")] = None,
) -> None:
    """Print the JSON schema of scenario files, or of loops, studies or workloads, for editors."""
    if kind is not None and for_ is not None and kind != for_:
        raise InputError(f"mlsim schema {kind} --for {for_}: give one of them")
    wanted = kind or for_ or "scenario"
    print_json(workload_schema() if wanted == "workload" else schema_of(wanted))


_HOME = Path(__file__).parent / "templates"
# The scenarios of the repository: a wheel has them among the templates.
SCENARIOS = next(
    place for place in (_HOME / "scenarios", Path(__file__).parents[2] / "scenarios") if place.is_dir()
)
# Of their files, without pages and pictures.
_SUFFIXES = (".yaml", ".csv", ".csv.gz", ".py", ".sh", ".sbatch", ".txt")
# File with the schema, by what a YAML file is for.
SCHEMAS = {kind: f"{kind}.schema.json" for kind in ("scenario", "loop", "study")}


@dataclass(frozen=True, slots=True)
class Template:
    """An example: its YAML files with what each is for, other files, and the commands to begin with."""

    yaml: dict[str, str]
    others: tuple[str, ...] = ()
    steps: tuple[str, ...] = ("mlsim run {}",)  # of the first file
    made: Callable[[], dict[str, str]] | None = None  # the texts of files that no template holds
    trees: dict[str, str] = field(default_factory=dict)  # folder of the scenarios to folder that is written


# The examples of ``mlsim init``, the default first, then one for each kind of user.
TEMPLATES = {
    # Two levels at once: 200 jobs, each a self-scheduled loop, on 16 nodes under EASY.
    "quickstart": Template({"quickstart.yaml": "scenario"}, ("quickstart.swf",)),
    # A user-defined policy against FCFS and SAF, on ten workloads of a model, with intervals.
    "researcher": Template(
        {"policies.yaml": "study", "machine.yaml": "scenario"},
        ("aged.py",),
        ("mlsim study {}", "cat runs/policies/statistics.md"),
    ),
    # The accounting of a Slurm cluster, and the same machine with more nodes.
    "operator": Template(
        {"cluster.yaml": "scenario"},
        ("sacct.txt", "slurm.conf"),
        (
            "mlsim check {}",
            "mlsim run {} --out runs/now",
            "mlsim run {} --set platform.nodes.0.count=28 --out runs/more",
            "mlsim compare runs/now runs/more",
        ),
        example_cluster.files,
    ),
    # A loop under several techniques: simulated, then for real on MPI.
    "developer": Template(
        {"loop.yaml": "loop"},
        ("mandelbrot.py",),
        (
            "mlsim loop {} --technique STATIC,SS,GSS,FAC2",
            "python mandelbrot.py",
            "mlsim loop {} --costs costs.csv --technique STATIC,SS,GSS,FAC2",
            "pip install 'mlsim[mpich]' && hash -r   # an MPI, unless mpi4py and mpiexec are there",
            "mpiexec -n 4 python mandelbrot.py SS",
            "mlsim advise runs/SS",
        ),
    ),
    # A published result and its reproduction: the ESP batch without and with RCA (Eleliemy 2021, Fig. 7.7).
    "paper": Template(
        {},
        steps=(
            "mlsim study study.yaml",
            "cat runs/slurm-esp/table.md   # compare on / off, the last table; its loops are shorter",
        ),
        trees={"studies/slurm-esp": ""},
    ),
    # Rigid jobs of a log, and half of the machine drained for maintenance.
    "maintenance": Template({"maintenance.yaml": "scenario"}, ("quickstart.swf",)),
    # A year of jobs drawn from a model.
    "generated": Template({"generated.yaml": "scenario"}),
    # A user-defined scheduling policy.
    "policy": Template({"policy.yaml": "scenario"}, ("policy.py", "jobs.csv")),
    # A loop alone, under a user-defined technique.
    "technique": Template(
        {"technique.yaml": "loop"},
        ("technique.py",),
        ("mlsim loop {} --technique STATIC,FAC2,./technique.py:thirds",),
    ),
    # Policies and techniques compared over seeds, with tables and a picture.
    "study": Template(
        {"study.yaml": "study", "quickstart.yaml": "scenario"}, ("quickstart.swf",), ("mlsim study {}",)
    ),
    # All scenarios and studies that the documentation names, in its folders.
    "scenarios": Template(
        {},
        steps=("mlsim run scenarios/generated.yaml", "mlsim study scenarios/studies/slurm-esp"),
        made=lambda: {"traces/quickstart.swf": read_text(_HOME / "quickstart.swf", "template")},
        trees={"": "scenarios"},
    ),
}


def init(
    template: Annotated[
        str,
        typer.Argument(
            help=f"Which example: {', '.join(TEMPLATES)}.",
            metavar="TEMPLATE",
            autocompletion=completion.of_words(list(TEMPLATES)),
        ),
    ] = "quickstart",
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where; it is made if it is not there.")
    ] = Path(),
) -> None:
    """Write an example with everything that it needs, to begin with.

    For researchers, operators of a Slurm cluster and application developers there is one each; paper is the
    reproduction of a published result, and scenarios has every file that the documentation names. Beside
    them goes the schema of their keys, which editors complete and check by. Nothing is overwritten; files
    that are there with the same content are left as they are.
    """
    found = TEMPLATES.get(template.lower())
    if found is None:
        hint = field_types.nearest(template, TEMPLATES)
        raise InputError(f"TEMPLATE: {template!r} is not known;{hint} allowed: {', '.join(TEMPLATES)}")
    contents = dict(_contents(found))
    try:
        for name in contents:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: cannot be made: {error.strerror}; give another directory") from error
    kept = {name for name, content in contents.items() if _is_there(out / name, content)}
    missing = {name: content for name, content in contents.items() if name not in kept}
    with new_files([out / name for name in missing]) as partial:
        for path, content in zip(partial, missing.values(), strict=True):
            path.write_bytes(content)
    folders = Counter(Path(name).parts[0] for name in contents if "/" in name)
    for folder, count in folders.items():
        print(f"{out / folder}: {count} {'file' if count == 1 else 'files'}")
    for name in contents:
        if "/" not in name:
            print(f"{out / name}{' (already there)' if name in kept else ''}")
    place = f"cd {shlex.quote(str(out))} && " if out != Path() else ""
    steps = [step.format(*found.yaml) for step in found.steps]
    print(f"\nNext: {place}{steps[0]}", *steps[1:], sep="\n      ")


def _is_there(path: Path, content: bytes) -> bool:
    """Whether a file has this content already; the schema may be that of another version of mlsim."""
    with suppress(OSError):
        return is_file(path) and (path.name in SCHEMAS.values() or read_bytes(path) == content)
    return False


def _contents(template: Template) -> Iterator[tuple[str, bytes]]:
    """Yield each file's name and content; workloads lie beside the scenario, unlike in the repository."""
    made = template.made() if template.made else {}
    for name, kind in template.yaml.items():
        text = made.get(name) or read_text(_HOME / name, "template").replace("path: ../traces/", "path: ")
        if importlib.util.find_spec("otf2") is None:
            text = text.replace(
                "trace: chunks\n", "trace: none   # chunks needs: pip install 'mlsim[otf2]'\n"
            )
        yield name, f"# yaml-language-server: $schema={SCHEMAS[kind]}\n{text}".encode()
    for name in template.others:
        yield name, (made.get(name) or read_text(_HOME / name, "template")).encode()
    yield from ((name, text.encode()) for name, text in made.items() if "/" in name)
    for source, folder in template.trees.items():
        for path in sorted((SCENARIOS / source).rglob("*")):
            inside = path.relative_to(SCENARIOS / source)
            if path.name.endswith(_SUFFIXES) and not {"runs", "__pycache__"} & {*inside.parts}:
                yield (Path(folder) / inside).as_posix(), read_bytes(path)
    for kind in dict.fromkeys(template.yaml.values()):
        yield SCHEMAS[kind], (json.dumps(schema_of(kind), indent=2) + "\n").encode()
