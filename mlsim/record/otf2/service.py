"""How the PEs of a run's loops get their chunks, as far as their records do not say it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Service"]


class Service(NamedTuple):
    """Whom PEs ask for chunks, what is spent on one, and how long messages are.

    Attributes
    ----------
    by_messages, by_atomics
        Whether PEs ask a master, or take chunks from a window. If neither, nobody is asked, or it is unknown.
    on_node
        Whether the master, or the window, is on the PE's own node, rather than PE 0.
    calculates
        Whether PEs calculate the sizes of their chunks themselves.
    waits
        Whether the time until a chunk begins is one of waiting for others.
    calculation
        Time of a size's calculation at speed 1, in s.
    delay
        What is added to it whatever the speed, in s.
    assignment
        Time of assigning a chunk, in s.
    access
        Time that a window is busy with an atomic, in s.
    message_bytes
        Length of a request, and of a reply.
    """

    by_messages: bool = True
    by_atomics: bool = False
    on_node: bool = False
    calculates: bool = False
    waits: bool = False
    calculation: float = 0.0
    delay: float = 0.0
    assignment: float = 0.0
    access: float = 0.0
    message_bytes: int = 0
