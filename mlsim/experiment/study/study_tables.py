"""Layout of the tables and pictures of a study, and statistics over repetitions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from typing import NamedTuple, TypeVar

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.analysis.run_comparison import better_of
from mlsim.errors import InputError
from mlsim.experiment.result import run_times_of
from mlsim.experiment.study.axes import Point
from mlsim.experiment.study.study_file import INTERVALS
from mlsim.experiment.study.study_model import PictureSpec, Study, file_name, gantt_file
from mlsim.experiment.study.study_plan import StudyRow

Labels = tuple[str, ...]

_MOST_READ = 20  # scenarios of a study in which calibrated loops are looked for


class Table(NamedTuple):
    """A table as text: titles of the columns, and the cells of each line."""

    titles: list[str]
    lines: list[list[str]]
    keys: int = 1  # so many first columns are labels
    best: frozenset[tuple[int, int]] = frozenset()  # lines and columns of the best cells of their lines


def study_tables(study: Study, rows: Sequence[StudyRow]) -> dict[str, Table]:
    """Lay out every metric, and the first one relative to the study's combination, by title."""
    tables: dict[str, Table] = {}
    large = ".1f" if study.subject.kind == "loops" else ",.0f"

    def write(value: float) -> str:
        return format(value, large if abs(value) >= 100 else ".3g")

    for title in study.metrics:
        values = {labels_of(row): row.metrics[title] for row in rows}
        tables[title] = _table(study, values, _found(study, title), write, title)
    if study.relative:
        first = next(iter(study.metrics))
        found = _divided(study, _found(study, first), study.compared)
        ratios = relative_to(study, rows)
        tables[relative_title(study)] = _table(study, ratios, found, "{:.3f}".format, first)
    return tables


def notes_on(study: Study, tables: Iterable[Table], mark: str) -> str:
    """Explain intervals, marks of the best cells, and calibrated loops, as far as there are some."""
    tables = list(tables)
    notes = []
    if study.subject.kind == "runs":
        found = (run_times_of(scenario).get("calibrate_to") for _, scenario in study.cases)
        if recorded := next(filter(None, islice(found, _MOST_READ)), None):
            notes.append(f"loops calibrated: under {recorded}, they take the run times of the log")
    if any(" ± " in cell for table in tables for line in table.lines for cell in line):
        notes.append(f"±: 95 % interval of the mean ({INTERVALS[study.interval]}), its wider side")
    if any(table.best for table in tables):
        notes.append(f"{mark}: best of its row")
    return "; ".join(notes)


def labels_of(row: StudyRow) -> Labels:
    """Return the labels of a run, in order of the axes."""
    return tuple(row.labels.values())


def _found(study: Study, title: str) -> dict[Labels, float]:
    return {labels: values[title] for labels, values in study.reference.items() if title in values}


def relative_title(study: Study) -> str:
    """Return the title of the first metric divided by that of the study's combination."""
    base = ", ".join(f"{name}: {label}" for name, label in study.relative.items())
    return f"{next(iter(study.metrics))} / with {base}"


def relative_to(study: Study, rows: Sequence[StudyRow]) -> dict[Labels, float]:
    """Divide the first metric of each run by that of the run with the labels of ``relative``."""
    first = next(iter(study.metrics))
    values = {labels_of(row): row.metrics[first] for row in rows}
    return _divided(study, values, [axis.name for axis in study.axes])


def _divided(study: Study, values: Mapping[Labels, float], names: Sequence[str]) -> dict[Labels, float]:
    ratios: dict[Labels, float] = {}
    for labels, value in values.items():
        named = zip(names, labels, strict=True)
        below = values.get(tuple(study.relative.get(name, label) for name, label in named), 0.0)
        if below > 0.0:
            ratios[labels] = value / below
    return ratios


def _table(
    study: Study,
    values: Mapping[Labels, float],
    found: Mapping[Labels, float],
    write: Callable[[float], str],
    metric: str,
) -> Table:
    repeated = [axis.name == study.repetitions for axis in study.axes]
    cells: dict[Labels, dict[str, float]] = {}  # the values of repetitions, by their common labels
    for labels, value in values.items():
        common = tuple(label for label, inner in zip(labels, repeated, strict=True) if not inner)
        own = "".join(label for label, inner in zip(labels, repeated, strict=True) if inner)
        cells.setdefault(common, {})[own] = value
    spreads = {
        labels: spread_of(trimmed(of, study.trim), interval=study.interval) for labels, of in cells.items()
    }
    place = study.compared.index(study.columns)
    across = next(list(axis.points) for axis in study.axes if axis.name == study.columns)
    known = {key[place] for key in found}
    titles = study.compared[:place] + study.compared[place + 1 :]
    keys = len(titles)
    for label in across:
        titles += [label, "source"] if label in known else [label]
    lines: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for others in dict.fromkeys(key[:place] + key[place + 1 :] for key in cells):
        line, means = list(others), {}
        for label in across:
            full = (*others[:place], label, *others[place:])
            spread = spreads.get(full)
            if spread is not None and spread.runs:
                means[len(line)] = spread.mean
            line.append("" if spread is None else spread_cell(spread, write))
            if label in known:
                line.append(_number(found[full], write) if full in found else "")
        best |= {(len(lines), column) for column in _best_of(means, line, study.metrics[metric])}
        lines.append(line)
    return Table(titles, lines, keys, frozenset(best))


