"""``mlsim init``: an example to begin with, written where the user is."""

import importlib.util
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mlsim.cli.new_files import new_files
from mlsim.errors import InputError, OutputError

_HOME = Path(__file__).parent / "templates"
# File with the schema, by what a YAML file is for.
SCHEMAS = {kind: f"{kind}.schema.json" for kind in ("scenario", "loop", "study")}


@dataclass(frozen=True, slots=True)
class Template:
    """An example: its YAML files with what each is for, other files, and the command to begin with."""

    yaml: dict[str, str]
    others: tuple[str, ...] = ()
    command: str = "mlsim run {}"  # of the first file


# The examples of ``mlsim init``, the default first.
TEMPLATES = {
    # Two levels at once: 200 jobs, each a self-scheduled loop, on 16 nodes under EASY.
    "quickstart": Template({"quickstart.yaml": "scenario"}, ("quickstart.swf",)),
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
        "mlsim loop {} --technique STATIC,FAC2,./technique.py:thirds",
    ),
    # Policies and techniques compared over seeds, with tables and a picture.
    "study": Template(
        {"study.yaml": "study", "quickstart.yaml": "scenario"}, ("quickstart.swf",), "mlsim study {}"
    ),
}


def init(
    template: Annotated[
        str, typer.Argument(help=f"Which example: {', '.join(TEMPLATES)}.", metavar="TEMPLATE")
    ] = "quickstart",
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where; it is made if it is not there.")
    ] = Path(),
) -> None:
    """Write an example scenario, with its workload, to begin with.

    Beside it goes the schema of its keys, which editors complete and check by. Nothing is overwritten;
    files that are there with the same content are left as they are.
    """
    from mlsim._files import is_file, read_bytes
    from mlsim.scenario.field_types import nearest

    found = TEMPLATES.get(template.lower())
    if found is None:
        hint = nearest(template, TEMPLATES)
        raise InputError(f"TEMPLATE: {template!r} is not known;{hint} allowed: {', '.join(TEMPLATES)}")
    texts = dict(_texts(found))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: cannot be made: {error.strerror}; give another directory") from error
    missing = dict(texts)
    for name, text in texts.items():
        with suppress(OSError):
            if is_file(out / name) and read_bytes(out / name) == text.encode():
                del missing[name]
    with new_files([out / name for name in missing]) as partial:
        for path, text in zip(partial, missing.values(), strict=True):
            path.write_text(text, encoding="utf-8", newline="\n")
    print("\n".join(f"{out / name}{'' if name in missing else ' (already there)'}" for name in texts))
    place = "" if out == Path() else f"cd {out} && "
    print(f"\nNext: {place}{found.command.format(next(iter(found.yaml)))}")


def _texts(template: Template) -> Iterator[tuple[str, str]]:
    """Yield each file's name and text; workloads lie beside the scenario here, unlike in the repository."""
    from mlsim._files import read_text
    from mlsim.experiment.study.study_file import schema_of

    for name, kind in template.yaml.items():
        text = read_text(_HOME / name, "template").replace("path: ../traces/", "path: ")
        if importlib.util.find_spec("otf2") is None:
            text = text.replace(
                "trace: chunks\n", "trace: none   # chunks needs: pip install 'mlsim[otf2]'\n"
            )
        yield name, f"# yaml-language-server: $schema={SCHEMAS[kind]}\n{text}"
    for name in template.others:
        yield name, read_text(_HOME / name, "template")
    for kind in dict.fromkeys(template.yaml.values()):
        yield SCHEMAS[kind], json.dumps(schema_of(kind), indent=2) + "\n"
