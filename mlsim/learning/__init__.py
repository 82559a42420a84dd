"""Policies searched and learned from a log, classes of jobs, energy profiles (Zrigui 2021, chs. 5 to 7)."""
