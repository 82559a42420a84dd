"""Columns are declared once: files, readers, empty tables and pages follow from it."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mlsim.record import NodePower, Records
from mlsim.record.column_types import Derived, empty, stored_columns
from mlsim.record.table_files import ALWAYS, FILES, columns_of

TOOL = Path(__file__).resolve().parents[2] / "tools" / "column_pages.py"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("column_pages", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_columns_of_every_file(pages: ModuleType) -> None:
    page = pages.PAGE.read_text(encoding="utf-8")
    assert pages.with_columns(page) == page, "run python tools/column_pages.py"
    for file in FILES:
        assert f"<!-- columns of {file} -->" in page


def test_the_page_of_metrics_has_their_definitions(pages: ModuleType) -> None:
    page = pages.METRICS_PAGE.read_text(encoding="utf-8")
    assert pages.with_metrics(page) == page, "run python tools/column_pages.py"
    assert page.count("<!-- metrics of ") == 2


def test_the_page_of_the_workload_format_has_its_columns(pages: ModuleType) -> None:
    page = pages.WORKLOAD_PAGE.read_text(encoding="utf-8")
    assert pages.with_workload_columns(page) == page, "run python tools/column_pages.py"
    assert page.count("<!-- columns of a workload -->") == 1


def test_tables_with_a_file_are_those_of_the_records_that_declare_columns() -> None:
    others = {"calendar", "rejections", "names", "own"}
    assert set(FILES) | others == {field.name for field in dataclasses.fields(Records)}
    assert list(FILES)[: len(ALWAYS)] == list(ALWAYS)


@pytest.mark.parametrize("file", FILES)
def test_every_field_of_a_table_is_declared_and_in_its_file_once(file: str) -> None:
    table = FILES[file]
    fields = {field.name for field in dataclasses.fields(table)}
    of_others = {"power"} | ({"application", "technique"} if file == "jobs" else set())
    assert {stored.field for stored in stored_columns(table)} == fields - of_others
    names = [column.name for column in columns_of(file)]
    assert len(set(names)) == len(names)
    nested = stored_columns(NodePower) if file == "nodes" else ()
    assert {stored.name for stored in (*stored_columns(table), *nested)} == {
        column.name for column in columns_of(file) if not isinstance(column, Derived)
    }


@pytest.mark.parametrize("file", [file for file in FILES if file != "nodes"])
def test_a_table_without_rows_has_columns_of_the_declared_types(file: str) -> None:
    table = empty(FILES[file])
    for stored in stored_columns(FILES[file]):
        column = getattr(table, stored.field)
        if stored.optional:
            assert column is None
        elif stored.dtype is None:
            assert column == []
        else:
            assert isinstance(column, np.ndarray)
            assert (len(column), column.dtype) == (0, stored.dtype)
