"""Commands and their options: declarations, options that several share, values, errors of usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from mlsim.cli import completion
from mlsim.cli.usage_errors import allowed_words, in_our_words, unknown_word
from mlsim.errors import InputError, user_code_error

if TYPE_CHECKING:
    from pydantic import ValidationError

    from mlsim.scenario import Scenario
    from mlsim.scenario.field_types import Dimension


Function = TypeVar("Function", bound=Callable[..., Any])
Word = TypeVar("Word", bound=StrEnum)
REQUIRED: Any = MISSING
"""Default of an option without which a command is refused."""


def option(text: str, *words: str, default: Any = None, key: str = "", sets: str = "", **more: Any) -> Any:
    """Declare an option as a field of :class:`Options`, with its help text and the ``key`` that it sets.

    ``sets``: a key that the command sets by it in its own way. ``words``: its names, if the field's name is
    not enough, and the placeholder of its value in the help.
    """
    names = [word for word in words if word.startswith("-")]
    placeholder = next((word for word in words if word not in names), None)
    more.setdefault("autocompletion", completion.for_placeholder(placeholder))
    declared = typer.Option(
        ... if default is REQUIRED else default, *names, help=text, metavar=placeholder, **more
    )
    return field(default=default, metadata={"typer": declared, "key": key, "sets": sets or key})


def argument(text: str, placeholder: str | None = None, *, default: Any = REQUIRED) -> Any:
    """Declare an argument as a field of :class:`Options`, with its help text."""
    words = completion.for_placeholder(placeholder)
    first = ... if default is REQUIRED else default
    declared = typer.Argument(first, help=text, metavar=placeholder, autocompletion=words)
    return field(default=default, metadata={"typer": declared})


def flag(text: str, name: str, **more: Any) -> Any:
    """Declare an option without a value."""
    return option(text, name, default=False, **more)


def output(text: str, placeholder: str, **more: Any) -> Any:
    """Declare the option ``--out``."""
    return option(text, "--out", "-o", placeholder, **more)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(option, argument, flag, output)
)
@dataclass(kw_only=True, frozen=True)
class Options:
    """Base of the options of a command: each field is one parameter of its command line, in their order."""

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, frozen=True)(cls)

    def keys(self) -> dict[str, Any]:
        """Return the values that were given of options with a key, by key."""
        values = {one.metadata.get("key"): getattr(self, one.name) for one in fields(self)}
        return {key: value for key, value in values.items() if key and value is not None}

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the option that was given, not the key that it sets, in messages of this block."""
        try:
            yield
        except InputError as error:
            text = str(error)
            for one in fields(self):
                if (key := one.metadata.get("sets")) and getattr(self, one.name) is not None:
                    text = text.replace(f"--set {key}: ", f"--{one.name.replace('_', '-')}: ")
            raise InputError(text) from error


class _Argument(TyperArgument):
    """An argument in the help: its name and text describe it, without a type beside them."""

    def __init__(self, made: TyperArgument) -> None:
        vars(self).update(vars(made))

    def display_type_rich(self, ctx: Any) -> str | None:  # noqa: ARG002 - Typer's parameters
        """Return no type."""
        return None


class _Shown:
    """Mixin for the help of a command: flags without a value, arguments in capitals, whole paragraphs."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        paragraphs = (self.help or "").split("\n\n")
        self.help: str | None = "\n\n".join(" ".join(text.split()) for text in paragraphs) or None
        self.params: list[Any] = [
            _Argument(one) if isinstance(one, TyperArgument) else one for one in self.params
        ]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags with an empty placeholder; Typer's own among them, such as --help."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in params:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's parameters
        """Return what follows the command's name: ``[OPTIONS] FILE [RUN...]``."""
        pieces = ["[OPTIONS]"]
        for one in self.params:
            if isinstance(one, TyperArgument):
                text = one.metavar or one.name.upper()
                pieces.append(text if one.required or text.startswith("[") else f"[{text}]")
        return pieces


class Command(_Shown, TyperCommand):
    """A command."""


class Commands(_Shown, TyperGroup):
    """Commands; none of the code that they call ends the process behind their back."""

    kind = "command"
    """The word for one of them."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's parameters
        """Return what follows the group's name."""
        return ["[OPTIONS]", self.kind.upper(), "..."]

    def offered(self, ctx: Any) -> list[str]:
        """Return the names of the commands that the help shows, without earlier names."""
        return [name for name in self.list_commands(ctx) if not self.commands[name].hidden]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the words of a command line up to the command."""
        path = f"{parent.command_path} {info_name}" if parent else str(info_name)
        with in_our_words(lambda: (self, path)):
            return super().make_context(info_name, args, parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the words name."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise InputError(unknown_word(args[0], self.kind, ctx.command_path, self.offered(ctx)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Execute the command."""

        def asked() -> tuple[Any, str]:
            return self.get_command(
                ctx, ctx.invoked_subcommand
            ), f"{ctx.command_path} {ctx.invoked_subcommand}"

        try:
            with in_our_words(asked):
                return super().invoke(ctx)
        except (SystemExit, KeyboardInterrupt) as error:
            raise user_code_error("code that the command called has tried to end it", error) from error


