"""Sections of what a job executes: its loop, the costs, the technique.

Uses words and values; knows neither the machine nor jobs.
"""
