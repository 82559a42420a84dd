"""A user-defined policy: short jobs first, but waiting counts as well."""


class Aged:
    """An hour of waiting counts as much as `hours` less of estimated run time."""

    live = True  # keys change while a job waits; with live = False they are computed once per job

    def __init__(self, hours=1.0):
        """Keep the parameter, which `parameters: {hours: 2}` in a scenario sets."""
        self.hours = hours

    def key(self, now, jobs):
        """Return a number for each waiting job: smaller ones start first."""
        return jobs.estimate - self.hours * (now - jobs.submit_time)
