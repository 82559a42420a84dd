"""Nodes x resources, as a room: who holds what, what is expected to be free and when.

It uses the columns and the allocators.
"""