def _best_of(means: Mapping[int, float], line: Sequence[str], key: str) -> list[int]:
    """Return the columns with the best mean, and those that show the same; none where all do."""
    better = better_of(key.removesuffix("?"))
    if not means or not better:
        return []
    wanted = min(means.values()) if better == "less" else max(means.values())
    shown = {column: line[column].partition(" ± ")[0] for column in means}
    of_best = {shown[column] for column, mean in means.items() if mean == wanted}
    best = [column for column, text in shown.items() if text in of_best]
    return best if len(best) < len(shown) else []


def _number(value: float, write: Callable[[float], str]) -> str:
    return write(value) if math.isfinite(value) else ""


def spread_cell(spread: Spread, write: Callable[[float], str]) -> str:
    """Write a mean of three digits or more and beside it its interval, by the wider side, as precisely.

    >>> spread_cell(Spread(5, 123.4, 120.0, 119.3, 127.6), "{:.0f}".format)
    '123 ± 4'
    >>> spread_cell(Spread(5, 123.4, 120.0, 123.35, 123.46), "{:.0f}".format)
    '123.40 ± 0.06'
    >>> spread_cell(Spread(5, 0.68, 0.68, 0.66, 0.70), "{:.3g}".format)
    '0.680 ± 0.020'
    >>> spread_cell(Spread(5, 1.25, 1.25, 1.25, 1.25 + 2e-16), "{:.3g}".format)
    '1.25'
    """
    text = _number(spread.mean, write)
    half = max(spread.mean - spread.low, spread.high - spread.mean)
    if not half > _ROUNDING * abs(spread.mean):  # of one run it is not a number
        return text
    if "e" in text:
        return f"{text} ± {half:.2g}"
    decimals = len(text.partition(".")[2])
    if 0 < abs(spread.mean) < 100:
        decimals = max(decimals, 2 - math.floor(math.log10(abs(spread.mean))))
    if half < 0.5 * 10.0**-decimals:
        decimals = -math.floor(math.log10(half))
    return f"{spread.mean:,.{decimals}f} ± {half:,.{decimals}f}"


def markdown(table: Table) -> str:
    """Write a table in Markdown, numbers aligned right and the best in bold."""
    lines = [
        [f"**{cell}**" if (row, column) in table.best else cell for column, cell in enumerate(line)]
        for row, line in enumerate(table.lines)
    ]
    rules = ["---" if kind == "l" else "---:" for kind in _kinds(table)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (table.titles, rules, *lines))


_NUMBER = re.compile(r"([-+]?)([\d,]+)(\.\d+)?(?:e([-+]\d+))?( ± .+)?")


def _kinds(table: Table) -> list[str]:
    """Return the alignment of each column in LaTeX: numbers by their decimal points, in two columns."""
    kinds = ["l"] * table.keys
    for cells in list(zip(*table.lines, strict=True))[table.keys :]:
        numbers = all(_NUMBER.fullmatch(cell) for cell in cells if cell)
        kinds.append("r@{}l" if numbers and any(cells) else "l")
    return kinds + ["l"] * (len(table.titles) - len(kinds))


def latex(title: str, table: Table, note: str = "") -> str:
    """Write a table in LaTeX with booktabs' rules: numbers aligned by their points, the best in bold."""
    kinds = _kinds(table)
    head = [
        text.translate(_LATEX) if kind == "l" else rf"\multicolumn{{2}}{{c}}{{{text.translate(_LATEX)}}}"
        for text, kind in zip(table.titles, kinds, strict=True)
    ]
    rows = [
        [
            cell.translate(_LATEX) if kind == "l" else _aligned(cell, (row, column) in table.best)
            for column, (cell, kind) in enumerate(zip(line, kinds, strict=True))
        ]
        for row, line in enumerate(table.lines)
    ]
    lines = [rf"{' & '.join(line)} \\" for line in (head, *rows)]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    comments = [f"% {text}" for text in (title, note) if text]
    return "\n".join([*comments, rf"\begin{{tabular}}{{{''.join(kinds)}}}", *body, r"\end{tabular}"]) + "\n"


