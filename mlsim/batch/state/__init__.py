"""What there is at one time, as Python sees it: the jobs, the room of the machine, who makes passes.

It uses the passes, dispatchers and what is below these.
"""
