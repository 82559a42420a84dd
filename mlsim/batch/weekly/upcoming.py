"""What is told of jobs at their submission, a week's at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlsim._arrays import Floats, Ints

__all__ = ["Upcoming"]


class Upcoming:
    """Jobs that have been read and not been submitted yet, and what was told of them.

    That depends on what was known when the week of their submission began, and on no job submitted later. So
    it is told of all that may come in the week at once, which is quicker than one by one.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._told: dict[int, tuple[int, float]] = {}  # by number: week, and what was told in it

    def add(self, numbers: Ints, slots: Ints) -> None:
        """Add jobs that have been read."""
        self._slots.update(zip(numbers.tolist(), slots.tolist(), strict=True))

    def take(self, numbers: Ints, week: int, tell: Callable[[Ints, Ints], Floats]) -> Floats:
        """Return what is told of jobs that are submitted in this week, and take them away.

        Parameters
        ----------
        numbers
            The jobs.
        week
            The week.
        tell
            Tells it of many jobs, by their numbers and slots.
        """
        if any(self._told.get(number, (-1, 0.0))[0] != week for number in numbers.tolist()):
            untold = {
                number: slot
                for number, slot in self._slots.items()
                if self._told.get(number, (-1, 0.0))[0] != week
            }
            values = tell(np.array(list(untold)), np.array(list(untold.values())))
            self._told |= {
                number: (week, value) for number, value in zip(untold, values.tolist(), strict=True)
            }
        found = [self._told.pop(number)[1] for number in numbers.tolist()]
        for number in numbers.tolist():
            del self._slots[number]
        return np.array(found)
