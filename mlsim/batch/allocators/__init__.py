"""Nodes x resources: what fits, and on which nodes units go."""
