"""Execution models of a self-scheduled loop: one compiled event loop a module.

``docs/reference/loops.md`` describes them. ``run`` of each simulates one loop from time 0, when every PE
asks for its first chunk, and returns how many chunks have rows; or, if a technique of the user gave a size
below 1, −1, between nodes −2.
"""
