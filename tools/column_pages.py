"""Write the tables of columns and of metrics into their pages of the reference, as they are declared.

Usage: python tools/column_pages.py
"""

from __future__ import annotations

import re
from pathlib import Path

from mlsim.analysis.metric_definitions import LOOP, SUMMARY, table
from mlsim.record.table_files import columns_of
from mlsim.workload.workload_columns import WORKLOAD_COLUMNS

_REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGE = _REFERENCE / "records.md"
METRICS_PAGE = _REFERENCE / "metrics.md"
WORKLOAD_PAGE = _REFERENCE / "workload-format.md"
_TABLE = re.compile(r"<!-- columns of (\w+) -->\n.*?<!-- end -->", re.DOTALL)
_WORKLOAD = re.compile(r"<!-- columns of a workload -->\n.*?<!-- end -->", re.DOTALL)
_METRICS = re.compile(r"<!-- metrics of (run|loop) -->\n.*?<!-- end -->", re.DOTALL)


def with_columns(page: str) -> str:
    """Return a page with every table of columns as it is declared now."""
    return _TABLE.sub(lambda found: _table(found[1]), page)


def with_metrics(page: str) -> str:
    """Return a page with every table of metrics as they are defined now."""
    kinds = {"run": SUMMARY, "loop": LOOP}
    return _METRICS.sub(
        lambda found: "\n".join([f"<!-- metrics of {found[1]} -->", *table(kinds[found[1]]), "<!-- end -->"]),
        page,
    )


def with_workload_columns(page: str) -> str:
    """Return a page with the table of a workload directory's columns as it is declared now."""
    rows = [
        f"| `{each.name}` | {each.kind} | {each.unit} | {'yes' if each.required else ''} | {each.meaning} |"
        for each in WORKLOAD_COLUMNS
    ]
    head = ["| column | type | unit | required | meaning |", "| --- | --- | --- | --- | --- |"]
    table = "\n".join(["<!-- columns of a workload -->", *head, *rows, "<!-- end -->"])
    return _WORKLOAD.sub(lambda _: table, page)


def _table(file: str) -> str:
    rows = [
        f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning} |"
        for column in columns_of(file)
    ]
    head = ["| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([f"<!-- columns of {file} -->", *head, *rows, "<!-- end -->"])


if __name__ == "__main__":
    PAGE.write_text(with_columns(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    METRICS_PAGE.write_text(with_metrics(METRICS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    WORKLOAD_PAGE.write_text(
        with_workload_columns(WORKLOAD_PAGE.read_text(encoding="utf-8")), encoding="utf-8"
    )
