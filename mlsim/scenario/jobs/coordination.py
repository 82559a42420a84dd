"""The ``coordination`` section: the messages between the batch and the application level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from mlsim.scenario.values.amounts import Seconds
from mlsim.scenario.values.field_types import Number, OneOf, Switch
from mlsim.scenario.values.section import Section, Violation
from mlsim.scenario.words import AnswerRule, ReleasedNodes, RequestRule

__all__ = ["CoordinationConfig"]


class CoordinationConfig(Section):
    """Whether applications tell the batch level which of their nodes have run out of work."""

    rca: Switch = False
    """Resourceful coordination (Eleliemy 2021, ch. 6): idle nodes of a running job are given to waiting jobs.
    Needs application.model: loop.
    """
    latency: Seconds | None = None
    """Time a message takes between an application and the batch level (s). Default: platform.network.latency.
    Read with rca: on only.
    """
    requests: OneOf[RequestRule] = RequestRule.NEVER
    """When the batch level asks running applications for nodes: never, or head-of-queue (when the first
    waiting job lacks some). Needs rca: on, whole nodes (workload.mapping packed or node), and an execution
    model other than steal.
    """
    answer: OneOf[AnswerRule] = AnswerRule.IDLE_ONLY
    """What applications answer: never, idle-only (only nodes that are idle already), tolerance (if their own
    run time grows by at most that share) or always. Read with requests: head-of-queue only.
    """
    tolerance: Annotated[float, Number(0)] = 0.05
    """Largest growth of an application's run time, as a share. For answer: tolerance."""
    reclaim: Switch = False
    """Whether a node given up on request goes back to its owner when no job waits. Read with requests:
    head-of-queue only.
    """
    released_nodes: OneOf[ReleasedNodes] = ReleasedNodes.ANY
    """Who gets nodes that were released early: any (the usual pass) or short-first (the shortest waiting jobs
    that fit on them, before the usual pass). Needs rca: on.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check that what needs coordination has it."""
        for key in ("requests", "released_nodes"):
            if not self.rca and getattr(self, key).value not in ("never", "any"):
                message = "needs coordination between the levels; write rca: on, or take it out"
                yield Violation(key, message, ("rca",))
