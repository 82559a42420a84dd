"""Choosing a technique for each time step of a loop: by rule, by trial, by learning, by simulation.

The same code chooses in the simulator and in real runs; ``docs/reference/selection.md`` says how. A
selector is asked for the technique of the next time step, and told what became of it.
"""
