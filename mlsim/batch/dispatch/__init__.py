"""A pass over the queue, compiled, and what dispatchers of the user see and answer.

It uses backfilling and the view.
"""
