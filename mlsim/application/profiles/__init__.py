"""Profiles of iteration costs; the module of counted ones loads kernels."""
