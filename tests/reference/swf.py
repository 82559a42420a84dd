"""A slow, obvious reader of SWF, to hold the fast one against."""

from __future__ import annotations

import re

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WHOLE_COLUMNS = (0, 4, 7, 10, 11, 12, 13, 14, 15, 16)


def parse(text: str) -> tuple[list[list[float]], list[int], list[int]]:
    """Read a log's text: rows of 18 numbers, their line numbers, and the numbers of broken lines."""
    rows: list[list[float]] = []
    lines: list[int] = []
    broken: list[int] = []
    width = None
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if not words or words[0].startswith(";"):
            continue
        row = numbers(words)
        if row is None or width not in (None, len(words)):
            broken.append(number)
            continue
        width = len(words)
        rows.append(row)
        lines.append(number)
    return rows, lines, broken


def numbers(words: list[str]) -> list[float] | None:
    """The first 18 columns, or None if they make no job."""
    if len(words) < 18 or not all(NUMBER.fullmatch(word) for word in words[:18]):
        return None
    row = [float(word) for word in words[:18]]
    if any(abs(value) == float("inf") for value in row):
        return None
    if any(row[column] % 1 or abs(row[column]) > 2**53 for column in WHOLE_COLUMNS):
        return None
    if any(row[column] >= 2**53 for column in (1, 3, 8)):
        return None
    if row[0] < 0 or any(row[column] < 0 and row[column] != -1 for column in (1, 3)):
        return None
    return row
