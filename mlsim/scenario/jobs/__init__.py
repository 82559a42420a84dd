"""Sections of jobs and how they are served: workload, queue, dispatchers, coordination.

Uses loops and the machine, words and values.
"""
