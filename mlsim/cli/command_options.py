"""Commands and their options: declarations, options that several share, values, errors of usage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import typer
from typer.core import TyperGroup

from mlsim.errors import InputError, user_code_error

if TYPE_CHECKING:
    from pydantic import ValidationError

    from mlsim.scenario import Scenario
    from mlsim.scenario.field_types import Dimension


Function = TypeVar("Function", bound=Callable[..., Any])
Word = TypeVar("Word", bound=StrEnum)
REQUIRED: Any = MISSING
"""Default of an option without which a command is refused."""


_errors: Any = import_module(typer.BadParameter.__module__)
"""The module of Typer's errors; until 0.25 it was one of Click, and Typer itself exports only a few."""


def option(text: str, *words: str, default: Any = None, key: str = "", **more: Any) -> Any:
    """Declare an option as a field of :class:`Options`, with its help text and the ``key`` that it sets.

    ``words``: its names, if the field's name is not enough, and the placeholder of its value in the help.
    """
    names = [word for word in words if word.startswith("-")]
    placeholder = next((word for word in words if word not in names), None)
    declared = typer.Option(
        ... if default is REQUIRED else default, *names, help=text, metavar=placeholder, **more
    )
    return field(default=default, metadata={"typer": declared, "key": key})


def argument(text: str, placeholder: str | None = None, *, default: Any = REQUIRED) -> Any:
    """Declare an argument as a field of :class:`Options`, with its help text."""
    declared = typer.Argument(... if default is REQUIRED else default, help=text, metavar=placeholder)
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


