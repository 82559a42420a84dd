"""Build the sdist of the commit that is checked out, and from it the wheel of this machine.

Usage: python tools/build_dist.py [--out DIR]

The wheel has the kernel library, which is built in the unpacked sdist. This needs mlsim's dependencies, Numba
and the package "build" in this Python, and a C compiler with binutils. Ends with 1, and writes nothing, if
one of the two lacks a committed file. Prints names, sizes and SHA-256 sums.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LIBRARY = ("mlsim/_jit/built/kernels.json", "mlsim/_jit/built/kernels.so")


def main() -> int:
    """Build both and move them to the directory; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlsim-dist-") as place:
        sdist, wheel = build(Path(place))
        given.out.mkdir(parents=True, exist_ok=True)
        for path in (sdist, wheel):
            made = Path(shutil.copy(path, given.out))
            digest = hashlib.sha256(made.read_bytes()).hexdigest()
            print(f"{made}: {made.stat().st_size / 1e6:.1f} MB, sha256 {digest}")
    return 0


def build(place: Path) -> tuple[Path, Path]:
    """Build the sdist of the commit, and the wheel from the sdist, in an empty directory; return both."""
    checkout, made = place / "checkout", place / "made"
    _do(["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(checkout)], place)
    _do([sys.executable, "-m", "build", "--sdist", "--outdir", str(made), str(checkout)], place)
    (sdist,) = made.glob("mlsim-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(place / "unpacked", filter="data")
    (source,) = (place / "unpacked").iterdir()
    tracked = _do(["git", "ls-files"], checkout).splitlines()
    check("sdist", missing_in_sdist(tracked, {str(path.relative_to(source)) for path in files(source)}))
    _do([sys.executable, "-m", "mlsim._jit", "build"], source)
    _do([sys.executable, "-m", "build", "--wheel", "--outdir", str(made), str(source)], place)
    (wheel,) = made.glob("mlsim-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        check("wheel", missing_in_wheel(tracked, packed.namelist(), LIBRARY))
    return sdist, wheel


def files(directory: Path) -> Iterable[Path]:
    """Yield the files below a directory."""
    return (path for path in directory.rglob("*") if path.is_file())


def missing_in_sdist(tracked: Iterable[str], packed: Iterable[str]) -> set[str]:
    """Return the committed files that an sdist lacks, but for those of the hosts of the repository."""
    return {name for name in tracked if not name.startswith(".")} - set(packed)


def missing_in_wheel(tracked: Iterable[str], packed: Iterable[str], more: Iterable[str] = ()) -> set[str]:
    """Return the committed files of the package, and those of ``more``, that a wheel lacks."""
    wanted = {name for name in tracked if name.startswith("mlsim/")}
    return (wanted | set(more)) - set(packed)


def check(name: str, missing: set[str]) -> None:
    """End this process if something is missing."""
    if missing:
        sys.exit(f"the {name} lacks {', '.join(sorted(missing)[:20])} ({len(missing)} in all)")


def _do(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
