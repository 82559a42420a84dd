"""The planners, one module each.

They use the problem and the solver.
"""