class CommandGroup(typer.Typer):
    """A group of commands, which may take their parameters as :class:`Options`."""

    def __init__(
        self, name: str, text: str | None = None, cls: type[Commands] = Commands, **more: Any
    ) -> None:
        super().__init__(name=name, cls=cls, help=text, no_args_is_help=True, **more)

    def command(self, name: str | None = None, **more: Any) -> Callable[[Function], Function]:
        """Add a function as a command, under its own name where no other is given."""
        add = super().command(name, **({"cls": Command} | more))

        def added(function: Function) -> Function:
            add(_for_typer(function))
            return function

        return added

    def add(self, name: str, function: Callable[..., Any], **more: Any) -> None:
        """Add a function as a command under a name."""
        self.command(name, **more)(function)


def _for_typer(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command as Typer reads it: with every field of its options as a parameter."""
    hints = get_type_hints(command, include_extras=True)
    classes = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and issubclass(kind, Options)
    }
    for name in signature(command).parameters:
        for declared in getattr(hints[name], "__metadata__", ()):
            _show_kind(name, declared, hints[name])

    def called(**values: Any) -> Any:
        for name, kind in classes.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        return command(**values)

    def parameters() -> Iterator[Parameter]:
        for name, parameter in signature(command).parameters.items():
            if name in classes:
                yield from _parameters_of(classes[name])
            else:
                yield parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)

    found = Signature(list(parameters()))
    called.__dict__["__signature__"] = found
    called.__annotations__ = {name: parameter.annotation for name, parameter in found.parameters.items()}
    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    return called


def _parameters_of(kind: type[Options]) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        default = Parameter.empty if one.default is MISSING else one.default
        declared = one.metadata.get("typer", default)
        for found in (declared, *getattr(hints[one.name], "__metadata__", ())):
            _show_kind(one.name, found, hints[one.name])
        yield Parameter(one.name, Parameter.KEYWORD_ONLY, default=declared, annotation=hints[one.name])


_KINDS = {bool: "", int: "N", float: "X", str: "WORD", Path: "PATH"}
_MOST_WORDS = 6  # of a closed set that stand where the value stands; of more, the help text lists them


def _show_kind(name: str, declared: Any, hint: Any) -> None:
    """Set the placeholder of an option's value by its kind, and an argument's by its name, if it has none."""
    if getattr(declared, "metavar", "") is not None:
        return
    kind = _kind_of(hint)
    words = get_args(kind) if get_origin(kind) is Literal else ()
    is_argument = isinstance(declared, typer.models.ArgumentInfo)
    if words and (is_argument or len(words) > _MOST_WORDS):
        declared.help = f"{declared.help} One of {', '.join(words)}."
    if is_argument:
        declared.metavar = name.upper()
    else:
        declared.metavar = "|".join(words) if 0 < len(words) <= _MOST_WORDS else _KINDS.get(kind, "WORD")


def _kind_of(hint: Any) -> Any:
    """Return the type of one value: of ``Annotated[list[Path] | None, ...]``, ``Path``."""
    if get_origin(hint) in (None, Literal):
        return hint
    return _kind_of(next(one for one in get_args(hint) if one is not NoneType))


ScenarioFile = Annotated[Path, typer.Argument(help="Scenario file (YAML).")]
Log = Annotated[Path, typer.Argument(metavar="LOG", help="The workload to read.")]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Directories of runs (`mlsim run --out`).")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the scenario; may be repeated.",
        autocompletion=completion.settings,
    ),
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


def listed(text: str | None) -> list[str]:
    """Return the words that an option lists with commas; none if it is not given."""
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


_CODE = re.compile(r"""[^\s,:;+={}\[\]'"#&]+\.py(?=:[^\W\d])""")
_WITH_CODE = re.compile(r"(batch|application|workload|output)\b")
_PLAIN = re.compile(r"[\w./ -]*[\w./-]")
"""A path that stays what it is inside a value of YAML, and inside a sum of techniques."""


def scenario_of(file: Path, overrides: Iterable[str] | None) -> Scenario:
    """Read a scenario file with the values of ``--set``."""
    from mlsim.scenario import load, parse_overrides

    return load(file, parse_overrides(settings(overrides, file)))


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


def value_of(text: str) -> Any:
    """Read a value as a scenario file has it."""
    from mlsim.scenario.overrides import parse_override

    return parse_override(f"value={text}")[1]


def amount(name: str, text: str, dimension: Dimension, *, positive: bool = False) -> float:
    """Read a number with a unit; an InputError names the option."""
    from mlsim.scenario.amount_types import amount

    try:
        return amount(dimension, positive=positive).parse(value_of(text))
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error


def time_of(name: str, text: str | None, *, positive: bool = True) -> float | None:
    """Read a time in seconds, if one is given."""
    from mlsim.scenario.field_types import TIME

    return None if text is None else amount(name, text, TIME, positive=positive)


def option_problems(error: ValidationError, names: Mapping[str, str], skipped: str = "") -> InputError:
    """Return the problems of a section of a scenario, in terms of the options that it was made of.

    ``names``: options that are not named as their keys are; ``skipped``: a key without an option.
    """
    lines = []
    for detail in error.errors():
        first, *inner = [str(part) for part in detail["loc"] if part != skipped] or [""]
        place = names.get(first, f"--{first.replace('_', '-')}" if first else "")
        text = detail.get("ctx", {}).get("text", detail["msg"])
        lines.append(": ".join(filter(None, (place, ".".join(inner), text))))
    return InputError("\n".join(lines))


def word_of(kind: type[Word], text: str, name: str) -> Word:
    """Read a word of a closed set; an InputError names the option and what is allowed."""
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"{name} {text}:{allowed_words(text, [str(word) for word in kind])}") from None
