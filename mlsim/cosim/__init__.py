"""One run: couples the batch level and the application level by forecasts.

The batch system starts a job; an application simulator computes the job's whole future on its nodes; the
batch system schedules that future as events. This is the only room that knows both levels.
"""
