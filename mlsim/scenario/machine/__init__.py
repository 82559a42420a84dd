"""Sections of the machine: nodes, network, failures, perturbations, power, resources.

Uses words and values; knows neither loops nor jobs.
"""
