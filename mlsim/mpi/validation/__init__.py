"""Simulation against reality: a plan of loops, executed and simulated.

Uses everything of real runs.
"""
