"""The state at one time, as Python sees it: jobs, room of the machine, passes."""
