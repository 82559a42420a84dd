"""A user-defined policy: jobs of users with fewer queued jobs first, then in order of arrival."""

import numpy as np


class FewestWaiting:
    """Smaller keys go first; equal keys in order of arrival."""

    live = True  # keys change while a job waits; with live = False they are computed once per job

    def key(self, now, jobs):
        """Return the number of waiting jobs of each job's user."""
        _, of_user, count = np.unique(jobs.user, return_inverse=True, return_counts=True)
        return count[of_user].astype(float)
