"""Backfilling: greedy, EASY, reservations, the profile; the same code for every room.

It uses the order and the room.
"""
