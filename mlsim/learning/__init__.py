"""Policies that are searched and learned from a log, and classes of jobs (Zrigui 2021, chs. 5 and 6)."""
