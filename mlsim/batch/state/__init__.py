"""What there is at one time, and a pass over it, as Python sees them.

It uses backfilling, dispatchers and what is below these.
"""
