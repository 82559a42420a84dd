"""Build a wheel of what is committed, install it into an empty environment, and take the tour there.

Usage: python tools/try_wheel.py [--python PYTHON] [--constraint FILE]

The environment and the tour lie in a temporary directory, without the checkout on any path. Ends with 1 if a
command fails, or if the core install has more than 545 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
MOST_MB = 545
"""Of which LLVM and Polars, libraries of 178 MB each, are two thirds: docs/decisions/package.md."""
TOUR = (
    ("init",),
    ("check", "quickstart.yaml"),
    ("run", "quickstart.yaml", "--out", "runs/one"),
    ("run", "quickstart.yaml", "--set", "coordination.rca=off", "--out", "runs/two"),
    ("report", "runs/one", "runs/two", "-o", "report.html"),
    ("plot", "gantt", "runs/one", "-o", "gantt.pdf"),
    ("init", "policy", "-o", "policy"),
    ("run", "policy/policy.yaml", "--out", "runs/policy"),
    ("loop", "--profile", "constant", "--mean", "1ms", "--iterations", "1000", "--pes", "4"),
    ("list", "techniques"),
    ("schema",),
    ("doctor",),
)  # fmt: skip


def main() -> int:
    """Do it; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment")
    parser.add_argument("--constraint", default=str(REPOSITORY / "constraints.txt"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlsim-wheel-") as place:
        return _try(Path(place), given.python, given.constraint)


def _try(place: Path, python: str, constraint: str) -> int:
    checkout = place / "checkout"
    _do(["git", "clone", "--quiet", "--no-hardlinks", str(REPOSITORY), str(checkout)], place)
    _do([python, "-m", "venv", str(place / "venv")], place)
    inside = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(inside / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    before = _megabytes(place / "venv")
    _do([*pip, "wheel", "--no-deps", "--wheel-dir", str(place), str(checkout)], place)
    (wheel,) = place.glob("mlsim-*.whl")
    _do([*pip, "install", "--no-compile", "--constraint", constraint, str(wheel)], place)
    size = _megabytes(place / "venv") - before
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; the core install takes {size:.0f} MB")
    tour = place / "tour"
    tour.mkdir()
    for words in TOUR:
        _do([str(inside / "mlsim"), *words], tour)
        print(f"mlsim {' '.join(words)}: done", flush=True)
    refused = subprocess.run(
        [str(inside / "mlsim"), "run", "quickstart.yaml", "--set", "batch.dispatcher=hcp19"]
        + ["--set", "batch.backfill=", "--set", "batch.policy="],
        cwd=tour,
        env=_environment(tour),
        capture_output=True,
        text=True,
        check=False,
    )
    print(refused.stderr.strip())
    return int(size > MOST_MB or refused.returncode != 2 or "mlsim[cp]" not in refused.stderr)


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MLSIM"))}
    return {**kept, "XDG_CACHE_HOME": str(directory / "cache"), "MPLCONFIGDIR": str(directory / "cache")}


def _do(command: list[str], directory: Path) -> None:
    done = subprocess.run(
        command, cwd=directory, env=_environment(directory), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def _megabytes(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
