"""The section ``batch.classifier``: small jobs first."""

from __future__ import annotations

from collections.abc import Iterator

from mlsim.scenario.values.field_types import Count, OneOf, Switch
from mlsim.scenario.values.section import Section, Violation
from mlsim.scenario.words import ClassSource

__all__ = ["ClassifierConfig"]

_TREES = 100


class ClassifierConfig(Section):
    """Jobs that are taken for small go before all others (Zrigui 2021, ch. 6); {} has all defaults.

    A job is small if its run time is below the median of the run times that ended in the week before.
    """

    by: OneOf[ClassSource] = ClassSource.FOREST
    """What tells the classes: forest (a random forest, which learns at the end of each week from the jobs
    that have ended; needs scikit-learn) or actual (an oracle: the run times of the workload).
    """
    trees: Count | None = None
    """Trees of the forest. Default: 100. Read with by: forest."""
    safeguard: Switch = True
    """Whether a job that was taken for small and runs past the median is killed there; it goes back to the
    queue as a large one, with its own submit time, and starts from the beginning. Jobs must stand that.
    """

    @property
    def n_trees(self) -> int:
        """Trees of the forest."""
        return _TREES if self.trees is None else self.trees

    def broken_rules(self) -> Iterator[Violation]:
        """Check that trees are said of a forest only."""
        if self.trees is not None and self.by is not ClassSource.FOREST:
            yield Violation("trees", f"read with by: forest, and it is {self.by}; take it out", ("by",))
