"""Selection of a technique for each time step of a loop: by rule, by trial, by learning, by simulation.

Simulations and real runs use the same selectors; ``docs/reference/selection.md`` describes them. A selector
returns the technique of the next time step, and learns from the executed one.
"""
