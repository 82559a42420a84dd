"""Install a wheel into an empty environment, and take the tour there.

Usage: python tools/try_wheel.py [--wheel FILE] [--python PYTHON] [--constraint FILE]

Without a file, build_dist.py builds the wheel of what is committed. It has the kernel library: no Numba is
installed, and no command of the tour compiles. Environment and tour lie in a temporary directory, without the
checkout on any path. Prints the size of the core install and the CPU seconds of each command. Ends with 1 if
a command fails, if the core install has more than 380 MB, or if Numba is in it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import build_dist

REPOSITORY = Path(__file__).resolve().parents[1]
MOST_MB = 380
"""Of which Polars, a library of 178 MB, is half: docs/decisions/package.md."""
TOUR = (
    ("init",),
    ("check", "quickstart.yaml"),
    ("run", "quickstart.yaml", "--out", "runs/one"),
    ("run", "quickstart.yaml", "--out", "runs/again"),
    ("run", "quickstart.yaml", "--set", "coordination.rca=off", "--out", "runs/two"),
    ("report", "runs/one", "runs/two", "-o", "report.html"),
    ("plot", "gantt", "runs/one", "-o", "gantt.pdf"),
    ("init", "researcher", "-o", "researcher"),
    ("study", "researcher/policies.yaml", "--dry-run"),
    ("init", "operator", "-o", "operator"),
    ("run", "operator/cluster.yaml", "--out", "runs/cluster"),
    ("init", "developer", "-o", "developer"),
    ("loop", "developer/loop.yaml", "--technique", "STATIC,FAC2"),
    ("init", "paper", "-o", "paper"),
    ("study", "paper/study.yaml", "--dry-run"),
    ("init", "scenarios"),
    ("check", "scenarios/quickstart.yaml"),
    ("study", "scenarios/studies/hierarchical", "--dry-run"),
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
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="default: built of what is committed")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment")
    parser.add_argument("--constraint", default=str(REPOSITORY / "constraints.txt"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlsim-wheel-") as place:
        wheel = given.wheel.resolve() if given.wheel else build_dist.build(Path(place))[1]
        return _try(wheel, Path(place), given.python, given.constraint)


def _try(wheel: Path, place: Path, python: str, constraint: str) -> int:
    _do([python, "-m", "venv", str(place / "venv")], place)
    inside = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(inside / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    before = _megabytes(place / "venv")
    _do([*pip, "install", "--no-compile", "--constraint", str(Path(constraint).resolve()), str(wheel)], place)
    size = _megabytes(place / "venv") - before
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; the core install takes {size:.0f} MB")
    tour = place / "tour"
    tour.mkdir()
    for words in TOUR:
        before = os.times()
        _do([str(inside / "mlsim"), *words], tour)
        after = os.times()
        spent = sum(after[2:4]) - sum(before[2:4])
        print(f"mlsim {' '.join(words)}: done in {spent:.2f} CPU s", flush=True)
    has_numba = (inside.parent / "lib").glob("python3.*/site-packages/numba")
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
    if any(has_numba):
        print("Numba is in the core install")
        return 1
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
