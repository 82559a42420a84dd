"""Completion of values in bash, zsh and fish: keys of ``--set`` and their values, words of the lists."""

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from typing import Any

Words = list[tuple[str, str]]  # with their meanings
Completer = Callable[[str], Words]

VARIABLE = "_MLSIM_COMPLETE"
"""Variable of the environment by which a shell asks for words; its value names the shell."""
_AMOUNT = re.compile(r"([\d.]+) (\w[\w/]*)")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
_UNQUOTED = re.compile(r"[\w./:,+~-]+")
_LONGEST_MEANING = 60


def of_list(what: Any, *, several: bool = False) -> Completer:
    """Make a completer by the names of a list of ``mlsim list``; ``several``: of words with commas."""

    def complete(incomplete: str) -> Words:
        from mlsim.cli.listing import rows_of

        before = incomplete[: incomplete.rfind(",") + 1] if several else ""
        names = [(row[0], row[1]) for row in rows_of(what)[1] if _UNQUOTED.fullmatch(row[0])]
        return [(before + name, _short(text)) for name, text in names if not name.startswith("./")]

    return complete


def of_words(words: list[str]) -> Completer:
    """Make a completer by words that the help shows."""

    def complete(incomplete: str) -> Words:
        return [(word, "") for word in words if word.startswith(incomplete)]

    return complete


def for_placeholder(placeholder: str | None) -> Completer | None:
    """Return the completer of values that the help shows by a placeholder; None where there is none."""
    if placeholder is None or placeholder in _COMPLETERS:
        return _COMPLETERS.get(placeholder or "")
    words = placeholder.split("|")
    return of_words(words) if len(words) > 1 and all(map(_WORD.fullmatch, words)) else None


def sections(incomplete: str) -> Words:
    """Complete a section of scenarios, or a key in it."""
    del incomplete
    from mlsim.scenario.scenario_keys import options

    keys = [(option.key, _short(option.description)) for option in options()]
    parts = {key.rsplit(".", depth)[0]: "" for key, _ in keys for depth in range(1, key.count(".") + 1)}
    return [*parts.items(), *keys]


def settings(incomplete: str) -> Words:
    """Complete ``KEY=VALUE``: a key; once it is the only one that begins so, its values."""
    key, equals, _ = incomplete.partition("=")
    keys = dict(_keys(key))
    found = (
        [name for name in keys if name == key] if equals else [name for name in keys if name.startswith(key)]
    )
    if len(found) != 1:
        return [(name, keys[name]) for name in found]
    # Two words at least before the value: after a single one, shells write a space.
    values = _values(found[0]) if equals else ["", *_values(found[0])]
    return [(f"{found[0]}={value}", keys[found[0]]) for value in values]


def _keys(begun: str) -> Iterator[tuple[str, str]]:
    """Yield keys with their meanings; places in lists as they were begun, or else 0."""
    from mlsim.scenario.scenario_keys import model_parameters, options

    places = begun.split(".")
    for option in (*options(), *model_parameters()):
        parts = option.key.split(".")
        for depth, part in enumerate(parts):
            if part == "N":
                typed = places[depth] if depth < len(places) else ""
                parts[depth] = typed if typed.isdecimal() else "0"
        yield ".".join(parts), _short(option.description)


def _values(key: str) -> list[str]:
    """Return values of a key: its words, or an example."""
    from mlsim.scenario import overrides, section_base

    _, field = overrides.look_up(section_base.split_key(key))
    kind = None if field is None else section_base.field_kind(field)
    if field is None or kind is None:
        return []
    words = list(dict.fromkeys(_words(kind.json())))
    if not words:
        from mlsim.scenario.scenario_keys import default_text

        default = default_text(field, kind)
        words = [
            str(value)
            for value in (default, section_base.example(field))
            if value not in ("", None, "needed")
        ]
    plain = [_AMOUNT.sub(r"\1\2", word) for word in words]  # a shell would break a word at a space
    return [word for word in plain if _UNQUOTED.fullmatch(word)]


def _words(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the words that a JSON schema allows."""
    parts = schema.get("anyOf", ())
    if schema.get("type") == "boolean" or {"type": "boolean"} in parts:
        yield from ("on", "off")
        return
    yield from map(str, schema.get("enum", ()))
    for part in parts:
        yield from _words(part)


def _short(text: str) -> str:
    """Return the beginning of a meaning, without what shells or Rich take for theirs."""
    line = re.split(r"[.;:(](?: |$)", text, maxsplit=1)[0].translate(dict.fromkeys(map(ord, "[]'\"`\\$()")))
    return line if len(line) <= _LONGEST_MEANING else f"{line[:_LONGEST_MEANING].rsplit(' ', 1)[0]} ..."


_COMPLETERS: dict[str, Completer] = {
    "KEY=VALUE": settings,
    "SECTION": sections,
    "TECHNIQUES": of_list("techniques", several=True),
    "MODELS": of_list("models", several=True),
    "POLICIES": of_list("policies", several=True),
    "PROFILE": of_list("profiles"),
    "FORMAT": of_list("formats"),
    "PREDICTOR": of_list("predictors"),
    "DISPATCHER": of_list("dispatchers"),
    "MODEL": of_list("workloads"),
}
"""Completers by the placeholder of a value, which is its kind."""


def answer(command: Callable[[], Any]) -> None:
    """Answer a shell by a program; bash, which divides words at ``=``, in parts of words as it has them."""
    if os.environ[VARIABLE] != "complete_bash":
        command()
        return
    text = os.environ.get("COMP_WORDS", "")
    words = text.split("\n" if "\n" in text else None) or [""]
    at = int(os.environ.get("COMP_CWORD", "0"))
    joined, current = _joined(words[: at + 1])
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    begun = joined[-1].removesuffix(current)
    if begun.startswith("-"):  # --set=KEY=VALUE
        begun = begun.partition("=")[2]
    shown = io.StringIO()
    try:
        with redirect_stdout(shown):
            command()
    finally:
        print("\n".join(line.removeprefix(begun) for line in shown.getvalue().splitlines()))


def _joined(words: list[str]) -> tuple[list[str], str]:
    """Join what bash has divided at ``=``; return the words, and what it takes for the current one."""
    joined: list[str] = []
    for word in words:
        if joined and (word == "=" or (joined[-1].endswith("=") and words[0] != joined[-1])):
            joined[-1] += word
        else:
            joined.append(word)
    return joined, "" if words[-1] == "=" else words[-1]
