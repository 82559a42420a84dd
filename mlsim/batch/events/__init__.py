"""What happens beside submissions and ends.

The handlers know the simulator as :class:`mlsim.batch.events.event_context.System` and no more than that.
"""
