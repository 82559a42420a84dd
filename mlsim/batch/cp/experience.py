"""Experience of the list planner over passes: trust in estimates, and the kinds of arriving jobs."""

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.allocators.node_fit import note_request
from mlsim.batch.view import StateView

_FORGET = 0.999  # decay factor of an observation per later observation
_BINS_PER_OCTAVE = 2
_N_BINS = 96
_MUCH_SHORTER = 13  # bins between a job and those for which it leaves room: 2^(13/2), 90 times shorter


class Experience:
    """Experience of the passes so far."""

    def __init__(self) -> None:
        self.expected: dict[int, float] = {}
        self._began: dict[int, float] = {}
        self._right = 0.0
        self._seen = 0.0
        self._before = -np.inf  # time of the pass before
        self._arrivals = np.zeros(_N_BINS)
        self._newest = -1
        self._asked: Floats = np.zeros(1)  # the last one counts arrivals

    def observe(self, view: StateView) -> None:
        """Learn from jobs that have ended and jobs that have arrived since the last pass."""
        running = view.running
        now_running = dict(zip(running.number.tolist(), range(len(running)), strict=True))
        for number in [number for number in self.expected if number not in now_running]:
            began = self._began.pop(number)
            estimate = self.expected.pop(number) - began
            # It ended after the pass before and not after this one. Where that leaves open whether the
            # estimate was right, nothing is learned.
            least, most = max(self._before - began, 1.0), max(view.now - began, 1.0)
            right = 0.5 * most <= estimate <= 2.0 * least
            if right or estimate < 0.5 * least or estimate > 2.0 * most:
                self._seen = self._seen * _FORGET + 1.0
                self._right = self._right * _FORGET + right
        for number, row in now_running.items():
            if number not in self.expected:
                self.expected[number] = float(running.expected_end[row])
                self._began[number] = float(running.start_time[row])
        self._before = view.now
        new = view.waiting.number > self._newest
        if new.any():
            self._newest = int(view.waiting.number[new].max())
            for place in _bins(view.waiting.estimate[new]).tolist():
                self._arrivals *= _FORGET
                self._arrivals[place] += 1.0
            if len(self._asked) == 1:
                self._asked = np.zeros(view.waiting.request.shape[1] + 1)
            for request in np.array(view.waiting.request[new], np.int64, order="C"):
                note_request(request, self._asked)

    @property
    def trust(self) -> float:
        """Trust in estimates, 0 to 1.

        0 where less than nine in ten of the ended jobs ran within a factor of 2 of their estimate, and before
        20 have ended; 1 where all did.
        """
        if self._seen < 20.0:
            return 0.0
        return max(10.0 * self._right / self._seen - 9.0, 0.0)

    def asked(self, resources: int) -> Floats:
        """Return how many arrivals request each resource type, and the number of arrivals.

        With whole-node allocation, an instance has ``node``, which all request, before the types of the view.
        """
        asked: Floats = np.full(resources + 1, self._asked[-1])
        asked[resources + 1 - len(self._asked) :] = self._asked
        return asked

    def share_much_shorter(self, durations: Ints) -> Floats:
        """Return, for each duration, the share of arrivals that are at least 90 times shorter."""
        below = np.cumsum(self._arrivals)
        place = _bins(durations.astype(np.float64)) - _MUCH_SHORTER
        share: Floats = np.where(place >= 0, below[np.maximum(place, 0)], 0.0) / max(below[-1], 1.0)
        return share


def _bins(seconds: Floats) -> Ints:
    places = np.floor(_BINS_PER_OCTAVE * np.log2(np.maximum(seconds, 1.0))).astype(np.int64)
    clipped: Ints = np.clip(places, 0, _N_BINS - 1)
    return clipped
