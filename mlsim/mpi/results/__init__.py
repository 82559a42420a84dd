"""What a real loop leaves: a report, records, a run directory.

Uses the loop and the transport; knows no model.
"""
