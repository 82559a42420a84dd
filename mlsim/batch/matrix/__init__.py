"""Nodes x resources as a room: allocation, and expected free resources over time."""
