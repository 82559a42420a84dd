"""Run directories with hostile values and a manifest that vouches for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.fuzzing.inputs import LOOP, SCENARIOS, make_run
from tools.fuzzing.mutate import nasty_value
from tools.fuzzing.room import Arguments, Draw, Room

__all__ = ["Sealed"]

_KINDS = (
    *("gantt", "utilization", "queue", "slowdown-box", "slowdown-ecdf", "wait-ecdf", "wait-by-size"),
    *("chunk-sizes", "loop-timeline", "imbalance-profile", "weekly", "energy"),
)
_COMMANDS = (
    *("metrics {}", "metrics {} --json", "metrics {} --by user", "compare {} one", "compare one {} --json"),
    *("check {}", "check {} --laws", "advise {}", "advise {} --job 3", "report {} -o out"),
    *(f"plot {kind} {{}} -o out.png" for kind in _KINDS),
)
_FLOATS = (None, float("nan"), float("inf"), float("-inf"), -1e300, 1e300, -1.0, 0.0, 1e-300, 1e18, 2.5)
_INTS = (None, -1, -2, 0, 1, 2**31 - 1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
_TEXTS = (None, "", "x", "nan", "completed", "\x1b[31m", "a" * 3000, "٣")
_JSON = (
    None,
    True,
    [],
    {},
    "x",
    "",
    -1,
    -1e300,
    1e300,
    10**30,
    float("nan"),
    float("inf"),
    [[[]]],
    {"a": {"b": [1]}},
)


class Sealed(Room):
    """Tables, summaries and scenarios of runs with hostile values, and a manifest that vouches for them."""

    _runs = ("one", "levels", "alone")

    def prepare(self, directory: Path) -> None:
        """Simulate the runs."""
        import mlsim
        from mlsim.experiment import load_loop, run_loops

        super().prepare(directory)
        make_run(directory, "one", "SAF")
        (directory / "levels.yaml").write_text(SCENARIOS[1])
        mlsim.run(directory / "levels.yaml", {"output.trace": "none"}, out=directory / "levels")
        (directory / "alone.yaml").write_text(LOOP)
        run_loops([load_loop(directory / "alone.yaml")], out=directory / "alone")

    def controls(self, directory: Path) -> Iterator[Arguments]:  # noqa: ARG002  (they are there)
        """Give commands that read them."""
        for run in self._runs:
            yield f"metrics {run}".split() if run != "alone" else f"report {run} -o out".split()
        yield ["compare", "one", "levels"]
        yield ["check", "one", "--laws"]

    def case(self, directory: Path, draw: Draw) -> Arguments:
        """Change something of a run, and seal it."""
        from mlsim.experiment.manifest import DamagedError, write_manifest

        run = directory / self._runs[int(draw.integers(len(self._runs)))]
        way = int(draw.integers(10))
        if way < 7:
            tables = sorted(run.glob("*.parquet"))
            _spoil_table(tables[int(draw.integers(len(tables)))], draw)
        elif way < 9:
            _spoil_json(run / "summary.json", draw)
        else:
            file = run / ("loop.yaml" if run.name == "alone" else "scenario.yaml")
            _spoil_lines(file, draw)
        try:
            write_manifest(run)
        except DamagedError:
            (run / "manifest.json").unlink()  # what is no summary cannot be sealed
        return _COMMANDS[int(draw.integers(len(_COMMANDS)))].format(run.name).split()


def _replace(path: Path, content: bytes) -> None:
    path.unlink()  # it may be shared with other cases
    path.write_bytes(content)


def _spoil_table(path: Path, draw: Draw) -> None:
    """Change some rows of a column, its type or the rows of a table."""
    import polars as pl

    frame = pl.read_parquet(path)
    column = frame.columns[int(draw.integers(frame.width))]
    kind = frame.schema[column]
    match int(draw.integers(12)):
        case 0:
            frame = frame.drop(column)
        case 1:
            frame = frame.with_columns(pl.col(column).cast(pl.String))
        case 2:
            frame = pl.concat([frame, frame]) if draw.integers(2) else frame.clear()
        case 3:
            frame = frame.reverse() if draw.integers(2) else frame.head(1)
        case 4 if kind.is_integer():
            frame = frame.with_columns(pl.col(column).cast(pl.Float64) + 0.5)
        case _:
            values: list[Any] = frame[column].to_list()
            some = _FLOATS if kind.is_float() else _INTS if kind.is_integer() else _TEXTS
            for _ in range(int(draw.integers(1, 3))):
                if values:
                    values[int(draw.integers(len(values)))] = some[int(draw.integers(len(some)))]
            wide = pl.Int64 if kind.is_integer() else pl.String if some is _TEXTS else kind
            frame = frame.with_columns(pl.Series(column, values, wide, strict=False))
    path.unlink()
    frame.write_parquet(path)


def _spoil_json(path: Path, draw: Draw) -> None:
    """Change or remove a value anywhere."""
    content = json.loads(path.read_text())
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(child, dict | list):
                walk(child)

    walk(content)
    for _ in range(int(draw.integers(1, 3))):
        there, key = places[int(draw.integers(len(places)))]
        if draw.integers(5) == 0 and isinstance(there, dict):
            there.pop(key, None)
        else:
            there[key] = _JSON[int(draw.integers(len(_JSON)))]
    _replace(path, json.dumps(content).encode())


def _spoil_lines(path: Path, draw: Draw) -> None:
    """Drop a line of a scenario, or give its key another value."""
    lines = path.read_text().split("\n")
    row = int(draw.integers(len(lines)))
    if draw.integers(2):
        del lines[row]
    else:
        lines[row] = f"{lines[row].partition(':')[0]}: {nasty_value(draw)}"
    _replace(path, "\n".join(lines).encode("utf-8", "replace"))
