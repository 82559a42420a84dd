"""The execution models for real: who computes chunks, and who hands them out.

Uses the loop and the transport.
"""
