"""``mlsim loop``: one loop alone."""

from mlsim.cli.loop.command import loop

__all__ = ["loop"]
