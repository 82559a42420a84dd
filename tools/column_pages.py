"""Write the tables of columns into mlsim/record/README.md, as they are declared.

Usage: python tools/column_pages.py
"""

from __future__ import annotations

import re
from pathlib import Path

from mlsim.record.files import columns_of

PAGE = Path(__file__).resolve().parents[1] / "mlsim" / "record" / "README.md"
_TABLE = re.compile(r"<!-- columns of (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def with_columns(page: str) -> str:
    """Return a page with every table of columns as it is declared now."""
    return _TABLE.sub(lambda found: _table(found[1]), page)


def _table(file: str) -> str:
    rows = [
        f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning} |"
        for column in columns_of(file)
    ]
    head = ["| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([f"<!-- columns of {file} -->", *head, *rows, "<!-- end -->"])


if __name__ == "__main__":
    PAGE.write_text(with_columns(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
