"""Data of one's own during a run: the machine room's temperature, and a dispatcher that reads it."""

import math

from mlsim.batch.view import Start

DAY = 86400.0


class Temperature:
    """The temperature [°C] of the air: coldest at 4:00, warmest at 16:00, and warmer with busy cores."""

    def __init__(self, mean=22.0, swing=6.0, per_core=0.05, every=900.0):
        self.mean, self.swing, self.per_core, self.every = mean, swing, per_core, every

    def update(self, view):
        """Return the data at a pass; ``view`` is the dispatcher's."""
        hour = 2 * math.pi * (view.now - 4 * 3600) / DAY
        busy = int(view.capacity[:, 0].sum() - view.free[:, 0].sum())
        return {"temperature": self.mean - self.swing * math.cos(hour) + self.per_core * busy}

    def next_update(self, now):
        """Return when the data change next: mlsim makes a pass then."""
        return now + self.every


class CoolRoom:
    """First come, first served; long jobs wait while the room is too warm."""

    def __init__(self, limit=24.0, long=1200.0):
        self.limit, self.long = limit, long

    def dispatch(self, view):
        """Start jobs from the head of the queue, on the first nodes with room."""
        warm = view.data["temperature"] > self.limit
        free = view.free.copy()
        for job, request in enumerate(view.waiting.request):
            if warm and view.waiting.estimate[job] > self.long:
                continue
            nodes = []
            for node, amount in enumerate(free):
                while len(nodes) < view.waiting.units[job] and (amount >= request).all():
                    amount -= request  # a row of ``free``
                    nodes.append(node)
            if len(nodes) < view.waiting.units[job]:
                return
            yield Start(job, nodes)
