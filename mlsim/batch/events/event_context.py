"""What the handlers of events know of the batch system."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.clock.event_clock import Clock
from mlsim.batch.state.batch_state import BatchState
from mlsim.coordination import Answer, Disturbance, Forecast, ReleaseRequest
from mlsim.record import JobState

Attempt = tuple[int, int]
"""Number of a job, and how often it has started again: requests and answers are of one attempt."""


class Applications(Protocol):
    """What starts the applications of jobs and knows their futures."""

    def launch(self, slot: int, at: float) -> Forecast:
        """Start the application of the job in this slot on the nodes it got."""
        ...

    def apply_change(self, slot: int, at: float, change: Disturbance, /) -> Forecast:
        """Apply a disturbance to an application and return its new forecast."""
        ...

    def request_release(self, slot: int, at: float, request: ReleaseRequest) -> tuple[Answer, Forecast]:
        """Request nodes of an application; return its answer and its forecast."""
        ...

    def finish(self, slot: int, at: float, state: JobState) -> None:
        """End the application of a job."""
        ...

    def requeue(self, slot: int, at: float, /) -> float:
        """End an attempt of a job that goes back to the queue; return the PE-seconds it has computed."""
        ...

    def idle_share(self, slot: int, /) -> float:
        """Share of the job's node-seconds in which its nodes had run out of work."""
        ...


class System(Protocol):
    """The simulator of the batch level, as far as handlers need it."""

    clock: Clock
    """The order of events."""
    state: BatchState
    """Jobs, queue and nodes at the current time."""
    applications: Applications
    """The applications of the running jobs."""
    submissions_first: bool
    """Whether submissions of a time come before its ends."""

    @property
    def is_running_out(self) -> bool:
        """Whether no job runs and no more will be submitted."""
        ...

    def attempt(self, slot: int) -> Attempt:
        """Return the number of a job, and how often it has started again."""
        ...

    def plan(self, slot: int, now: float, forecast: Forecast) -> None:
        """Schedule what a forecast says will happen after ``now``, in place of what was planned."""
        ...

    def free_ended(self) -> None:
        """Free at once what the jobs that end now hold, rather than in the pass."""
        ...

    def queue_up(self, slots: NDArray[np.int64]) -> None:
        """Put jobs into the queue now, and make a pass or ask for one."""
        ...

    def await_withdrawals(self, slots: NDArray[np.int64]) -> None:
        """Have jobs leave the queue at the times at which they are withdrawn, unless they start before."""
        ...

    def reject_unseen(self, slots: list[int], at: float, reason: str) -> None:
        """Reject jobs that no dispatcher has seen."""
        ...

    def fail_job(self, slot: int, node: int) -> None:
        """End a running job that loses a node; it may go back to the queue."""
        ...
