"""Valid inputs made invalid: small changes of texts and of bytes, all drawn from one generator."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

__all__ = ["NASTY", "mutated", "nasty_value"]

NASTY = (
    *("", "-1", "0", "1", "-0.0", "+5", "--5", ".", "..", "0x10", "1_000", "1e", "1e9", "1e6", "1e18"),
    *("1000000000000000001", "9007199254740993", "9223372036854775808", "18446744073709551616"),
    *("1e308", "1.7e308", "-1e308", "1e-320", "1e400", "3e212", "9" * 25, "9" * 5000, "-" + "9" * 400),
    *("nan", ".nan", "NaN", "inf", ".inf", "-.inf", "Infinity", "-Infinity", "null", "~", "true", "off"),
    *("1 ns", "1e-300 s", "1e300 d", "5 parsecs", "10 GB", "1e400 s", "1 ms", "3 w", "2 Qbit/s"),
    *(
        "2020-99-99",
        "2020-01-01",
        "12:30:60",
        "!!int xyz",
        "!!float x",
        "!!binary x",
        "!!set {a}",
        "!!null x",
    ),
    *("!!python/object:os.system x", "!x y", "&a [*a]", "*a", "&a x", "<<: {a: 1}", "? x", "%YAML 1.1"),
    *("[", "]", "{", "}", "[1, 2", "{a: b}", "[[]]", "{a: {b: [1]}}", "[" * 50 + "]" * 50, "[" * 5000),
    *("~nosuchuser/x", "/dev/zero", "/dev/stdin", "/etc", "../..", "a" * 5000, "x/" * 2000, "x\0y", "."),
    *("é", "ﬀ", "😀", "٣", "²", "½", "\u2028", "\ufeff", "\x07", "\x1b[31m", "\r", "\t", "\x85"),
    *(
        "%s%n",
        "{}",
        "{0}",
        "{x.y}",
        "${HOME}",
        "`id`",
        "'",
        '"',
        "\\",
        "\\ud800",
        "\\x00",
        ": ",
        "- ",
        "#",
        "|",
    ),
    *(">", "@x", "a: b: c", ",", ",,,", ";", "==", "a=b", "x.py:y", "none", "all", "0-", "5-2", "0-99999999"),
    *("1x1", "0x0", "99999999x99999999", "4x", "1/0", "1:2", "10000000", "1000000"),
)
"""What a user, or somebody worse, might write anywhere."""

_TOKEN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[\w.+-]+")
Draw = np.random.Generator


def nasty_value(draw: Draw) -> str:
    """Draw one of them."""
    return NASTY[int(draw.integers(len(NASTY)))]


def mutated(content: bytes, draw: Draw, *, text: bool) -> bytes:
    """Change an input in one to three ways.

    Parameters
    ----------
    content
        A valid input.
    draw
        Random numbers.
    text
        Whether it is of words and lines: then most changes are of these.
    """
    ways = _TEXT_WAYS if text else _BYTE_WAYS
    for _ in range(int(draw.integers(1, 4))):
        way = ways[int(draw.integers(len(ways)))]
        content = way(content, draw)
    return content


def _place(content: bytes, draw: Draw) -> int:
    return int(draw.integers(len(content) + 1))


def _flip_bits(content: bytes, draw: Draw) -> bytes:
    changed = bytearray(content)
    for _ in range(int(draw.integers(1, 9)) if changed else 0):
        changed[int(draw.integers(len(changed)))] ^= 1 << int(draw.integers(8))
    return bytes(changed)


def _truncate(content: bytes, draw: Draw) -> bytes:
    return content[: _place(content, draw)]


def _cut_out(content: bytes, draw: Draw) -> bytes:
    place = _place(content, draw)
    return content[:place] + content[place + int(draw.integers(1, 40)) :]


def _repeat(content: bytes, draw: Draw) -> bytes:
    place, length = _place(content, draw), int(draw.integers(1, 60))
    piece = content[place : place + length]
    return content[:place] + piece * int(draw.integers(2, 50)) + content[place:]


def _overwrite(content: bytes, draw: Draw) -> bytes:
    place, length = _place(content, draw), int(draw.integers(1, 9))
    filler = (b"\xff", b"\x00", b"\x80", b"\x7f")[int(draw.integers(4))] * length
    return content[:place] + filler + content[place + length :]


def _insert_bytes(content: bytes, draw: Draw) -> bytes:
    place = _place(content, draw)
    return content[:place] + draw.bytes(int(draw.integers(1, 9))) + content[place:]


def _as_text(change: Callable[[str, Draw], str]) -> Callable[[bytes, Draw], bytes]:
    def changed(content: bytes, draw: Draw) -> bytes:
        text = change(content.decode("utf-8", "surrogateescape"), draw)
        return text.encode("utf-8", "surrogateescape")

    return changed


def _swap_token(text: str, draw: Draw) -> str:
    """Put something nasty in place of a word."""
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return nasty_value(draw)
    token = tokens[int(draw.integers(len(tokens)))]
    return text[: token.start()] + nasty_value(draw) + text[token.end() :]


def _borrow_token(text: str, draw: Draw) -> str:
    """Put one word of the text in place of another."""
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return text
    token, other = (tokens[int(draw.integers(len(tokens)))] for _ in range(2))
    return text[: token.start()] + other[0] + text[token.end() :]


def _lines(change: Callable[[list[str], int, Draw], None]) -> Callable[[bytes, Draw], bytes]:
    def changed(text: str, draw: Draw) -> str:
        lines = text.split("\n")
        change(lines, int(draw.integers(len(lines))), draw)
        return "\n".join(lines)

    return _as_text(changed)


def _drop(lines: list[str], row: int, _: Draw) -> None:
    del lines[row]


def _double(lines: list[str], row: int, _: Draw) -> None:
    lines.insert(row, lines[row])


def _exchange(lines: list[str], row: int, draw: Draw) -> None:
    other = int(draw.integers(len(lines)))
    lines[row], lines[other] = lines[other], lines[row]


def _indent(lines: list[str], row: int, draw: Draw) -> None:
    lines[row] = " " * int(draw.integers(1, 5)) + lines[row] if draw.integers(2) else lines[row].lstrip()


def _insert(lines: list[str], row: int, draw: Draw) -> None:
    lines.insert(row, nasty_value(draw))


def _nest(lines: list[str], row: int, draw: Draw) -> None:
    """Put the end of a line deep into lists or mappings."""
    depth = int(draw.choice([3, 30, 300, 3000]))
    head, colon, tail = lines[row].partition(":")
    opened, closed = (("[", "]"), ('{"a":', "}"))[int(draw.integers(2))]
    lines[row] = f"{head}{colon} {opened * depth}{tail}{closed * depth}"


_BYTE_WAYS = (_flip_bits, _flip_bits, _truncate, _cut_out, _repeat, _overwrite, _insert_bytes)
_TEXT_WAYS = (
    *(_as_text(_swap_token),) * 8,
    *(_as_text(_borrow_token),) * 3,
    *map(_lines, (_drop, _drop, _double, _exchange, _indent, _insert, _nest)),
    *(_flip_bits, _truncate, _cut_out, _repeat, _insert_bytes),
)
