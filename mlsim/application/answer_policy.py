"""The rule by which an application answers requests for nodes."""

from __future__ import annotations

from dataclasses import dataclass

from mlsim.scenario import AnswerRule

__all__ = ["AnswerPolicy"]


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """Which requests an application agrees to."""

    rule: AnswerRule
    """``never``, ``idle-only`` (nodes that are idle already), ``tolerance`` or ``always``."""
    tolerance: float
    """Largest growth of its own run time, as a share (``tolerance`` only)."""
    latency: float = 0.0
    """Seconds that its messages take (``idle-only``: nodes are reported, but not known to be idle yet)."""

    def accepts(self, run_time: float, new_run_time: float) -> bool:
        """Whether the run time of an application may grow from ``run_time`` to ``new_run_time`` [s]."""
        return self.rule is AnswerRule.ALWAYS or new_run_time <= (1.0 + self.tolerance) * run_time