class Commands(TyperGroup):
    """Commands; none of the code that they call ends the process behind their back."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the words of a command line up to the command."""
        path = f"{parent.command_path} {info_name}" if parent else str(info_name)
        with _in_our_words(lambda: (self, path)):
            return super().make_context(info_name, args, parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the words name."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise InputError(_unknown(args[0], "command", ctx.command_path, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Execute the command."""

        def asked() -> tuple[Any, str]:
            return self.get_command(
                ctx, ctx.invoked_subcommand
            ), f"{ctx.command_path} {ctx.invoked_subcommand}"

        try:
            with _in_our_words(asked):
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
        add = super().command(name, **more)

        def added(function: Function) -> Function:
            add(_for_typer(function))
            return function

        return added


def _for_typer(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command as Typer reads it: with every field of its options as a parameter."""
    hints = get_type_hints(command, include_extras=True)
    classes = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and issubclass(kind, Options)
    }
    if not classes:
        return command

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
        yield Parameter(one.name, Parameter.KEYWORD_ONLY, default=declared, annotation=hints[one.name])


ScenarioFile = Annotated[Path, typer.Argument(help="Scenario file (YAML).")]
Log = Annotated[Path, typer.Argument(metavar="LOG", help="The workload to read.")]
Runs = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Directories of runs (`mlsim run --out`).")
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
        raise InputError(f"{name} {text}:{_allowed(text, [str(word) for word in kind])}") from None


def _allowed(word: str, known: Sequence[str]) -> str:
    """Return which words are known, and which of them may be meant, for a message on another one."""
    from mlsim.scenario.field_types import nearest

    return f"{nearest(word, known)} allowed: {', '.join(known)}"


@contextmanager
def _in_our_words(asked: Callable[[], tuple[Any, str]]) -> Iterator[None]:
    """Convert Typer's usage errors into ours; ``asked`` returns the command and its name."""
    try:
        yield
    except _errors.UsageError as error:
        if isinstance(error, getattr(_errors, "NoArgsIsHelpError", ())):
            raise  # no error: the help is printed
        command, path = (error.ctx.command, error.ctx.command_path) if error.ctx else asked()
        raise InputError(_said(error, command, path)) from error


def _said(error: Any, command: Any, path: str) -> str:
    again = f"try: {path} --help"
    if isinstance(error, _errors.NoSuchOption):
        return _no_such_option(error.option_name, error.ctx, command, path)
    if isinstance(error, _errors.MissingParameter):
        return f"{_missing(error)}; {again}"
    if isinstance(error, _errors.BadOptionUsage):  # an option that has a value too few or too many
        name = error.option_name
        shown = [_shown(parameter) for parameter in command.params if name in parameter.opts]
        if "does not take" in error.message or not shown:
            return f"{name}: takes no value; allowed: {name}; {again}"
        return f"{name}: needs a value; allowed: {shown[0]}; {again}"
    if isinstance(error, _errors.BadParameter):
        longest = max(_options(error.param), key=len, default="") if error.param else ""
        return f"{longest} {_worded(error)}" if longest else _worded(error)
    extra = re.fullmatch(r"Got unexpected extra argument\(?s?\)? \((?P<words>.*)\)", error.message, re.DOTALL)
    if extra:
        return f"{extra['words']}: more than {path} takes; allowed: {_usage_of(error.ctx)}; {again}"
    return f"{error.message.rstrip('.')}; {again}"


def _usage_of(context: Any) -> str:
    """Return how a command is typed: ``mlsim run [OPTIONS] {file}``."""
    return " ".join(context.get_usage().split()).removeprefix("Usage: ")


def _unknown(word: str, kind: str, path: str, known: list[str]) -> str:
    return f"{word}: {path} has no such {kind};{_allowed(word, known)}; try: {path} --help"


def _no_such_option(word: str, context: Any, command: Any, path: str) -> str:
    outer = context.parent if context else None
    while outer is not None:
        if any(word in parameter.opts for parameter in outer.command.params):
            rest = path.removeprefix(outer.command_path)
            first = outer.command_path
            return f"{word}: an option of {first}, which stands before the command; try: {first} {word}{rest}"
        outer = outer.parent
    known = [option for parameter in command.params for option in _options(parameter)]
    return _unknown(word, "option", path, [*known, "--help"])


def _options(parameter: Any) -> list[str]:
    """Return the names of an option, none of an argument."""
    return [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-")]


def _shown(parameter: Any) -> str:
    """Return an option or argument as one would type it: ``--out DIR``."""
    name = max(_options(parameter), key=len, default="")
    value = str(parameter.metavar or parameter.name).strip("{}[]<>")
    return f"{name} {value if parameter.metavar else value.upper()}" if name else value


def _missing(error: Any) -> str:
    if error.param is None:
        return str(error.format_message()).rstrip(".")
    shown = _shown(error.param)
    words = [item.value for item in error.param.shell_complete(error.ctx, "") if item.value]
    allowed = ", ".join(words) if words else shown if _options(error.param) else _usage_of(error.ctx)
    return f"{shown} is missing; allowed: {allowed}"


_NOT_ONE_OF = re.compile(r"Value error, '(?P<word>.*)' is not one of (?P<allowed>'.*')\.", re.DOTALL)


def _worded(error: Any) -> str:
    """Return what is wrong with a value: what is allowed, what may be meant."""
    message = error.message.removeprefix("Value error, ")
    found = _NOT_ONE_OF.fullmatch(error.message)
    if found is not None:
        word, allowed = found["word"], found["allowed"].strip("'").split("', '")
        return f"{word}:{_allowed(word, allowed)}"
    details = getattr(error.__cause__, "errors", None)  # pydantic's, where it has read the value
    if details is None:
        return f"{message}"
    detail = details()[0]
    kind = error.param.type_descriptor
    numbers = {int: "whole numbers", float: "numbers"}.get(kind.annotation, "")
    least, most = kind.parameter_info.min, kind.parameter_info.max
    if numbers and least is not None:
        numbers += f" from {least:g} up" if most is None else f" from {least:g} to {most:g}"
    elif numbers and most is not None:
        numbers += f" up to {most:g}"
    return f"{detail['input']}: {f'allowed: {numbers}' if numbers else message}"
