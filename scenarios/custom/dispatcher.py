"""A dispatcher of one's own: short jobs first, but nobody uses more than half of the machine."""

import numpy as np

from mlsim.batch.view import Reject, Start


class HalfForEachUser:
    """Goes through the waiting jobs, the shortest first, and leaves out those that do not fit."""

    def dispatch(self, view):
        """Answer with the jobs that start now; the scenario's allocator chooses their nodes."""
        waiting, running = view.waiting, view.running
        half = view.capacity[:, 0].sum() // 2
        used = dict.fromkeys(np.concatenate([waiting.user, running.user]).tolist(), 0)
        for user, units, cores in zip(running.user, running.units, running.request[:, 0], strict=True):
            used[int(user)] += int(units * cores)

        free = view.free.copy()
        for job in np.argsort(waiting.estimate, kind="stable"):
            user, cores = int(waiting.user[job]), int(waiting.units[job] * waiting.request[job, 0])
            if cores > half:
                yield Reject(job, f"asks for {cores} cores, and nobody may use more than {half}")
                continue
            nodes = first_fit(waiting.units[job], waiting.request[job], free)
            if used[user] + cores > half or nodes is None:
                continue
            for node in nodes:
                free[node] -= waiting.request[job]
            used[user] += cores
            yield Start(job, nodes)


def first_fit(units, request, free):
    """Give the first nodes with room for all units; None if there are none."""
    asked = request > 0
    room = (free[:, asked] // request[asked]).min(axis=1)
    nodes = np.repeat(np.arange(len(room)), room)[:units]
    return nodes.tolist() if len(nodes) == units else None
