"""Rooms of machines: a pool of equal units, or nodes x resources."""
