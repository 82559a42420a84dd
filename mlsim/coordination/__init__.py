"""Messages and forecasts between the batch level and the application level."""

from mlsim.coordination.messages import (
    Answer,
    ApplicationSimulator,
    Disturbance,
    Forecast,
    JobCompleted,
    Kill,
    Message,
    MessageLog,
    NodeFailed,
    NodeIdle,
    NodeReturned,
    NodeSet,
    ReleaseAccepted,
    ReleaseRejected,
    ReleaseRequest,
    Sent,
)

__all__ = [
    "Answer",
    "ApplicationSimulator",
    "Disturbance",
    "Forecast",
    "JobCompleted",
    "Kill",
    "Message",
    "MessageLog",
    "NodeFailed",
    "NodeIdle",
    "NodeReturned",
    "NodeSet",
    "ReleaseAccepted",
    "ReleaseRejected",
    "ReleaseRequest",
    "Sent",
]