def _aligned(cell: str, best: bool) -> str:
    r"""Write a number as two columns that meet at its point.

    >>> print(_aligned("-12.5 ± 0.4", True))
    \textbf{$-$12} & \textbf{.5}\,$\pm$\,0.4
    """
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return " & "
    sign, whole, rest, exponent, interval = match.groups(default="")
    parts = [f"{'$-$' if sign == '-' else sign}{whole}", rest]
    if best:
        parts = [rf"\textbf{{{part}}}" if part else "" for part in parts]
    if exponent:
        parts[1] += rf"$\cdot10^{{{int(exponent)}}}$"
    return " & ".join(parts) + interval.replace(" ± ", r"\,$\pm$\,")


_LATEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\dots{}"}
    | {"±": r"$\pm$", "×": r"$\times$", "µ": r"$\mu$"}
)


Labelled = TypeVar("Labelled", StudyRow, Point)


def picture_files(study: Study, points: Sequence[Point]) -> Iterator[tuple[PictureSpec, list[str]]]:
    """Yield each picture entry of a study with its file names."""
    for picture in study.pictures:
        if picture.kind == "gantt":
            shown = (point.labels for point in points if picture.shows(point.labels))
            yield picture, [gantt_file(picture, labels) for labels in shown]
            continue
        first = picture.kind
        if first == "metric":
            first = relative_title(study) if picture.relative else picture.metric or next(iter(study.metrics))
        shown = (labels for labels, _ in pictures_of(study, picture, points))
        yield picture, [f"{file_name(first, *labels.values())}.{study.formats[0]}" for labels in shown]


def pictures_of(
    study: Study, picture: PictureSpec, rows: Sequence[Labelled]
) -> Iterator[tuple[dict[str, str], list[Labelled]]]:
    """Yield the pictures of one entry: common labels, and the runs or points that it shows."""
    inside = {picture.lines, picture.panels, picture.along}
    if picture.kind == "metric":
        inside.add(study.repetitions or "")
    axes = [axis for axis in study.axes if axis.name not in inside]
    for labels in product(*(axis.points for axis in axes)):
        common = dict(zip([axis.name for axis in axes], labels, strict=True))
        part = [row for row in rows if picture.shows(row.labels) and common.items() <= row.labels.items()]
        if part:
            yield common, part


INTERVAL_NOTES = {
    kind: f"Intervals hold the mean with 95 %: {method}. Differences are to the "
    "reference combination, of pairs of the same repetition; p is of Wilcoxon's signed-rank test, two-sided, "
    "not corrected for the number of comparisons."
    for kind, method in INTERVALS.items()
}
_ROUNDING = 1e-9
"""An interval that is narrower, relative to its mean, is one of equal values, but for rounding."""
_RESAMPLES = 10_000
_MOST_DRAWN = 1 << 20
_SHARE = 0.95
_MOST_EXACT = 200  # pairs; beyond, the distribution of the sum of ranks is normal to many digits
_NAN = float("nan")


@dataclass(frozen=True)
class Spread:
    """Statistics of one combination over its repetitions."""

    runs: int
    mean: float
    median: float
    low: float  # Lower end of the interval of the mean; NaN for less than two runs, as all below
    high: float
    pairs: int = 0  # Repetitions that the reference combination has too
    difference: float = _NAN
    difference_low: float = _NAN
    difference_high: float = _NAN
    p: float = _NAN


def spread_of(
    values: Mapping[str, float], reference: Mapping[str, float] | None = None, interval: str = "bootstrap"
) -> Spread:
    """Return the statistics of a combination by its values per repetition, also against a reference."""
    known = {label: value for label, value in values.items() if math.isfinite(value)}
    own = np.array(list(known.values()))
    if not len(own):
        return Spread(0, _NAN, _NAN, _NAN, _NAN)
    first = (len(own), float(own.mean()), float(np.median(own)), *mean_interval(own, interval))
    if reference is None:
        return Spread(*first)
    below = {label: reference[label] for label in known if math.isfinite(reference.get(label, _NAN))}
    differences = np.array([known[label] - value for label, value in below.items()])
    if len(differences) < 2:
        return Spread(*first, pairs=len(differences))
    ends = mean_interval(differences, interval)
    return Spread(*first, len(differences), float(differences.mean()), *ends, signed_rank_p(differences))


