"""What all execution models have in common."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim.application.choice import Choice, scaled
from mlsim.mpi.loop.context import Context
from mlsim.mpi.loop.options import LoopOptions
from mlsim.mpi.loop.requests import Talk
from mlsim.mpi.loop.rules import NOTHING, Chunk
from mlsim.mpi.transport.layout import Layout
from mlsim.mpi.transport.waiting import Patience

__all__ = ["Chunk", "Model", "Setting", "two_level_weights"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """Everything that a model is made from."""

    options: LoopOptions
    context: Context
    tag: int
    outer: Choice
    inner: Choice
    patience: Patience
    record: bool

    @property
    def layout(self) -> Layout:
        """Communicators and nodes."""
        return self.context.layout


class Model(ABC):
    """How one rank gets its chunks.

    Attributes
    ----------
    done
        What the rank's last chunk took; set by the scheduler where ``learns``.
    learns
        Whether anybody wants to know it.
    told
        When the rank learned that there is no more work, by its own clock; NaN before.
    piece
        Iterations after which the rank's own chunks have a break; 0: none.
    only_serves
        Whether the rank executes no chunks.
    answers
        Whether others wait for this rank's answers.
    serving
        Seconds that it served others.
    talk
        What is noted of requests and replies, if the loop is recorded and its model is CCA.
    """

    learns = False
    piece = 0
    only_serves = False
    answers = False
    serving = 0.0
    talk: Talk | None = None

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.done = NOTHING
        self.told = float("nan")
        self._delay = setting.options.injected_delay

    @abstractmethod
    def claim(self) -> Chunk | None:
        """Get a chunk; None if there is no more work, and nobody whom this rank must still serve."""

    def serve(self) -> object:  # noqa: B027 - most ranks serve nobody
        """Do at a break what others wait for; never waits itself."""

    def leave(self) -> None:  # noqa: B027 - nobody need know under models without masters
        """Take no more chunks, though there may be some."""

    @abstractmethod
    def free(self) -> None:
        """Free the windows; collective."""

    def _note_told(self) -> None:
        """Note that this rank knows that there is no more work."""
        self.told = time.perf_counter()


def two_level_weights(setting: Setting, works: NDArray[np.bool_]) -> tuple[Floats, list[Floats]]:
    """Return the weights of the nodes, and those of the ranks of each node scaled to their number.

    Parameters
    ----------
    setting
        With weights of all ranks.
    works
        bool[P]: which ranks execute chunks; others weigh nothing.
    """
    nodes = setting.layout.nodes
    outer = np.zeros(len(setting.layout.leaders))
    np.add.at(outer, nodes, np.where(works, setting.outer.weights, 0.0))
    inner = [scaled(setting.inner.weights[(nodes == v) & works]) for v in range(len(outer))]
    return scaled(outer), inner
