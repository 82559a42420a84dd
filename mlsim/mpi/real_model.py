"""Base of the real execution models."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats
from mlsim.application.selection.selector import Progress
from mlsim.application.techniques import Choice, scaled
from mlsim.execution_models.technique_state import NOTHING, Done
from mlsim.mpi.chunk_rules import Chunk
from mlsim.mpi.loop_context import Clock, Context, Layout
from mlsim.mpi.loop_options import LoopOptions
from mlsim.mpi.loop_report import RequestLog
from mlsim.mpi.rank_waiting import Patience
from mlsim.scenario.words import GlobalP


@dataclass(frozen=True)
class Amid:
    """Selection of techniques by the master, rank 0, each time ``every`` iterations were executed.

    ``choose`` maps the progress and the time of a request [s] to the technique of the remaining iterations.
    """

    every: int
    choose: Callable[[Progress, float], Choice]


@dataclass(frozen=True)
class Setting:
    """Everything that a model is made from."""

    options: LoopOptions
    context: Context
    clock: Clock
    tag: int
    outer: Choice
    inner: Choice
    patience: Patience
    record: bool
    amid: Amid | None = None  # None: no technique is chosen amid the loop

    @property
    def layout(self) -> Layout:
        """Communicators and nodes."""
        return self.context.layout


class Model(ABC):
    """Chunk acquisition of one rank."""

    learns = False  # a technique of the model is adaptive: the scheduler sets ``done``
    piece = 0  # iterations after which the rank's own chunks have a break; 0: none
    paces = False  # only the first piece has that length, later ones take about ``BREAK_EVERY``
    counts_breaks = False  # the chunk times that its technique learns from include breaks
    only_serves = False  # the rank executes no chunks
    ahead = 0  # iterations before the end of its chunk at which the rank is to call ``ask``; 0: it need not
    answers = False  # the rank replies to requests of others
    serving = 0.0  # s spent on that
    request_log: RequestLog | None = None  # if the loop is recorded and its model is CCA
    done: Done = NOTHING  # measurements of the rank's last chunk
    told = float("nan")  # when the rank was notified that no chunk is left, by its own clock; NaN before

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._delay = setting.options.injected_delay

    @abstractmethod
    def claim(self) -> Chunk | None:
        """Claim a chunk; None if none is left and this rank need serve no others."""

    def serve(self) -> object:  # noqa: B027 - most ranks serve no others
        """Serve requests of others at a break, without waiting."""

    def ask(self) -> None:  # noqa: B027 - most ranks ask when they claim
        """Ask for the chunk that will be claimed next."""

    def leave(self) -> Chunk | None:
        """Leave the loop early, though iterations may remain; return a chunk that was asked for ahead."""
        return None

    def free(self) -> None:  # noqa: B027 - some have no window
        """Return the windows to the context; all ranks must call this."""

    def _note_end(self) -> None:
        """Record the time at which this rank is notified that no chunk is left."""
        self.told = time.perf_counter()


def two_level_weights(setting: Setting, works: NDArray[np.bool_]) -> tuple[Floats, list[Floats]]:
    """Return the weights of the nodes and, per node, the weights of its ranks scaled to their number.

    There are as many as the technique between nodes uses for P: ranks beyond the nodes have weight 1. Ranks
    that execute nothing (``works``, bool[P], is False) have weight 0.
    """
    nodes = setting.layout.nodes
    outer = np.zeros(len(setting.layout.leaders))
    np.add.at(outer, nodes, np.where(works, setting.outer.weights, 0.0))
    inner = [scaled(setting.inner.weights[(nodes == v) & works]) for v in range(len(outer))]
    others = len(nodes) - len(outer) if setting.options.global_p == GlobalP.PES else 0
    return np.concatenate([scaled(outer), np.ones(others)]), inner
