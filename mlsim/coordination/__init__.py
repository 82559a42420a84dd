"""What crosses the line between the batch level and the application level."""

from mlsim.coordination.forecast import ApplicationSimulator, Disturbance, Forecast, Kill, NodeSet
from mlsim.coordination.messages import JobCompleted, Message, NodeIdle

__all__ = [
    "ApplicationSimulator",
    "Disturbance",
    "Forecast",
    "JobCompleted",
    "Kill",
    "Message",
    "NodeIdle",
    "NodeSet",
]
