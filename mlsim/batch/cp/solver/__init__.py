"""Models for CP-SAT, and calls of it.

They use the problem.
"""