def trimmed(values: Mapping[str, float], count: int) -> dict[str, float]:
    """Return finite values without this many of the smallest and of the largest, the first of equal ones."""
    known = [label for label, value in values.items() if math.isfinite(value)]
    kept = set(sorted(known, key=lambda label: values[label])[count : len(known) - count])
    return {label: value for label, value in values.items() if label in kept} if count else dict(values)


def mean_interval(values: Floats, interval: str = "bootstrap") -> tuple[float, float]:
    """Return a 95 % interval of the mean: Student's t, or bootstrap (Efron and Tibshirani 1993, ch. 13)."""
    if len(values) < 2:
        return _NAN, _NAN
    if interval == "t":
        mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
        half = t_quantile(len(values) - 1) * deviation / math.sqrt(len(values))
        return mean - half, mean + half
    return _bootstrap(np.asarray(values, np.float64).tobytes())


@lru_cache(maxsize=512)
def _bootstrap(values: bytes) -> tuple[float, float]:
    """Return the interval of float64 values; cached, as a table and its pictures need the same ones."""
    own = np.frombuffer(values)
    random = np.random.default_rng(0)
    means = np.empty(_RESAMPLES)
    rows = max(1, _MOST_DRAWN // len(own))  # at once: all resamples of many values would take gigabytes
    for first in range(0, _RESAMPLES, rows):
        part = means[first : first + rows]
        part[:] = own[random.integers(0, len(own), (len(part), len(own)))].mean(axis=1)
    tail = (1.0 - _SHARE) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(low), float(high)


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, which needs SciPy."""
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise InputError(f"interval: t needs SciPy: {error}; pip install 'mlsim[study]'") from error
    return float(stdtrit(freedom, 0.5 + _SHARE / 2.0))


def signed_rank_p(differences: Floats) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; NaN where all differences are 0.

    Differences of 0 are left out (Wilcoxon 1945), equal ones share their ranks; the distribution is that of
    all signs being as likely, exact up to 200 differences.
    """
    differences = differences[differences != 0.0]
    n = len(differences)
    if not n:
        return _NAN
    _, inverse, counts = np.unique(np.abs(differences), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    doubled = (2 * last - counts + 1)[inverse]  # twice the mean rank, a whole number
    positive = int(doubled[differences > 0].sum())
    total = int(doubled.sum())
    least = min(positive, total - positive)
    if n > _MOST_EXACT:
        deviation = math.sqrt(float((doubled.astype(np.float64) ** 2).sum()) / 4.0)
        return math.erfc((total / 2.0 - least) / deviation / math.sqrt(2.0))
    ways = np.zeros(total + 1)
    ways[0] = 1.0
    for rank in doubled.tolist():
        shifted = np.zeros(total + 1)
        shifted[rank:] = ways[: total + 1 - rank]
        ways = (ways + shifted) / 2.0
    return min(1.0, 2.0 * float(ways[: least + 1].sum()))


def statistics_table(study: Study, rows: Sequence[StudyRow]) -> Table:
    """Lay out the statistics of every metric and combination; empty without repetitions."""
    place = next((n for n, axis in enumerate(study.axes) if axis.name == study.repetitions), None)
    if place is None:
        return Table([], [])
    names = study.compared
    titles = ["metric", *names, "runs", "mean", "median", "low", "high"]
    if study.relative:
        titles += ["pairs", "difference", "difference low", "difference high", "p"]
    titles += ["least", "largest"]
    lines = []
    for title in study.metrics:
        groups: dict[Labels, dict[str, float]] = {}
        for row in rows:
            labels = labels_of(row)
            group = groups.setdefault(labels[:place] + labels[place + 1 :], {})
            group[labels[place]] = row.metrics[title]
        groups = {labels: trimmed(values, study.trim) for labels, values in groups.items()}
        for labels, values in groups.items():
            named = zip(names, labels, strict=True)
            other = tuple(study.relative.get(name, label) for name, label in named)
            compared = study.relative and other != labels
            found = spread_of(values, groups.get(other) if compared else None, study.interval)
            cells = [str(found.runs), *map(number, (found.mean, found.median, found.low, found.high))]
            if study.relative:
                differences = (found.difference, found.difference_low, found.difference_high, found.p)
                cells += [str(found.pairs) if compared else "", *map(number, differences)]
            ends = sorted(filter(math.isfinite, values.values())) or [_NAN]
            lines.append([title, *labels, *cells, *map(number, ends[:1] + ends[-1:])])
    return Table(titles, lines, 1 + len(names))


def number(value: float, digits: int = 6) -> str:
    """Return a number as a table shows it; empty if it is not finite."""
    return f"{value:.{digits}g}" if math.isfinite(value) else ""
