"""Edge lists: links between nodes and switches, by their names, from a scenario or from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from mlsim._files.lines import read_lines
from mlsim.errors import InputError
from mlsim.scenario import EdgeConfig

__all__ = ["Edge", "edges_of", "named_links", "read_edges"]

_COLUMNS = ("from", "to", "latency", "bandwidth")


class Edge(NamedTuple):
    """One link as it was written.

    Attributes
    ----------
    place
        Where it stands, for messages.
    a, b
        The names of its ends.
    latency, bandwidth
        In s and bit/s; None: those of the network.
    """

    place: str
    a: str
    b: str
    latency: float | None
    bandwidth: float | None


def edges_of(configs: Iterable[EdgeConfig]) -> list[Edge]:
    """Take over the links of a scenario."""
    return [
        Edge(f"platform.network.edges.{row}", config.a, config.b, config.latency, config.bandwidth)
        for row, config in enumerate(configs)
    ]


def read_edges(path: str | Path) -> list[Edge]:
    """Read a file of links, one a line: ``from,to`` or ``from,to,latency,bandwidth``.

    Latencies and bandwidths are written as in a scenario: ``500 ns``, or a number in s or bit/s; an empty
    one is the network's. Empty lines, lines that begin with ``#`` and a first line of the columns' names
    are skipped.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is no link; the message has the line's number.
    """
    path = Path(path)
    lines = read_lines(path, "edge list")
    edges = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")]
        if line.strip() and not line.lstrip().startswith("#") and not (number == 1 and _is_header(cells)):
            edges.append(_edge(cells, f"{path}:{number}"))
    return edges


def _is_header(cells: list[str]) -> bool:
    return tuple(cell.casefold() for cell in cells) == _COLUMNS[: len(cells)]


def _edge(cells: list[str], place: str) -> Edge:
    if not 2 <= len(cells) <= len(_COLUMNS):
        raise InputError(
            f"{place}: {len(cells)} values separated by commas; allowed: 2 to 4: {', '.join(_COLUMNS)}; "
            "e.g. n0,switch or n0,switch,1 us,10 Gbit/s"
        )
    try:
        config = EdgeConfig.model_validate(
            {key: cell for key, cell in zip(_COLUMNS, cells, strict=False) if cell or key in ("from", "to")}
        )
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(f"{place}: {problem['loc'][0]}: {problem['msg']}") from error
    return Edge(place, config.a, config.b, config.latency, config.bandwidth)


def named_links(
    edges: Iterable[Edge], names: list[str]
) -> Iterator[tuple[int | str, int | str, float | None, float | None]]:
    """Yield each link with the numbers of nodes in place of their names.

    Raises
    ------
    InputError
        If a link connects something with itself, or two links the same two ends.
    """
    numbers = {name: number for number, name in enumerate(names)}
    first: dict[frozenset[str], str] = {}
    for place, a, b, latency, bandwidth in edges:
        ends = frozenset((a, b))
        if a == b:
            raise InputError(f"{place}: a link from {a} to itself; allowed: links between two ends")
        if ends in first:
            raise InputError(f"{place}: {a} and {b} are linked already by {first[ends]}; keep one of them")
        first[ends] = place
        yield numbers.get(a, a), numbers.get(b, b), latency, bandwidth
