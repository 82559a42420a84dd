"""What methods have in common."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

from mlsim.errors import InputError
from mlsim.experiment.study.search.space import Values

__all__ = ["PACKAGES", "Method", "check_installed"]

PACKAGES = {"cma-es": ("cmaes", "search"), "optuna": ("optuna", "optuna")}
"""Package and extra of the methods that need one."""


class Method(Protocol):
    """Asks for candidates. What it asks for depends on its options and on what it is told alone."""

    def ask(self) -> list[Values]:
        """Return the next generation; none if there are no more."""

    def tell(self, losses: Sequence[float]) -> None:
        """Note how good the candidates asked for last are, in their order; less is better, all are finite."""


def check_installed(method: str, place: str) -> None:
    """Refuse a method whose package is not there.

    Raises
    ------
    InputError
        If it is not; the message begins with ``place`` and says what to install.
    """
    package, extra = PACKAGES.get(method, ("", ""))
    if package and find_spec(package) is None:
        raise InputError(
            f"{place}: {method}: needs the package {package}, which is not installed; "
            f"pip install 'mlsim[{extra}]', or use random"
        )
