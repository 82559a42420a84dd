"""Rooms of machines: a pool of equal units, or nodes x resources.

It uses the columns, usage of owners, the allocators and the matrix.
"""
