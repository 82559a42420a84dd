"""The columns of the state: jobs in the system, occupancy, running jobs.

They use nothing of the batch level.
"""
