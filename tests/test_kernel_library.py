"""The library of built kernels: built, called without Numba, and left alone where it does not fit."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlsim._jit import library_build
from mlsim._jit.kernel_library import INDEX, LIBRARY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None or shutil.which("objcopy") is None, reason="no C compiler"),
]

KERNEL = "record.node_sets._counting_order"
LINES = [line for line in library_build.manifest() if line.startswith(KERNEL + ":")]

PROGRAM = """
import json, sys
from pathlib import Path
from mlsim._jit import kernel_library
kernel_library.FOLDER = Path(sys.argv[1])
if "blocked" in sys.argv:
    sys.modules["numba"] = sys.modules["llvmlite"] = None
import numpy as np
from mlsim.record import node_sets
found = []
for n in (4, 2**58, -4):
    try:
        order = node_sets._counting_order(np.array([3, 1, 3, 2]), np.array([3, 2, 1, 0]), n)
        found.append(order.tolist())
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
loaded = [name for name in ("numba", "llvmlite") if sys.modules.get(name)]
print(json.dumps([found, loaded, str(kernel_library.library_file() or "")]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    library_build.build(LINES, folder)
    return folder


def run(folder: Path, *words: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *words], capture_output=True, text=True, check=True
    )
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_kernels_are_called_without_numba(built: Path, tmp_path: Path) -> None:
    with_library = run(built, "blocked")
    compiled = run(tmp_path / "none")
    assert with_library[0] == compiled[0]
    assert with_library[0][0] == [1, 3, 2, 0]  # by key, those of one key as they come
    assert "MemoryError" in with_library[0][1]
    assert with_library[1] == []
    assert with_library[2] == str(built / LIBRARY)
    assert compiled[2] == ""


@pytest.mark.parametrize(
    "fault", ["damaged", "another version", "other sources", "no index", "another level"]
)
def test_a_library_that_does_not_fit_is_left_alone(built: Path, tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "built"
    shutil.copytree(built, folder)
    index = json.loads((folder / INDEX).read_text())
    if fault == "damaged":
        content = bytearray((folder / LIBRARY).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / LIBRARY).write_bytes(content)
    elif fault == "another version":
        index["version"] = "0.0.1"
    elif fault == "other sources":
        index["modules"]["mlsim.record.node_sets"] = "0"
    elif fault == "another level":
        index["levels"] = [9]
    (folder / INDEX).write_text(json.dumps(index))
    if fault == "no index":
        (folder / INDEX).unlink()
    found = run(folder)
    assert found[0] == run(built)[0]
    assert found[2] == ""


def test_without_library_and_numba_a_message_names_the_extra(tmp_path: Path) -> None:
    found = run(tmp_path, "blocked")
    assert all("pip install 'mlsim[jit]'" in message for message in found[0])


def test_the_manifest_names_kernels_that_exist() -> None:
    for line in library_build.manifest():
        assert library_build._exists(line), line
        name, kinds = library_build.parsed(line)
        assert library_build.line_of(library_build.kernel_named(name), kinds) == line


DIGESTS = Path(__file__).parents[1] / "tools" / "digests.py"
CASES = [
    "mixed SAF",
    "loop hmw GSS+AF",
    "loop hdca GSS+AWF-B",
    "state drain True",
    "rigid live",
    "quickstart cca AF",
]
WITH_LIBRARY = """
import runpy, sys
from pathlib import Path
from mlsim._jit import kernel_library
kernel_library.FOLDER = Path(sys.argv.pop(1))
sys.modules["numba"] = sys.modules["llvmlite"] = None
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.mark.slow
def test_the_whole_library_gives_the_results_of_numba(tmp_path: Path) -> None:
    baselines = library_build.BASELINES[platform.machine()]
    has_avx2 = "avx2" in Path("/proc/cpuinfo").read_text()
    level = max(baselines) if has_avx2 else min(baselines)
    library_build.build(folder=tmp_path / "built", levels={level: baselines[level]})
    for case in CASES:
        words = [str(tmp_path / f"{case}.json"), "--only", case]
        for program in ([str(DIGESTS)], ["-c", WITH_LIBRARY, str(tmp_path / "built"), str(DIGESTS)]):
            done = subprocess.run([sys.executable, *program, *words], capture_output=True, text=True)
            assert done.returncode == 0, f"{case}: {done.stdout}{done.stderr}"
        assert "0 differ" in done.stdout
        assert not done.stdout.startswith("0 of 0")
