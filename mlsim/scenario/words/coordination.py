"""Words of the section ``coordination``."""

from __future__ import annotations

from mlsim.scenario.words.choice import Choice

__all__ = ["AnswerRule", "ReleasedNodes", "RequestRule"]


class RequestRule(Choice):
    """When the batch level asks running applications for nodes."""

    NEVER = "never"
    HEAD_OF_QUEUE = "head-of-queue"


class AnswerRule(Choice):
    """What an application answers when it is asked for nodes."""

    NEVER = "never"
    IDLE_ONLY = "idle-only"
    TOLERANCE = "tolerance"
    ALWAYS = "always"


class ReleasedNodes(Choice):
    """Who gets nodes that were released early."""

    ANY = "any"
    SHORT_FIRST = "short-first"
