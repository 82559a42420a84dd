"""What CI does, under every Python that is installed: ``nox``, ``nox -s tests-3.12``, ``nox -s coverage``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nox

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
CONSTRAINED = "3.11"
"""The Python whose exact versions are in constraints.txt."""
_WITHOUT_TRACES_AND_MPI = (
    *(
        "pytest",
        "pytest-xdist",
        "hypothesis",
        "check-jsonschema",
        "jsonschema",
        "pint",
        "pandas",
        "pyarrow",
        "pyyaml",
    ),
    *("scipy", "scikit-learn", "cmaes", "ortools"),
)

nox.options.sessions = ["lint", "tests"]
nox.options.error_on_missing_interpreters = False


@nox.session(python=CONSTRAINED)
def lint(session: nox.Session) -> None:
    """Linters, types, layers."""
    session.install("--constraint", "constraints.txt", "--editable", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Tests; of another Python than that of CI those that need neither OTF2 nor MPI."""
    if session.python == CONSTRAINED:
        session.install("--constraint", "constraints.txt", "--editable", ".[dev]")
        session.run("pytest", "-n", "auto", "--dist", "worksteal", *session.posargs)
        return
    session.install("--editable", ".", *_WITHOUT_TRACES_AND_MPI)
    chosen = session.posargs or ["tests/scenario", "tests/batch", "tests/application", "tests/workload"]
    session.run("pytest", "-n", "auto", "-m", "not mpi and not otf2 and not slurm", *chosen)


def newest_of_all() -> list[str]:
    """Return the packages that mlsim requires to simulate and compile, without their bounds."""
    project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["jit"]]
    return [re.sub(r"[<>=][^;]*", "", line, count=1) for line in required]


@nox.session(python=PYTHONS[-1])
def newest(session: nox.Session) -> None:
    """Test the newest release of every dependency, which pyproject.toml may not allow yet."""
    session.install("--editable", ".", *_WITHOUT_TRACES_AND_MPI)
    session.install("--upgrade", "--upgrade-strategy", "eager", *newest_of_all(), *_WITHOUT_TRACES_AND_MPI)
    session.run("pip", "list")
    chosen = session.posargs or ["tests/scenario", "tests/batch", "tests/application", "tests/workload"]
    more = ["tests/analysis", "tests/cli", "tests/experiment", "tests/record"]
    session.run("pytest", "-n", "auto", "-m", "not mpi and not otf2 and not slurm", *chosen, *more)


@nox.session(name="newest-numba", python=PYTHONS[-1])
def newest_numba(session: nox.Session) -> None:
    """Test what is compiled under the newest Numba, which pyproject.toml may not allow yet."""
    session.install("--editable", ".", *_WITHOUT_TRACES_AND_MPI)
    session.install("--upgrade", "--pre", "numba")
    session.run("python", "-c", "import numba; print('Numba', numba.__version__)")
    names = ("jit", "kept", "kernel_cache", "neutrality", "shortcuts")
    compiled = [f"tests/test_{name}.py" for name in names]
    session.run("pytest", "-n", "auto", "-m", "not mpi and not otf2 and not slurm", *compiled, "tests/batch")


@nox.session(python=CONSTRAINED)
def coverage(session: nox.Session) -> None:
    """Which lines of Python the tests execute, as a table and as pages in build/coverage."""
    session.install("--constraint", "constraints.txt", "--editable", ".[dev]")
    session.run("coverage", "run", "-m", "pytest", "-n", "auto", "--dist", "worksteal", *session.posargs)
    session.run("coverage", "combine")
    session.run("coverage", "html", "--directory", "build/coverage")
    session.run("coverage", "report")


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """Try a wheel in an empty environment, without the checkout."""
    session.install("--editable", ".[jit]", "build")
    words = [] if session.python == CONSTRAINED else ["--constraint", "/dev/null"]
    session.run("python", "tools/try_wheel.py", *words)
