"""Handlers of events, one per concern.

Each is a :class:`mlsim.batch.events.handler.Handler` on the state and the clock, and knows no batch system.
"""
