"""Layout of tables in the terminal: no number is cut or broken, in any width."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.text import Text

Cell = str | Text

_GAP = 2
_LEAST_LABEL, _LEAST_TEXT, _LEAST_TITLE = 12, 20, 10  # columns to which labels, text and titles are broken
_LEAST_PART = 6  # of a label, where the terminal has no room for a number beside longer parts
_DIGITS = re.compile(r"(?<!\w)[-+±]?\d[\d.,:]*(?:e[-+]?\d+)?|\d+(?:[.,:]\d+)*")


def broken(text: str, width: int) -> list[str]:
    """Break text into lines: at spaces, else after ``-_/=,.``, else anywhere but never inside a number.

    >>> broken("12,965 jobs, 3 h 36 min", 12)
    ['12,965 jobs,', '3 h 36 min']
    >>> broken("run-with-a-long-name-20240131", 10)
    ['run-with-', 'a-long-', 'name-', '20240131']
    """
    lines: list[str] = []
    for part in text.split("\n"):
        indent = part[: len(part) - len(part.lstrip())]
        while cell_len(part) > width and (at := _break(part, width)):
            lines.append(part[:at].rstrip())
            part = indent + part[at:].lstrip()
        lines.append(part)
    return lines


def _break(text: str, width: int) -> int:
    """Return where a line that is too long is broken; 0: nowhere."""
    numbers = [match.span() for match in _DIGITS.finditer(text)]
    first = len(text) - len(text.lstrip()) + 1
    best: dict[int, int] = {}
    for at in range(first, len(text)):
        if any(begin < at < end for begin, end in numbers):
            continue
        fits = cell_len(text[:at]) <= width
        if not fits and best:
            break
        rank = 3
        if text[at] == " ":  # a number stays beside its unit, if that is possible
            rank = 1 if text[at - 1].isdigit() and text[at + 1 : at + 2].isalpha() else 0
        elif text[at - 1] in "-_/=,.":
            rank = 2
        best[rank] = at
        if not fits:
            break
    return best[min(best)] if best else 0


class NumberTable:
    """A table for the terminal; columns that do not fit go to further blocks under the same first columns.

    Cells of numbers are in one line always. Titles and labels are broken first, where the width demands it.
    There is no header line if all titles are empty. The first ``keys`` columns are labels, which each block
    repeats; those of titles in ``left`` are text as well, aligned left; those in ``beside`` are never in
    another block than the column before them. ``ruled``: a line separates the titles from the rows.
    """

    def __init__(
        self,
        titles: Sequence[str],
        rows: Iterable[Sequence[Cell]] = (),
        *,
        keys: int = 1,
        left: Collection[str] = (),
        beside: Collection[str] = (),
        heading: str = "",
        ruled: bool = False,
    ) -> None:
        self._titles, self._keys, self._heading, self._ruled = list(titles), keys, heading, ruled
        self._left = [place < keys or title in left for place, title in enumerate(titles)]
        self._beside = [place > keys and title in beside for place, title in enumerate(titles)]
        self._rows: list[tuple[list[Cell], str]] = []
        self._ends: set[int] = set()
        for row in rows:
            self.add(*row)

    @property
    def text(self) -> str:
        """All titles and cells, for a legend."""
        return " ".join(" ".join(column) for column in self._columns())

    def add(self, *cells: Cell, style: str = "") -> None:
        """Add a row."""
        self._rows.append((list(cells), style))

    def end_section(self) -> None:
        """Leave a line free after the rows so far, if others follow."""
        self._ends.add(len(self._rows))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = max(_total(self._natural()), cell_len(self._heading))
        return Measurement(min(whole, options.max_width), whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if self._heading:
            yield from (_line(line, "bold") for line in broken(self._heading, options.max_width))
        for number, widths in enumerate(self._blocks(options.max_width)):
            if number:
                yield _line("")
            yield from self._lines(widths)

    def _natural(self) -> list[int]:
        return [max(map(cell_len, "\n".join(cells).split("\n"))) for cells in self._columns()]

    def _columns(self) -> list[list[str]]:
        """Return the texts of each column, its title first."""
        texts = [[cell.plain if isinstance(cell, Text) else cell for cell in row] for row, _ in self._rows]
        return [list(column) for column in zip(self._titles, *texts, strict=True)]

    def _blocks(self, width: int) -> list[dict[int, int]]:
        """Return the columns of each block, with their widths."""
        widths = self._natural()
        if _total(widths) <= width:
            return [dict(enumerate(widths))]
        least = list(widths)
        texts = self._columns()
        for place, (title, *cells) in enumerate(texts):
            if self._left[place]:
                target = _LEAST_LABEL if place < self._keys else _LEAST_TEXT
                least[place] = min(widths[place], _widest([title, *cells], target))
            else:
                own = max(map(cell_len, cells), default=0)
                widths[place] = least[place] = max(own, _widest([title], max(own, _LEAST_TITLE)))
        if _total(least) <= width:
            _shrink(widths, least, _total(widths) - width)
            return [dict(enumerate(widths))]
        labels, floor = widths[: self._keys], least[: self._keys]
        words = [max(map(cell_len, " ".join(cells).split()), default=0) for cells in texts]
        units = self._units()
        # Columns that stay together are not broken, others at their spaces where labels leave no more room.
        whole = [least if len(unit) > 1 else words for unit in units]
        for parts, ends in (([least] * len(units), floor), (whole, [_LEAST_PART] * self._keys)):
            most = (_total([of[place] for place in unit]) for of, unit in zip(parts, units, strict=True))
            _shrink(labels, ends, _total(labels) + _GAP + max(most, default=0) - width)
        narrow = [min(pair) for pair in zip(labels, floor, strict=True)]
        for place in range(self._keys, len(texts)):
            room = width - _total(narrow) - _GAP
            if least[place] > room:
                least[place] = _widest(texts[place], room)
        packed = [(of, self._packed(units, of, least, width)) for of in (labels, narrow)]
        labels, blocks = min(packed, key=lambda one: len(one[1]))
        return [self._filled(block, labels, least, widths, width) for block in blocks]

    def _packed(
        self, units: list[list[int]], labels: list[int], least: list[int], width: int
    ) -> list[list[int]]:
        """Return the columns of each block after its labels."""
        blocks: list[list[int]] = []
        for unit in units:
            together = [*labels, *(least[place] for place in (*(blocks[-1] if blocks else ()), *unit))]
            if blocks and _total(together) <= width:
                blocks[-1] += unit
            else:
                blocks.append([*unit])
        return blocks or [[]]

    def _units(self) -> list[list[int]]:
        """Return the columns after the keys, those together that stay in one block."""
        units: list[list[int]] = []
        for place in range(self._keys, len(self._titles)):
            if self._beside[place]:
                units[-1].append(place)
            else:
                units.append([place])
        return units

    def _filled(
        self, block: list[int], labels: list[int], least: list[int], widths: list[int], width: int
    ) -> dict[int, int]:
        """Return the widths of a block: its columns of text get the space that is left."""
        found = dict(enumerate(labels)) | {place: least[place] for place in block}
        for place in block:
            spare = width - _total(list(found.values()))
            found[place] += max(0, min(spare, widths[place] - found[place]))
        return found

    def _lines(self, widths: dict[int, int]) -> Iterator[Text]:
        if any(self._titles):
            titles: list[Cell] = [Text(self._titles[place], "bold") for place in widths]
            yield from self._row(titles, widths, "", top=False)
            if self._ruled:
                yield _line("─" * _total(list(widths.values())))
        for number, (cells, style) in enumerate(self._rows):
            if number and number in self._ends:
                yield _line("")
            yield from self._row([cells[place] for place in widths], widths, style)

    def _row(
        self, cells: Sequence[Cell], widths: dict[int, int], style: str, top: bool = True
    ) -> Iterator[Text]:
        """Lay out one row in as many lines as its labels and text need."""
        texts = [cell.plain if isinstance(cell, Text) else cell for cell in cells]
        parts = [broken(text, width) for text, width in zip(texts, widths.values(), strict=True)]
        height = max(map(len, parts), default=1)
        for number in range(height):
            line = Text(style=style, no_wrap=True, overflow="ignore")
            for cell, lines, (place, width) in zip(cells, parts, widths.items(), strict=True):
                row = number if top else number - height + len(lines)
                text = lines[row] if 0 <= row < len(lines) else ""
                own = str(cell.style) if isinstance(cell, Text) else "cyan" if place == 0 else ""
                space = " " * max(0, width - cell_len(text))
                line.append("" if self._left[place] else space).append(text, own or None)
                line.append((space if self._left[place] else "") + " " * _GAP)
            line.rstrip()
            yield line


def spaced(blocks: Iterable[RenderableType]) -> Group:
    """Lay out blocks with an empty line between them."""
    return Group(*list(chain.from_iterable((_line(""), block) for block in blocks))[1:])


def legend(signs: Iterable[tuple[str, str]], shown: str) -> str:
    """Explain the signs that occur in what is shown; signs of one meaning stand together.

    >>> legend((("*", "best"), ("▲ better", "by 1 %"), ("▼ worse", "by 1 %")), "12 ▲ ▼")
    '▲ better, ▼ worse: by 1 %'
    """
    words = set(shown.split())
    used = [(sign, text) for sign, text in signs if sign.split()[0] in words]
    return "; ".join(
        f"{', '.join(sign for sign, _ in same)}: {text}" for text, same in groupby(used, lambda one: one[1])
    )


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ignore")


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(0, len(widths) - 1)


def _widest(texts: Iterable[str], width: int) -> int:
    """Return the width of the widest line of texts that are broken to a width."""
    return max((cell_len(line) for text in texts for line in broken(text, width)), default=0)


def _shrink(widths: list[int], least: Sequence[int], over: int) -> None:
    """Make the widest columns narrower, none below its least width, until a total is reached."""
    while over > 0:
        free = [place for place, width in enumerate(widths) if width > least[place]]
        if not free:
            return
        widths[max(free, key=widths.__getitem__)] -= 1
        over -= 1
