"""Nodes x resources as a room: allocation, and expected free resources over time.

It uses the columns and the allocators.
"""
