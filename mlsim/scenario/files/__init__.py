"""Scenario files: read, checked and written, and the files that they name.

Uses all other rooms of the scenario.
"""
