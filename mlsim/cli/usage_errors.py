"""Wrong command lines in mlsim's words: what was wrong, what is allowed, what to try."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import typer

from mlsim.errors import InputError

_errors: Any = import_module(typer.BadParameter.__module__)
"""The module of Typer's errors; until 0.25 it was one of Click, and Typer itself exports only a few."""


def allowed_words(word: str, known: Sequence[str]) -> str:
    """Return which words are known, and which of them may be meant, for a message on another one."""
    from mlsim.scenario.field_types import nearest

    return f"{nearest(word, known)} allowed: {', '.join(known)}"


@contextmanager
def in_our_words(asked: Callable[[], tuple[Any, str]]) -> Iterator[None]:
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
    """Return how a command is typed: ``mlsim run [OPTIONS] FILE``."""
    return " ".join(context.get_usage().split()).removeprefix("Usage: ")


def unknown_word(word: str, kind: str, path: str, known: list[str]) -> str:
    """Return that a command has no such option or command, and which it has."""
    return f"{word}: {path} has no such {kind};{allowed_words(word, known)}; try: {path} --help"


def _no_such_option(word: str, context: Any, command: Any, path: str) -> str:
    outer = context.parent if context else None
    while outer is not None:
        if any(word in parameter.opts for parameter in outer.command.params):
            rest = path.removeprefix(outer.command_path)
            first = outer.command_path
            return f"{word}: an option of {first}, which stands before the command; try: {first} {word}{rest}"
        outer = outer.parent
    known = [option for parameter in command.params for option in _options(parameter)]
    return unknown_word(word, "option", path, [*known, "--help"])


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
        return f"{word}:{allowed_words(word, allowed)}"
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
