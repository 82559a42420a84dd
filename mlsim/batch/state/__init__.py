"""The state at one time, as Python sees it: jobs, room of the machine, passes.

It uses the passes, dispatchers and what is below these.
"""
