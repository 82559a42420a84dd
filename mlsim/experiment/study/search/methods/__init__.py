"""What chooses the candidates of a search: each method asks for a generation, and is told how good it is."""

from __future__ import annotations

from mlsim.experiment.study.search.methods.base import Method, check_installed
from mlsim.experiment.study.search.model import Search

__all__ = ["check_installed", "method_of"]


def method_of(search: Search) -> Method:
    """Return the method of a search, at its beginning."""
    if search.method == "grid":
        from mlsim.experiment.study.search.methods.all_at_once import Grid

        return Grid(search.parameters, search.options)
    if search.method == "random":
        from mlsim.experiment.study.search.methods.all_at_once import Random

        return Random(search.parameters, search.options)
    if search.method == "cma-es":
        from mlsim.experiment.study.search.methods.cma_es import CmaEs

        return CmaEs(search.parameters, search.options)
    from mlsim.experiment.study.search.methods.tree_parzen import TreeParzen

    return TreeParzen(search.parameters, search.options)
