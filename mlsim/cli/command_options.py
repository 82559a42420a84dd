"""Options that several commands share, and values of options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.scenario.unit_types import Dimension


ScenarioFile = Annotated[Path, typer.Argument(help="Scenario file (YAML).", show_default=False)]
Log = Annotated[Path, typer.Argument(metavar="LOG", help="The workload to read.", show_default=False)]
Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Directories of runs (`mlsim run --out`).", show_default=False),
]

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the scenario; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Lenient = Annotated[bool, typer.Option("--lenient", help="Skip broken lines.")]
Processes = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        help="Parallel processes.",
        show_default="as many as cores, 1 if all is done soon",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME,...", help="Names of the runs.", show_default="their directories' names"),
]
Tau = Annotated[float, typer.Option(help="Bound of bounded slowdowns, in s.", min=1e-9)]
Tolerance = Annotated[
    float, typer.Option(help="Relative difference up to which no run is called better.", min=0.0)
]

Word = TypeVar("Word", bound=StrEnum)


def listed(text: str | None) -> list[str]:
    """Return the words that an option lists with commas; none if it is not given."""
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


_CODE = re.compile(r"""[^\s,:;+={}\[\]'"#&]+\.py(?=:[^\W\d])""")
_WITH_CODE = re.compile(r"(batch|application|workload|output)\b")
_PLAIN = re.compile(r"[\w./ -]*[\w./-]")
"""A path that stays what it is inside a value of YAML, and inside a sum of techniques."""


def settings(texts: Iterable[str] | None, file: Path | None) -> list[str]:
    """Return what ``--set`` gives, files of code in the current directory by their whole path."""
    return [code_from_here(text, file) if _WITH_CODE.match(text.strip()) else text for text in texts or ()]


def code_from_here(text: str, file: Path | None) -> str:
    """Return a text of the command line in which files of code are also found from the current directory.

    What a scenario names is looked up beside it alone, as it must not depend on where a command is given.
    What is typed with a command is seen from where it is typed. A file beside the scenario ``file`` goes
    first; without one, names are seen from the current directory anyhow.
    """

    def whole(found: re.Match[str]) -> str:
        path = Path(found[0])
        if file is None or path.is_absolute() or found[0].startswith("~") or (file.parent / path).is_file():
            return found[0]
        here = Path.cwd() / path
        return str(here) if here.is_file() and _PLAIN.fullmatch(str(here)) else found[0]

    return _CODE.sub(whole, text)


def amount(option: str, text: str, dimension: Dimension, *, positive: bool = False) -> float:
    """Read a number with a unit; an InputError names the option."""
    from mlsim.scenario import parse_override
    from mlsim.scenario.amount_types import Amount

    try:
        return Amount(dimension, positive=positive).parse(parse_override(f"value={text}")[1])
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error


def word_of(kind: type[Word], text: str, option: str) -> Word:
    """Read a word of a closed set; an InputError names the option and what is allowed."""
    from mlsim.scenario.unit_types import nearest

    try:
        return kind(text)
    except ValueError:
        allowed = [str(word) for word in kind]
        hint = nearest(text, allowed)
        raise InputError(f"{option} {text}:{hint} allowed: {', '.join(allowed)}") from None
