"""Execution models of a self-scheduled loop: one compiled event loop a module."""
