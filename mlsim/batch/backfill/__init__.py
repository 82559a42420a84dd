"""Backfilling: greedy, EASY, reservations, the profile; the same code for every room."""
