"""Values of keys: kinds, units, amounts, and the base of the sections that hold them.

Uses the words alone.
"""
