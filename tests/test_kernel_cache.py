"""Kernels that are kept on disk are compiled anew when what they are made of changes, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlsim
from mlsim._jit import cache

SOURCES = {
    "_jit/kernels.py": "",
    "room/kernels.py": "from mlsim._jit import kernel\nfrom mlsim.room.columns import (\n    START,\n)\n",
    "room/inner/kernels.py": "from mlsim._jit import kernel\nfrom mlsim.other import STEP, codes\n",
    "room/columns.py": "from mlsim.room.base import WIDTH\nSTART, END = 0, WIDTH\n",
    "room/base.py": "from mlsim.far import NOTHING\nWIDTH = 3\n",
    "room/page.py": "TEXT = 'nothing that kernels read'\n",
    "other/__init__.py": "from mlsim.other.page import TEXT\nfrom mlsim.other.steps import STEP\n",
    "other/codes.py": "STATIC = 1\n",
    "other/steps.py": "STEP = 1\n",
    "other/page.py": "TEXT = ''\n",
    "far.py": "NOTHING = 0\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, source in SOURCES.items():
        path = tmp_path / "mlsim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return tmp_path / "mlsim"


@pytest.mark.parametrize(
    "name",
    [
        "_jit/kernels.py",
        "room/kernels.py",
        "room/inner/kernels.py",
        "room/columns.py",
        "room/base.py",
        "other/codes.py",
        "other/steps.py",
        "far.py",
    ],
)
def test_whatever_is_compiled_into_kernels_counts(package: Path, name: str) -> None:
    before = cache.fingerprint(package, "room")
    (package / name).write_text(SOURCES[name] + "MORE = 1\n")
    assert cache.fingerprint(package, "room") != before


@pytest.mark.parametrize("name", ["room/page.py", "other/page.py"])
def test_what_no_kernel_reads_does_not(package: Path, name: str) -> None:
    before = cache.fingerprint(package, "room")
    (package / name).write_text(SOURCES[name] + "MORE = 1\n")
    assert cache.fingerprint(package, "room") == before


def test_columns_of_the_batch_level_count() -> None:
    """Places of columns are constants in kernels; the module that names them has no kernel itself."""
    columns = Path(mlsim.__file__).parent / "batch" / "columns" / "table.py"
    found = set(cache.made_of(Path(mlsim.__file__).parent, "batch"))
    assert b"mlsim._jit" not in columns.read_bytes()
    assert columns in found
