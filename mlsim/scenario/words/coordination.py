"""Words of the section ``coordination``."""

from __future__ import annotations

from mlsim.scenario.words.word import Word

__all__ = ["AnswerRule", "ReleasedNodes", "RequestRule"]


class RequestRule(Word):
    """When the batch level asks running applications for nodes."""

    NEVER = "never"
    HEAD_OF_QUEUE = "head-of-queue"


class AnswerRule(Word):
    """What an application answers when it is asked for nodes."""

    NEVER = "never"
    IDLE_ONLY = "idle-only"
    TOLERANCE = "tolerance"
    ALWAYS = "always"


class ReleasedNodes(Word):
    """Who gets nodes that were released early."""

    ANY = "any"
    SHORT_FIRST = "short-first"
