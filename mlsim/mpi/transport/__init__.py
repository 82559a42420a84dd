"""How ranks reach each other: windows, relays, clocks, waiting, who is where.

Uses MPI, and nothing of other rooms of real runs.
"""
