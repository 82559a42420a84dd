"""Coordination of real runs: nodes without work are reported to an agent (RCA; Eleliemy 2021, ch. 6)."""
