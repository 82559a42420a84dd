"""Execution models of a self-scheduled loop: one compiled event loop per module.

``docs/reference/loops.md`` describes them. ``run`` of each simulates one loop from time 0, when every PE
requests its first chunk, and returns the number of chunk rows. If a user-defined technique returned a size
below 1, it returns −1, or −2 if that was the technique between nodes.
"""
